"""Jitify: not on the emulated device. Takes the place of the extension of that name, which carries NVIDIA's runtime; CuPy 15 drops it."""

from __future__ import annotations

import typing


def get_build_version() -> str:
    """No Jitify is built in."""
    return "<none>"


def get_cuda_version() -> str:
    """The version that the runtime modules are built for, in Jitify's spelling."""
    return "13000"


def _refuse() -> typing.NoReturn:
    raise NotImplementedError(
        "cupy.cuda.jitify: Jitify is not on the emulated device (its extension carries NVIDIA's runtime). "
        "Leave out jitify=True, which CuPy has deprecated, or test this part on a GPU."
    )


def jitify(code: str, opt: tuple[str, ...]) -> typing.NoReturn:
    """Refuses: kernels with jitify=True come here."""
    _refuse()


def _init_module() -> typing.NoReturn:
    _refuse()


def _add_sources(sources: dict[str, str], is_str: bool = False) -> typing.NoReturn:
    _refuse()
