"""Host calls: Python functions that run when a stream gets there, and the exceptions they raise.

The driver is given one C function and a number for each call; the functions live here, held weakly. A graph owns the
calls of its nodes, so a dropped graph leaves nothing behind, and a number without a call is harmless. Handing Python
functions to the bindings instead would crash: bindings 13.4 free their record after the first run (rules H1, H5).
"""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable
from typing import Any, Final

from graphcap.backends.cuda import _driver as driver
from graphcap.backends.host_errors import HostErrors
from graphcap.errors import add_note

__all__ = ["HostCall", "call_of", "ever_used", "launch", "trampoline"]

_tokens: Final = itertools.count(1)
_calls: Final[weakref.WeakValueDictionary[int, HostCall]] = weakref.WeakValueDictionary()
_submitted: Final[dict[int, HostCall]] = {}  # outside graphs, until they have run


class HostCall:
    """``fn(*args)``, to be run on the host any number of times."""

    __slots__ = ("__weakref__", "_args", "_errors", "_fn", "name", "token")

    def __init__(self, errors: HostErrors, fn: Callable[..., Any], args: tuple[Any, ...]) -> None:
        if not callable(fn):
            raise TypeError(f"host_call(): expected something callable, not {type(fn).__name__}.")
        self._errors = errors
        self._fn = fn
        self._args = args
        self.name = _name(fn)
        self.token = next(_tokens)
        _calls[self.token] = self

    def set(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> None:
        """Call ``fn(*args)`` from the next run on."""
        if not callable(fn):
            raise TypeError(f"set_args(): expected something callable, not {type(fn).__name__}.")
        self._fn, self._args = fn, args
        self.name = _name(fn)

    def run(self) -> None:
        """Call the function; what it raises is kept for the next synchronise or replay."""
        try:
            self._fn(*self._args)
        except BaseException as error:  # there is no caller on this thread, not even for KeyboardInterrupt
            add_note(error, f"raised in the host call {self.name!r}")
            self._errors.keep(error)
        finally:
            _submitted.pop(self.token, None)


def call_of(token: int) -> HostCall | None:
    """The call behind a number that a host node carries."""
    return _calls.get(token)


def _run(token: Any) -> None:
    call = _calls.get(int(driver.ffi().cast("uintptr_t", token)))
    if call is not None:
        call.run()


@functools.cache
def trampoline() -> tuple[Any, int]:
    """The C function that the driver calls, and its address. Made once and never freed."""
    ffi = driver.ffi()
    made = ffi.callback("void(void *)", _run)
    return made, int(ffi.cast("uintptr_t", made))


def ever_used() -> bool:
    """Whether the driver may still call back into Python."""
    return trampoline.cache_info().currsize > 0


def launch(stream: int, call: HostCall) -> int:
    """Submit a call to a stream that does not capture; it is kept until it has run. Gives the driver's code."""
    function, _ = trampoline()
    submit = driver.entry("cuLaunchHostFunc", 10000, "int (*)(void *, void *, void *)")
    cast = driver.ffi().cast
    _submitted[call.token] = call
    code = submit(cast("void *", stream), function, cast("void *", call.token))
    if code:
        _submitted.pop(call.token, None)
    return code


def _name(fn: Callable[..., Any]) -> str:
    if isinstance(fn, functools.partial):
        return _name(fn.func)
    name = getattr(fn, "__qualname__", None) or getattr(fn, "__name__", None) or type(fn).__name__
    return str(name).rpartition("<locals>.")[2]
