"""Host calls: Python functions that run when a queue gets there, and the exceptions they raise.

In the native tier a SYCL host task carries a number and calls `dispatch` with it. The functions live here, held weakly:
a graph owns the calls of its nodes, so a dropped graph leaves nothing behind in this table. A call that is submitted
outside a graph is held until it has run.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from graphcap.backends.host_errors import HostErrors
from graphcap.errors import add_note

__all__ = ["HostCall", "dispatch"]

_tokens: Final = itertools.count(1)
_calls: Final[weakref.WeakValueDictionary[int, HostCall]] = weakref.WeakValueDictionary()
_submitted: Final[dict[int, HostCall]] = {}  # outside graphs, until they have run


class HostCall:
    """``fn(*args)``, to be run on the host any number of times."""

    __slots__ = ("__weakref__", "_args", "_errors", "_fn", "name", "token")

    def __init__(self, errors: HostErrors, fn: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._errors = errors
        self._fn = fn
        self._args = args
        self.name = _name(fn)
        self.token = next(_tokens)
        _calls[self.token] = self

    def hold_until_run(self) -> None:
        """Keep this call alive until it has run once: it belongs to no graph."""
        _submitted[self.token] = self

    def run(self) -> None:
        """Call the function; what it raises is kept for the next synchronise or replay."""
        try:
            self._fn(*self._args)
        except BaseException as error:  # there is no caller on this thread, not even for KeyboardInterrupt
            add_note(error, f"raised in the host call {self.name!r}")
            self._errors.keep(error)
        finally:
            _submitted.pop(self.token, None)


def dispatch(token: int) -> None:
    """Run the call of a host task. Called on a thread of the SYCL runtime."""
    call = _calls.get(token)
    if call is not None:
        call.run()


def _name(fn: Callable[..., Any]) -> str:
    if isinstance(fn, partial):
        return _name(fn.func)
    name = getattr(fn, "__qualname__", None) or getattr(fn, "__name__", None) or type(fn).__name__
    return str(name).rpartition("<locals>.")[2]
