"""Reductions and scans with CUB: not on the emulated device. Takes the place of the extension of that name, which carries NVIDIA's
runtime. CuPy comes here only when the accelerator "cub" was switched on; without it, its own kernels do the same work."""

from cupy._core.core cimport _ndarray_base

available = True
CUB_support_dtype = {}
CUB_sum_support_dtype = {}
CUB_support_dtype_without_half = []
CUB_support_dtype_with_half = []
CUB_sum_support_dtype_without_half = []
CUB_sum_support_dtype_with_half = []

globals().update(getattr(cupy_cub_op, '__members__'))


def get_build_version():
    """No CUB is built in."""
    return 0


cpdef _get_cuda_build_version():
    return CUPY_CUDA_VERSION


def _refuse(name):
    raise NotImplementedError(
        f'cupy.cuda.cub.{name}: CUB is not on the emulated device (its extension carries NVIDIA\'s runtime). '
        'Leave the accelerator "cub" off here (CUPY_ACCELERATORS="", cupy._core.set_routine_accelerators([]), '
        'set_reduction_accelerators([])): CuPy then uses its own kernels. Test this part on a GPU.')


cpdef cub_reduction(_ndarray_base arr, op, axis=None, dtype=None, _ndarray_base out=None, keepdims=False):
    _refuse('cub_reduction')


cpdef cub_scan(_ndarray_base arr, op):
    _refuse('cub_scan')


cpdef cub_histogram(_ndarray_base x, _ndarray_base y, bins):
    _refuse('cub_histogram')


cpdef Py_ssize_t _preprocess_array(tuple arr_shape, tuple reduce_axis, tuple out_axis, str order) except -1:
    _refuse('_preprocess_array')


# CuPy's block reduction (accelerator "cub" of reductions) asks this first, and would go on to compile CUB's headers.
cpdef bint _cub_device_segmented_reduce_axis_compatible(tuple cub_axis, Py_ssize_t ndim, str order) except -1:
    _refuse('block reduction')


def device_reduce(_ndarray_base x, op, tuple reduce_axis, tuple out_axis, out=None, bint keepdims=False):
    _refuse('device_reduce')


def device_segmented_reduce(_ndarray_base x, op, tuple reduce_axis, tuple out_axis, out=None, bint keepdims=False,
                            Py_ssize_t contiguous_size=0):
    _refuse('device_segmented_reduce')


def device_scan(_ndarray_base x, op):
    _refuse('device_scan')


def device_histogram(_ndarray_base x, _ndarray_base y, bins):
    _refuse('device_histogram')
