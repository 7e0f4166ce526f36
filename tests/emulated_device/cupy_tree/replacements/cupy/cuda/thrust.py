"""Sorting with Thrust: not on the emulated device. Takes the place of the extension of that name, which carries NVIDIA's runtime."""

from __future__ import annotations

import typing

available = True
"""CuPy asks this before it calls, and would otherwise say that Thrust is not installed: the refusals below say what is the case."""


def get_build_version() -> int:
    """No Thrust is built in."""
    return 0


def _refuse(name: str, instead: str) -> typing.NoReturn:
    raise NotImplementedError(
        f"cupy.cuda.thrust.{name}: Thrust is not on the emulated device (its extension carries NVIDIA's runtime). "
        f"Test this part on a GPU, or {instead}."
    )


def sort(dtype: object, data_start: int, keys_start: int, shape: object) -> typing.NoReturn:
    """Refuses: cupy.sort, partition, unique, median, percentile and what builds on them come here."""
    _refuse("sort", "sort on the host: cupy.asarray(numpy.sort(cupy.asnumpy(a)))")


def lexsort(dtype: object, idx_start: int, keys_start: int, k: int, n: int) -> typing.NoReturn:
    """Refuses: cupy.lexsort comes here."""
    _refuse("lexsort", "sort on the host: cupy.asarray(numpy.lexsort(cupy.asnumpy(keys)))")


def argsort(dtype: object, idx_start: int, data_start: int, keys_start: int, shape: object) -> typing.NoReturn:
    """Refuses: cupy.argsort and argpartition come here."""
    _refuse("argsort", "sort on the host: cupy.asarray(numpy.argsort(cupy.asnumpy(a)))")
