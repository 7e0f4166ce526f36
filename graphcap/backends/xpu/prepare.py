"""From a call of a user (copy, fill, launch) to a piece of work: everything is checked here, before SYCL sees it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from graphcap.backends.parameter_uses import Use
from graphcap.backends.parameters import Scalar, current_value, fitted
from graphcap.backends.xpu import _dpctl, kernels
from graphcap.backends.xpu.buffer import XPUBuffer
from graphcap.backends.xpu.operands import Operand, kernel_argument, pattern_of, resolve, sizes
from graphcap.backends.xpu.work import CopyWork, FillBytesWork, KernelWork, Target, Work
from graphcap.errors import UnsupportedError
from graphcap.topology import NodeKind

__all__ = ["Prepared", "prepare_copy", "prepare_fill", "prepare_launch"]

_SNAPSHOT_BYTES: Final = 64 * 1024
"""Up to this size a host array is copied at once, so that the caller may change it right after the call (as on CUDA)."""
_FILLS: Final = {
    1: ("fill_u8", np.uint8),
    2: ("fill_u16", np.uint16),
    4: ("fill_u32", np.uint32),
    8: ("fill_u64", np.uint64),
    16: ("fill_u128", np.uint64),  # two halves
}


@dataclass(frozen=True)
class Prepared:
    """A piece of work, ready to be submitted or recorded.

    Attributes
    ----------
    buffers
        The graphcap buffers that it uses. Their memory is reused in stream order, so eager work need not keep them.
    keep
        What else must live until eager work is done.
    waits
        An eager caller must wait for the work: it uses host memory that is the caller's again when the call returns.
    """

    work: Work
    buffers: tuple[XPUBuffer, ...] = ()
    keep: tuple[object, ...] = ()
    waits: bool = False


def prepare_copy(dst: Any, src: Any, *, snapshot: bool) -> Prepared | None:
    """A copy of all bytes; ``None`` if there is nothing to do. See :meth:`XPUStream.copy` for what is raised.

    Parameters
    ----------
    snapshot
        Copy small host sources at once, for eager work. A graph reads the array itself at every replay.
    """
    target, source = resolve(dst, "copy() destination", writable=True), resolve(src, "copy() source")
    if target.nbytes != source.nbytes:
        raise ValueError(f"copy(): the destination has {target.nbytes} bytes, the source {source.nbytes}.")
    if target.order != source.order and _dimensions(target) > 1 and _dimensions(source) > 1:
        raise ValueError("copy(): one array lies in C order, the other in Fortran order. Make them alike first.")
    if target.nbytes == 0 or (target.is_usm and target.pointer == source.pointer):
        return None
    if target.is_usm and source.is_usm and abs(target.pointer - source.pointer) < target.nbytes:
        raise ValueError("copy(): the destination overlaps the source. Copy through a third buffer.")
    memory, waits = source.memory, not (target.is_usm and source.is_usm)
    if snapshot and target.is_usm and not source.is_usm and source.nbytes <= _SNAPSHOT_BYTES:
        memory, waits = source.memory.copy(), False
    direction = f"{'D' if source.is_usm else 'H'}to{'D' if target.is_usm else 'H'}"
    params = {"bytes": target.nbytes, "direction": direction}
    work = CopyWork(target.memory, memory, target.nbytes, params, (target.owner, source.owner))
    return _prepared(work, [target, source], extra=(memory,), waits=waits)


def prepare_fill(dst: Any, value: Any, target: Target) -> Prepared | None:
    """A fill; ``None`` if there is nothing to fill. See :meth:`XPUStream.fill` for what is raised."""
    operand = resolve(dst, "fill() destination", writable=True)
    if operand.nbytes and not operand.is_usm:
        raise TypeError("fill(): the memory is the host's own. Fill it with NumPy, or in a host_call().")
    pattern = pattern_of(current_value(value), operand.dtype)
    if operand.nbytes == 0:
        return None
    params = {
        "bytes": operand.nbytes,
        "value": np.frombuffer(pattern, operand.dtype)[0].item(),
        "element_bytes": len(pattern),
    }
    work: Work
    if target.extension is not None and len(set(pattern)) == 1 and not isinstance(value, Scalar):
        owners = (operand.owner, operand.memory)
        work = FillBytesWork(operand.pointer, pattern[0], operand.nbytes, params, owners)
    else:
        work = _fill_by_kernel(operand, pattern, params, target, value if isinstance(value, Scalar) else None)
    return _prepared(work, [operand])


def _fill_by_kernel(
    operand: Operand, pattern: bytes, params: dict[str, Any], target: Target, scalar: Scalar | None
) -> Work:
    size = len(pattern)
    if size not in _FILLS:
        raise UnsupportedError("XPU", f"fill() of items of {size} bytes", "pattern", "Use stream.copy() instead.")
    name, word = _FILLS[size]
    if operand.pointer % np.dtype(word).itemsize:
        raise ValueError(f"fill(): the address {operand.pointer:#x} is not aligned to items of {size} bytes.")
    count = operand.nbytes // size
    scalars = [*np.frombuffer(pattern, word), np.uint64(count)]
    slots = []
    if scalar is not None:
        where = f"{scalar} in a fill of {operand.dtype} items"
        for index in range(len(scalars) - 1):
            pack = partial(_packed_word, operand.dtype, np.dtype(word), index, where)
            slots.append((index + 1, Use(scalar, where, pack)))
    return KernelWork(
        kernels.load(target.queue, "fill", name),
        [operand.memory, *(kernel_argument(scalar, index)[0] for index, scalar in enumerate(scalars, 1))],
        (count,),
        None,
        name="memset",
        params=params,
        owners=(operand.owner,),
        kind=NodeKind.MEMSET,
        slots=slots,
    )


def _packed_word(dtype: np.dtype[Any], word: np.dtype[Any], index: int, where: str, value: Any) -> Any:
    return kernel_argument(np.frombuffer(fitted(value, dtype, where).tobytes(), word)[index], index + 1)[0]


def _packed_argument(dtype: np.dtype[Any], position: int, where: str, value: Any) -> Any:
    return kernel_argument(fitted(value, dtype, where)[()], position)[0]


def prepare_launch(kernel: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Prepared:
    """A kernel launch. See :meth:`XPUStream.launch` for what is taken and what is raised."""
    arguments, global_size, local_size = _launch_options(args, options)
    if not _dpctl.is_kernel(kernel):
        raise TypeError(f"launch(): the kernel must be a dpctl.program.SyclKernel, not {type(kernel).__name__}.")
    name = str(kernel.get_function_name())
    if kernel.num_args != len(arguments):
        # SYCL would go on with what an earlier launch left in the missing places.
        raise ValueError(f"launch(): kernel {name!r} takes {kernel.num_args} arguments, not {len(arguments)}.")
    everything = sizes(global_size, "the global size")
    group = None if local_size is None else sizes(local_size, "the local size")
    _check_group(kernel, name, everything, group)
    converted = [kernel_argument(value, position) for position, value in enumerate(arguments)]
    slots = []
    for position, value in enumerate(arguments):
        if isinstance(value, Scalar):
            assert value.dtype is not None, "checked with the conversion"
            where = f"{value} in argument {position} of kernel {name!r}"
            slots.append((position, Use(value, where, partial(_packed_argument, value.dtype, position, where))))
    params: dict[str, Any] = {"global_size": everything}
    if group is not None:
        params["grid"] = tuple(whole // part for whole, part in zip(everything, group, strict=True))
        params["block"] = group
    work = KernelWork(
        kernel,
        [argument for argument, _ in converted],
        everything,
        group,
        name=name,
        params=params,
        owners=tuple(arguments),
        slots=slots,
    )
    return _prepared(work, [operand for _, operand in converted if operand is not None])


def _prepared(work: Work, operands: list[Operand], *, extra: tuple[object, ...] = (), waits: bool = False) -> Prepared:
    buffers = tuple(op.owner for op in operands if isinstance(op.owner, XPUBuffer))
    keep = tuple(op.owner for op in operands if not isinstance(op.owner, XPUBuffer))
    return Prepared(work, buffers, (*keep, *extra), waits)


def _dimensions(operand: Operand) -> int:
    shape = getattr(operand.owner, "shape", ())
    return sum(extent != 1 for extent in shape)


def _launch_options(args: tuple[Any, ...], options: dict[str, Any]) -> tuple[list[Any], Any, Any]:
    usage = "It takes (kernel, args, global_size, local_size=None)."
    names = ("args", "global_size", "local_size")
    if len(args) > len(names):
        raise TypeError(f"launch(): too many arguments. {usage}")
    given = dict(zip(names, args, strict=False))
    for name, value in options.items():
        if name not in names:
            raise TypeError(f"launch(): unknown option {name!r}. {usage}")
        if name in given:
            raise TypeError(f"launch(): {name!r} was given twice. {usage}")
        given[name] = value
    if given.get("args") is None or given.get("global_size") is None:
        raise TypeError(f"launch(): the arguments or the global size are missing. {usage}")
    if not isinstance(given["args"], (list, tuple)):
        raise TypeError(f"launch(): args must be a list or a tuple, not {type(given['args']).__name__}.")
    return list(given["args"]), given["global_size"], given.get("local_size")


def _check_group(kernel: Any, name: str, everything: tuple[int, ...], group: tuple[int, ...] | None) -> None:
    if group is None:
        return
    if len(group) != len(everything):
        raise ValueError(
            f"launch(): the local size {group} has not as many dimensions as the global size {everything}."
        )
    if any(whole % part for whole, part in zip(everything, group, strict=True)):
        raise ValueError(f"launch(): the local size {group} does not divide the global size {everything}.")
    items = int(np.prod(group))
    if items > kernel.work_group_size:
        raise ValueError(
            f"launch(): kernel {name!r} runs at most {kernel.work_group_size} work-items per group, not {items}."
        )
