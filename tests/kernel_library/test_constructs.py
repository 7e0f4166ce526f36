"""Each construct of CUDA C++ that the rewriter handles, by the values it gives."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulated_device.harness import Board
from tests.kernel_library.kit import Module, compiled

N = 96


def reversed_by_block(values: np.ndarray, block: int) -> np.ndarray:
    return values.reshape(-1, block)[:, ::-1].ravel()


def test_the_kinds_of_kernel_declarations(board: Board) -> None:
    """All in one program: each adds its own number, and knows its own name."""
    module = Module(
        board,
        r"""
        extern "C" __global__ void plain(int *x) { x[threadIdx.x] += 1; }
        extern "C" { __global__ void in_block(int *x) { x[threadIdx.x] += 2; } namespace inner { } }
        extern "C" void __global__ behind_void(int *x) { x[threadIdx.x] += 3; }
        extern "C" __global__ void __launch_bounds__(64, 2) bounded(int *x) { x[threadIdx.x] += 4; }
        __launch_bounds__(32) extern "C" __global__ void bounded_first(int *x) { x[threadIdx.x] += 5; }
        extern "C" __global__ __attribute__((used)) void attributed(int *x) { x[threadIdx.x] += 6; }
        extern "C" __global__ void declared(int *x);
        extern "C" __global__ void declared(int *x) { x[threadIdx.x] += 7; }
        extern "C" __global__ void noexcepted(int *x) noexcept { x[threadIdx.x] += 8; }
        extern "C"
        __global__
        void
        on_many_lines(int *x,
                      int by
                     )
        {
            x[threadIdx.x] += by;
        }
        extern "C" __global__ void never(int *x);
        """,
    )
    names = ["plain", "in_block", "behind_void", "bounded", "bounded_first", "attributed", "declared", "noexcepted"]
    start = np.arange(32, dtype=np.int32)
    for number, name in enumerate(names, 1):
        np.testing.assert_array_equal(module.run(name, start, block=32)[0], start + number)
    np.testing.assert_array_equal(module.run("on_many_lines", start, np.int32(40), block=32)[0], start + 40)
    assert not module.has("never")


@pytest.mark.parametrize("name", ["exp", "y1", "index", "select", "read", "main_", "malloc_usable_size", "j0"])
def test_a_kernel_may_be_called_like_a_function_of_the_c_library(board: Board, name: str) -> None:
    source = 'extern "C" __global__ void %s(double *x) { x[threadIdx.x] = exp(x[threadIdx.x]); }'
    values = np.linspace(-3, 3, 32)
    out = Module(board, source % name).run(name, values, block=32)[0]
    np.testing.assert_allclose(out, np.exp(values), rtol=1e-14)


def test_a_kernel_beside_a_device_template_of_its_name(board: Board) -> None:
    module = Module(
        board,
        """
        template <class T> __device__ T swap_bytes(T x) { return x << 8 | (x >> 8 & 255); }
        extern "C" __global__ void swap_bytes(unsigned short *x) { x[threadIdx.x] = swap_bytes(x[threadIdx.x]); }
        """,
    )
    values = np.arange(64, dtype=np.uint16) * 517
    np.testing.assert_array_equal(module.run("swap_bytes", values, block=64)[0], values.byteswap())


def test_static_shared_memory(board: Board) -> None:
    module = Module(
        board,
        """
        template <class T> __device__ void turn(T *x) {
            __shared__ T kept[32];
            kept[threadIdx.x] = x[threadIdx.x];
            __syncthreads();
            x[threadIdx.x] = kept[blockDim.x - 1 - threadIdx.x];
        }
        extern "C" __global__ void turn_floats(float *x) { turn(x + blockIdx.x * blockDim.x); }
        extern "C" __global__ void turn_shorts(short *x) { turn(x + blockIdx.x * blockDim.x); }
        extern "C" __global__ void spellings(int *x) {
            volatile __shared__ int first;
            static __shared__ int second;
            __shared__ static int third;
            __shared__ __align__(16) int table[2][32], *where;
            if (threadIdx.x == 0) { first = 1; second = 2; third = 3; where = &table[1][0]; }
            __syncthreads();
            table[1][threadIdx.x] = first + second + third;
            __syncthreads();
            x[threadIdx.x] = where[blockDim.x - 1 - threadIdx.x] + (int)threadIdx.x;
        }
        __shared__ int outside[32];
        extern "C" __global__ void of_the_namespace(int *x) {
            outside[threadIdx.x] = x[threadIdx.x];
            __syncthreads();
            x[threadIdx.x] = outside[31 - threadIdx.x];
        }
        """,
    )
    for name, dtype in [("turn_floats", np.float32), ("turn_shorts", np.int16)]:
        values = np.arange(N).astype(dtype)
        np.testing.assert_array_equal(module.run(name, values, grid=3, block=32)[0], reversed_by_block(values, 32))
    values = np.arange(32, dtype=np.int32)
    np.testing.assert_array_equal(module.run("spellings", values, block=32)[0], values + 6)
    np.testing.assert_array_equal(module.run("of_the_namespace", values, block=32)[0], values[::-1])


def test_dynamic_shared_memory(board: Board) -> None:
    module = Module(
        board,
        """
        extern "C" __global__ void plain(int *x) {
            extern __shared__ int kept[];
            kept[threadIdx.x] = x[threadIdx.x];
            __syncthreads();
            x[threadIdx.x] = kept[blockDim.x - 1 - threadIdx.x];
        }
        extern "C" __global__ void aligned(int *x) {
            extern __shared__ __align__(16) unsigned char bytes[];
            int *kept = reinterpret_cast<int *>(bytes) + 4;
            kept[threadIdx.x] = x[threadIdx.x];
            __syncthreads();
            x[threadIdx.x] = kept[blockDim.x - 1 - threadIdx.x] + (reinterpret_cast<size_t>(bytes) % 16 == 0);
        }
        template <class T> __device__ void turn(T *x) {
            extern __shared__ char room[];
            T *kept = (T *)room;
            kept[threadIdx.x] = x[threadIdx.x];
            __syncthreads();
            x[threadIdx.x] = kept[blockDim.x - 1 - threadIdx.x];
        }
        extern "C" __global__ void turn_doubles(double *x) { turn(x); }
        extern "C" __global__ void rows(int *x) {
            extern volatile __shared__ int
                table[][32];
            table[1][threadIdx.x] = x[threadIdx.x];
            __syncthreads();
            x[threadIdx.x] = table[1][31 - threadIdx.x];
        }
        extern "C" __global__ void two_names(int *x) {
            __shared__ extern int one[], other[];
            one[threadIdx.x] = x[threadIdx.x];
            __syncthreads();
            x[threadIdx.x] = other[31 - threadIdx.x];
        }
        """,
    )
    values = np.arange(32, dtype=np.int32)
    for name, extra in [("plain", 0), ("aligned", 1), ("rows", 0), ("two_names", 0)]:
        np.testing.assert_array_equal(module.run(name, values, block=32, shared=1024)[0], values[::-1] + extra)
    doubles = np.linspace(0, 1, 32)
    np.testing.assert_array_equal(module.run("turn_doubles", doubles, block=32, shared=256)[0], doubles[::-1])


def test_dynamic_shared_memory_declared_outside_of_functions(board: Board) -> None:
    module = Module(
        board,
        """
        extern __shared__ __align__(8) char room[];
        __device__ int *ints() { return reinterpret_cast<int *>(room); }
        __device__ int unrelated(int room) { return room + 1; }
        struct Holder { int room; };
        template <class T> struct __align__(8) User { __device__ static T first() { return *(T *)room; } };
        extern "C" __global__ void turn(int *x) {
            Holder holder = {1};
            ints()[threadIdx.x] = unrelated(x[threadIdx.x]) - holder.room;
            __syncthreads();
            x[threadIdx.x] = ((int *)room)[blockDim.x - 1 - threadIdx.x] + User<int>::first();
        }
        """,
    )
    values = np.arange(64, dtype=np.int32)
    np.testing.assert_array_equal(module.run("turn", values + 5, block=64, shared=256)[0], values[::-1] + 10)


def test_constant_memory_and_variables(board: Board) -> None:
    from cuda.bindings import driver as cu

    from tests.emulated_device.harness import ok

    module = Module(
        board,
        """
        __constant__ float factors[4] = {1, 2, 3, 4};
        __device__ __constant__ int shift = 5;
        __device__ unsigned long long calls;
        extern "C" __global__ void scale(float *x) {
            x[threadIdx.x] = x[threadIdx.x] * factors[threadIdx.x % 4] + shift;
            if (threadIdx.x == 0) calls += 1;
        }
        """,
    )
    values = np.arange(32, dtype=np.float32)
    np.testing.assert_array_equal(module.run("scale", values, block=32)[0], values * (np.arange(32) % 4 + 1) + 5)
    address, size = ok(cu.cuModuleGetGlobal(module.handle, b"factors"))
    assert size == 16
    new = np.full(4, 10, np.float32)
    ok(cu.cuMemcpyHtoD(address, new.ctypes.data, size))
    np.testing.assert_array_equal(module.run("scale", values, block=32)[0], values * 10 + 5)
    address, size = ok(cu.cuModuleGetGlobal(module.handle, b"calls"))
    assert (size, board.read(address, np.uint64, 1)[0]) == (8, 2)


def test_parameters(board: Board) -> None:
    """Sizes and alignments come from the kernel's type, however it is written."""
    program = compiled(
        """
        struct Mixed { char a; double b; short c; };
        struct __align__(16) Wide { float v[4]; };
        typedef void (*callback)(int, float);
        namespace inner { struct Local { int a, b; }; enum class Kind : char { one = 1, two };
        __global__ void in_namespace(int *x, Local l, Kind k) { x[0] = l.a + l.b + (int)k; } }
        extern "C" __global__ void many(double *out, const char a, Mixed m, const Wide w, bool yes, const float *__restrict__ in,
                                        const __grid_constant__ Mixed again, callback unused, int (*table)[3], long long l) {
            out[0] = a; out[1] = m.a + m.b + m.c; out[2] = w.v[0] + w.v[3]; out[3] = yes; out[4] = in[1];
            out[5] = again.c; out[6] = table[1][2]; out[7] = l;
        }
        __global__ void with_default(int *x, int by = (2, 3), int more = sizeof(int[2])) { x[0] += by + more; }
        """,
        expressions=("inner::in_namespace", "with_default"),
    )
    module = Module(board, program)
    mixed = np.dtype([("a", "i1"), ("b", "f8"), ("c", "i2")], align=True)
    assert mixed.itemsize == 24
    m = np.array((3, 0.5, 7), mixed)[()]
    wide = np.array(([1, 2, 3, 4],), np.dtype([("v", "f4", 4)]))[()]
    out = module.run(
        "many",
        np.zeros(8),
        np.int8(9),
        m,
        wide,
        np.bool_(True),
        np.array([1, 2.5], np.float32),
        m,
        np.uint64(0),
        np.arange(6, dtype=np.int32),
        np.int64(-(2**40)),
    )[0]
    np.testing.assert_array_equal(out, [9, 10.5, 5, 1, 2.5, 7, 5, -(2**40)])
    local = np.array((20, 4), np.dtype([("a", "i4"), ("b", "i4")]))[()]
    assert module.run("inner::in_namespace", np.zeros(1, np.int32), local, np.int8(2))[0][0] == 26
    assert module.run("with_default", np.zeros(1, np.int32), np.int32(3), np.int32(8))[0][0] == 11


def test_keywords_hidden_in_text_macros_and_comments(board: Board) -> None:
    module = Module(
        board,
        r"""
        #define KERNEL extern "C" __global__
        #define SHARED(type, name, n) __shared__ type name[n]
        #define BODY(name, text) KERNEL void name(int *x) { SHARED(int, kept, 32); /* __shared__ */ \
            kept[threadIdx.x] = x[threadIdx.x]; __syncthreads(); x[threadIdx.x] = kept[31 - threadIdx.x]; text }
        BODY(from_macro, x[threadIdx.x] += 1;)
        // __global__ void commented(int *x) { "
        /* extern "C" __global__ void commented_too(int *x) { } ' */
        __device__ const char text[] = "__global__ void quoted() { \" __shared__ int x[3];";
        __device__ const char raw[] = R"mark(__shared__ " )" __global__ {{{ )mark";
        __device__ const char brace = '{', quote = '\'', doubled = '"';
        extern "C" __global__ void lengths(int *x) {
            x[0] = sizeof text; x[1] = sizeof raw; x[2] = brace; x[3] = quote; x[4] = 1'000; x[5] = text[0]; x[6] = doubled;
        }
        #if 0
        extern "C" __global__ void left_out(int *x) { }
        #endif
        """,
    )
    values = np.arange(32, dtype=np.int32)
    np.testing.assert_array_equal(module.run("from_macro", values, block=32)[0], values[::-1] + 1)
    lengths = module.run("lengths", np.zeros(7, np.int32))[0].tolist()
    quoted, raw = '__global__ void quoted() { " __shared__ int x[3];', '__shared__ " )" __global__ {{{ '
    assert lengths == [len(quoted) + 1, len(raw) + 1, ord("{"), ord("'"), 1000, ord("_"), ord('"')]
    assert not any(module.has(name) for name in ("commented", "commented_too", "left_out", "quoted"))


def test_noinline_and_other_attributes(board: Board) -> None:
    module = Module(
        board,
        """
        __noinline__ __device__ int one(int x) { return x + 1; }
        __device__ __noinline__ int two(int x) { return x + 2; }
        __attribute__((__noinline__)) __device__ int three(int x) { return x + 3; }
        __device__ __forceinline__ int four(int x) { return x + 4; }
        static __device__ __inline__ int five(int x) { return x + 5; }
        extern "C" __global__ void all(int *x) { x[0] = one(two(three(four(five(x[0]))))); }
        """,
    )
    assert module.run("all", np.array([100], np.int32))[0][0] == 115


def test_launch_bounds_are_the_kernels(board: Board) -> None:
    from cuda.bindings import driver as cu

    from tests.emulated_device.harness import ok

    module = Module(
        board,
        compiled(
            """
            template <int n> struct Size { static const int value = n * 32; };
            extern "C" __global__ void __launch_bounds__(Size<2>::value, 4) bounded(int *x) { x[0] = 1; }
            namespace inner {
            template <class T> __global__ void __launch_bounds__(4 * 32) bounded_template(T *x) { x[0] = 1; }
            }
            """,
            expressions=("inner::bounded_template<short>",),
        ),
    )
    attribute = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
    assert ok(cu.cuFuncGetAttribute(attribute, module.function("bounded"))) == 64
    assert ok(cu.cuFuncGetAttribute(attribute, module.function("inner::bounded_template<short>"))) == 128


def test_blocks_and_threads_in_three_dimensions(board: Board) -> None:
    module = Module(
        board,
        """
        extern "C" __global__ void where(int *x) {
            int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
            int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
            x[block * blockDim.x * blockDim.y * blockDim.z + thread] = 1000 * block + thread;
        }
        """,
    )
    grid, block = (3, 2, 2), (4, 2, 3)
    expected = (1000 * np.arange(12)[:, None] + np.arange(24)).ravel()
    np.testing.assert_array_equal(module.run("where", np.zeros(288, np.int32), grid=grid, block=block)[0], expected)


def test_an_early_return_beside_a_barrier(board: Board) -> None:
    module = Module(
        board,
        """
        extern "C" __global__ void some(int *x, int n) {
            __shared__ int total;
            if (threadIdx.x == 0) total = 0;
            __syncthreads();
            if (threadIdx.x >= n) return;
            atomicAdd(&total, x[threadIdx.x]);
            __syncthreads();
            x[threadIdx.x] = total;
        }
        """,
    )
    values = np.arange(64, dtype=np.int32)
    expected = np.where(values < 40, values[:40].sum(), values)
    np.testing.assert_array_equal(module.run("some", values, np.int32(40), block=64)[0], expected)
