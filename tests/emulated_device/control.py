"""What tests see of the emulated driver, and what they can make it do.

All functions act on the library that :func:`tests.emulated_device.loader.load` loaded; with a real driver they raise
:class:`NotEmulatedError`.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from . import loader

_DECLARATIONS = """
typedef struct { const char *name; uint64_t thread; uint64_t stream; int result; } graphcap_call;
typedef struct { const char *kind; int64_t live; } graphcap_count;
void graphcap_emulator_fail(const char *name, long nth, int code);
void graphcap_emulator_latency(const char *name, long microseconds);
void graphcap_emulator_reset_faults(void);
uint64_t graphcap_emulator_calls(graphcap_call *out, uint64_t capacity);
void graphcap_emulator_clear_calls(void);
void graphcap_emulator_logging(int on);
uint64_t graphcap_emulator_note(uint64_t index, char *out, uint64_t capacity);
uint64_t graphcap_emulator_counts(graphcap_count *out, uint64_t capacity);
int graphcap_emulator_memory_limit(uint64_t bytes, int device);
void graphcap_emulator_seed(uint64_t seed);
uint64_t graphcap_emulator_get_seed(void);
int graphcap_emulator_protection(int on);
int graphcap_emulator_abi(const char *name, int version);
"""


class NotEmulatedError(RuntimeError):
    """The process uses a real driver, or has not loaded one."""


class Call(NamedTuple):
    """One call of a driver function."""

    name: str  #: as the driver documents it, without a version suffix
    thread: int  #: the system's number of the calling thread
    stream: int  #: the stream argument, or 0
    result: int  #: what the call returned


@functools.cache
def _library() -> tuple[Any, Any]:
    if loader.load() != "emulated" or loader.loaded_library is None:
        raise NotEmulatedError("the emulated driver is not in use: set GRAPHCAP_TEST_DRIVER=emulated")
    import cffi

    ffi = cffi.FFI()
    ffi.cdef(_DECLARATIONS)
    return ffi, ffi.dlopen(str(loader.loaded_library))


def counts() -> dict[str, int]:
    """Live handles by kind, allocations, open captures and unfinished work. Primary contexts and default pools do not count."""
    ffi, lib = _library()
    room = lib.graphcap_emulator_counts(ffi.NULL, 0)
    out = ffi.new("graphcap_count[]", room)
    lib.graphcap_emulator_counts(out, room)
    return {ffi.string(one.kind).decode(): int(one.live) for one in out}


def calls() -> list[Call]:
    """The calls since :func:`clear_calls`, oldest first (the newest 200000)."""
    ffi, lib = _library()
    room = lib.graphcap_emulator_calls(ffi.NULL, 0)
    out = ffi.new("graphcap_call[]", max(room, 1))
    got = min(room, lib.graphcap_emulator_calls(out, room))
    return [Call(ffi.string(one.name).decode(), one.thread, one.stream, one.result) for one in out[0:got]]


def notes() -> list[str]:
    """What the driver had to say beyond result codes: why work failed (with the node's name), which function is missing."""
    ffi, lib = _library()
    text = ffi.new("char[]", 1000)
    out = []
    for index in range(lib.graphcap_emulator_note(0, ffi.NULL, 0)):
        lib.graphcap_emulator_note(index, text, 1000)
        out.append(ffi.string(text).decode("utf-8", "replace"))
    return out


def clear_calls() -> None:
    """Forget the calls and notes so far."""
    _library()[1].graphcap_emulator_clear_calls()


def logging(on: bool) -> None:
    """Record calls, or not (for benchmarks)."""
    _library()[1].graphcap_emulator_logging(on)


def fail(name: str, nth: int = 1, code: int = 999) -> None:
    """Make the ``nth`` call of ``name`` from now return ``code`` without doing anything; later calls work again."""
    _library()[1].graphcap_emulator_fail(name.encode(), nth, code)


def latency(name: str, microseconds: int) -> None:
    """Make every call of ``name`` take this much longer."""
    _library()[1].graphcap_emulator_latency(name.encode(), microseconds)


def reset_faults() -> None:
    """Disarm :func:`fail` and :func:`latency`, and forget errors that stick to contexts."""
    _library()[1].graphcap_emulator_reset_faults()


def memory_limit(nbytes: int, device: int = 0) -> None:
    """Let the device have no more than ``nbytes`` bytes of memory; 0 puts its own total back.

    Raises
    ------
    ValueError
        There is no such device.
    """
    if not _library()[1].graphcap_emulator_memory_limit(nbytes, device):
        raise ValueError(f"no emulated device {device}")


def seed(n: int) -> None:
    """Draw the order of work from this seed, from now on."""
    _library()[1].graphcap_emulator_seed(n)


def current_seed() -> int:
    """The seed in use."""
    return int(_library()[1].graphcap_emulator_get_seed())


def protection(on: bool) -> bool:
    """Close device memory to the host while no emulated work runs, or leave it open. Returns the setting before."""
    return bool(_library()[1].graphcap_emulator_protection(on))


def abi(name: str, version: int) -> int:
    """The version of the interface that a request for ``name`` at ``version`` gets; 0 where it gets a stub."""
    return int(_library()[1].graphcap_emulator_abi(name.encode(), version))
