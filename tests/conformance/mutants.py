"""CPU backends that are broken on purpose, and a runner that tries the conformance suite on each.

``python -m tests.conformance.mutants`` prints one line of JSON for each: name, exit code of pytest, first failed test.
Each runs in a process of its own, forked when everything is imported, so that none harms the next.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import graphcap
from graphcap._gc_pause import GCPause
from graphcap.backends.cpu import captures
from graphcap.backends.cpu.captures import Capture
from graphcap.backends.cpu.graph import CPUGraphImpl
from graphcap.backends.cpu.memory_view import plain
from graphcap.backends.cpu.stream import CPUStream
from graphcap.backends.cpu.work import Work
from graphcap.backends.graph_impl import GraphImpl, _Route
from graphcap.backends.host_errors import HostErrors
from graphcap.memory import CachingAllocator
from graphcap.testing import conformance_classes
from graphcap.topology import NodeKind
from tests.conformance.cpu_fixtures import CPUFixtures

__all__ = ["MUTANTS", "Mutant"]

_Patch = Callable[[pytest.MonkeyPatch], None]


class Mutant(NamedTuple):
    """A fault, and the class (for the control: the classes) of the suite that must notice it."""

    noticed_by: str
    apply: _Patch


def _nothing(*args: Any, **kwargs: Any) -> None:
    return None


def _without(owner: Any, name: str) -> _Patch:
    """The method does nothing."""
    return lambda patch: patch.setattr(owner, name, _nothing)


def _drops_dependencies(patch: pytest.MonkeyPatch) -> None:
    add = Capture.add

    def broken(self: Capture, on: CPUStream, work: Work) -> None:
        add(self, on, work)
        self.dependencies[-1] = self.dependencies[-1][1:]

    patch.setattr(Capture, "add", broken)


def _forgets_joins(patch: pytest.MonkeyPatch) -> None:
    join = captures.join

    def broken(on: CPUStream, event: Any) -> None:
        before = on.frontier
        joined = on.capture is not None
        join(on, event)
        if joined:
            on.frontier = before

    patch.setattr(captures, "join", broken)


def _runs_during_capture(patch: pytest.MonkeyPatch) -> None:
    submit = CPUStream.submit

    def broken(self: CPUStream, work: Work) -> None:
        if self.capture is not None:
            work.call()
        submit(self, work)

    patch.setattr(CPUStream, "submit", broken)


def _loses_fills(patch: pytest.MonkeyPatch) -> None:
    add = Capture.add

    def broken(self: Capture, on: CPUStream, work: Work) -> None:
        if work.kind is NodeKind.MEMSET:
            work.call, work.function = _nothing, None
        add(self, on, work)

    patch.setattr(Capture, "add", broken)


def _copies_too_early(patch: pytest.MonkeyPatch) -> None:
    copy = CPUStream.copy

    def broken(self: CPUStream, dst: Any, src: Any) -> None:
        copy(self, dst, plain(src, "source").copy() if self.capture is not None else src)

    patch.setattr(CPUStream, "copy", broken)


def _gives_back_during_capture(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CachingAllocator, "capture_began", _nothing)
    patch.setattr(CachingAllocator, "capture_ended", _nothing)


def _ends_on_any_thread(patch: pytest.MonkeyPatch) -> None:
    check = GraphImpl._check_end

    def broken(self: GraphImpl, on: graphcap.Stream) -> None:
        mode, self.mode = self.mode, graphcap.GraphCaptureMode.RELAXED
        try:
            check(self, on)
        finally:
            self.mode = mode

    patch.setattr(GraphImpl, "_check_end", broken)


def _forgets_the_cause(patch: pytest.MonkeyPatch) -> None:
    invalidate = Capture.invalidate

    def broken(self: Capture, cause: BaseException) -> None:
        invalidate(self, RuntimeError("something"))

    patch.setattr(Capture, "invalidate", broken)


def _breaks_only_the_stream(patch: pytest.MonkeyPatch) -> None:
    def broken(self: Capture) -> None:
        self.origin.capture, self.origin.frontier = None, ()
        if self in captures.open_captures:
            captures.open_captures.remove(self)

    patch.setattr(Capture, "close", broken)


def _routes_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_Route, "__call__", lambda self, handle: False)


def _forgets_nested_pools(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GraphImpl, "_end_routing", lambda self, allocator, pool: allocator.end_allocate_to_pool(pool))


def _warns_too_early(patch: pytest.MonkeyPatch) -> None:
    end = CPUGraphImpl._end

    def broken(self: CPUGraphImpl) -> int:
        count = end(self)
        if count == 0:
            warnings.warn("nothing captured", graphcap.EmptyGraphWarning, stacklevel=2)
        return count or 1

    patch.setattr(CPUGraphImpl, "_end", broken)


def _tells_no_kind(patch: pytest.MonkeyPatch) -> None:
    init = Work.__init__

    def broken(self: Work, kind: NodeKind, *args: Any, **kwargs: Any) -> None:
        init(self, NodeKind.KERNEL, *args, **kwargs)

    patch.setattr(Work, "__init__", broken)


MUTANTS: dict[str, Mutant] = {
    "healthy": Mutant("Recording Forks Invalidation Lifetimes Pools", _nothing),
    "drops dependencies": Mutant("Programs", _drops_dependencies),
    "forgets joins": Mutant("Forks", _forgets_joins),
    "runs work during the capture": Mutant("Recording", _runs_during_capture),
    "loses captured fills": Mutant("Recording", _loses_fills),
    "copies at capture time": Mutant("Recording", _copies_too_early),
    "keeps host errors to itself": Mutant("Recording", _without(HostErrors, "raise_first")),
    "does not invalidate": Mutant("Invalidation", _without(Capture, "invalidate")),
    "forgets what invalidated": Mutant("Invalidation", _forgets_the_cause),
    "replays on a capturing stream": Mutant("Invalidation", _without(CPUGraphImpl, "_check_replay")),
    "accepts an unjoined fork": Mutant("Forks", _without(Capture, "_check_joined")),
    "leaves forks in the capture": Mutant("Forks", _breaks_only_the_stream),
    "captures the default stream": Mutant("BeginAndEnd", _without(GraphImpl, "_check_stream")),
    "warns before it commits": Mutant("BeginAndEnd", _warns_too_early),
    "ignores debug mode": Mutant("Graphs", _without(GraphImpl, "enable_debug_mode")),
    "ends on any thread": Mutant("BeginAndEnd", _ends_on_any_thread),
    "leaves a failed capture open": Mutant("BodyErrors", _without(CPUGraphImpl, "_abandon")),
    "never gives a pool back": Mutant("Pools", _without(CachingAllocator, "release_pool")),
    "forgets nested pools": Mutant("Pools", _forgets_nested_pools),
    "allocates outside the pool": Mutant("Pools", _routes_nothing),
    "keeps freeable pools": Mutant("BeginAndEnd", _without(CachingAllocator, "release_freeable_pools")),
    "gives memory back during a capture": Mutant("Lifetimes", _gives_back_during_capture),
    "lets the collector run": Mutant("Lifetimes", _without(GCPause, "begin")),
    "retains nothing": Mutant("Lifetimes", _without(GraphImpl, "retain")),
    "keeps the template": Mutant("Lifetimes", _without(CPUGraphImpl, "_drop_template")),
    "calls every node a kernel": Mutant("Graphs", _tells_no_kind),
}


class _Listener:
    """Notes the first test that failed."""

    def __init__(self) -> None:
        self.failed = ""
        self.passed = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid.partition("::")[2]
        elif report.passed and report.when == "call":
            self.passed += 1


def _try(name: str) -> None:
    """In the forked child: break the backend, run the suite on it, print what came of it."""
    mutant = MUTANTS[name]
    listener = _Listener()
    selection = " or ".join(f"Test{name}" for name in mutant.noticed_by.split())
    with pytest.MonkeyPatch.context() as patch:
        mutant.apply(patch)
        options = ["-x", "-q", "--noconftest", "--assert=plain", "-W", "error", "-k", selection]
        with contextlib.redirect_stdout(io.StringIO()):
            code = pytest.main([*options, str(Path(__file__).with_name("test_cpu.py"))], plugins=[listener])
    print(json.dumps({"name": name, "code": int(code), "failed": listener.failed, "passed": listener.passed}))
    sys.stdout.flush()


def main() -> None:
    """Run every mutant, one after the other."""
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # loading them would take longer than the tests
    conformance_classes(CPUFixtures)  # imports the suite before the forks
    for name in MUTANTS:
        child = os.fork()
        if child == 0:
            signal.alarm(60)  # a broken backend may wait for ever
            try:
                _try(name)
            finally:
                os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
