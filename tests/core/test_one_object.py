"""A backend is built once, whoever comes first, and a failure is not remembered."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from graphcap.backends.base import one_object


def test_threads_that_come_at_once_get_one_object() -> None:
    """Building may let other threads run."""

    def build() -> Any:
        time.sleep(0.01)
        return object()

    get: Any = one_object(build)
    start = threading.Barrier(8)
    found: list[Any] = []

    def ask() -> None:
        start.wait()
        found.append(get())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(one) for one in found}) == 1


def test_a_failure_is_not_remembered() -> None:
    """What was missing may be there the next time."""
    answers: list[Any] = [RuntimeError("missing"), "backend"]

    def build() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    get: Any = one_object(build)
    with pytest.raises(RuntimeError, match="missing"):
        get()
    assert get() == get() == "backend"
