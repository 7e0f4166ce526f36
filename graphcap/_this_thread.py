"""Which thread is this? An answer that no later thread gets again.

``threading.get_ident()`` may be given to a new thread as soon as an earlier one has ended, and mostly is. What belongs to the thread that
began it (a capture, a scope of memory) would then be taken for the newcomer's. A mark is one object for each thread instead, and
whoever keeps it keeps it from being used again.

A thread that Python did not start has a mark for as long as Python keeps its thread state: a library that calls in from a thread of its
own may get another one with each call.
"""

from __future__ import annotations

import threading
from typing import Final

__all__ = ["ThreadMark", "thread_mark"]


class ThreadMark:
    """One thread, compared by identity."""

    __slots__ = ("__weakref__", "_name")

    def __init__(self) -> None:
        self._name = threading.current_thread().name

    def __repr__(self) -> str:
        return f"<mark of thread {self._name!r}>"


_own: Final = threading.local()


def thread_mark() -> ThreadMark:
    """The mark of the calling thread: the same object at every call on it, and on no other thread ever."""
    try:
        found: ThreadMark = _own.mark
    except AttributeError:
        found = _own.mark = ThreadMark()
    return found
