"""Nothing that goes through graphcap ends the process; what does so past graphcap is as the documentation says.

Everything runs in child interpreters: these are the cases in which SYCL or dpctl calls ``abort``.
"""

from __future__ import annotations

import signal

import pytest

from tests.xpu.child import run_child

COMMON = """
import gc, os, sys, threading, warnings
import numpy as np
import graphcap
from graphcap.backends.xpu import kernels
s = graphcap.Stream("xpu")
t = graphcap.Stream("xpu")
s.synchronize()
x = s.allocate(256, "shared")
s.fill(x, 0)
s.synchronize()
kernel = kernels.load(s, "arithmetic", "add_scalar_i32")
def work(stream=s):
    stream.launch(kernel, [x, np.int32(1), np.uint64(64)], 64)
"""

FORBIDDEN = (
    COMMON
    + """
before = s.record()
cases = {
    "synchronize": (lambda: s.synchronize(), graphcap.CaptureForbiddenError),
    "query": (lambda: s.query(), graphcap.CaptureForbiddenError),
    "device synchronize": (lambda: graphcap.synchronize("xpu"), graphcap.CaptureForbiddenError),
    "synchronize in a thread": (lambda: in_thread(s.synchronize), graphcap.CaptureForbiddenError),
    "event of the capture, synchronize": (lambda: s.record().synchronize(), graphcap.CaptureForbiddenError),
    "event of the capture, query": (lambda: s.record().query(), graphcap.CaptureForbiddenError),
    "event from before": (lambda: s.wait(before), graphcap.CaptureIsolationError),
    "work of a stream outside": (lambda: s.wait(t), graphcap.CaptureIsolationError),
    "replay into the capture": (lambda: other.replay(s), graphcap.CaptureForbiddenError),
    "default stream joins": (lambda: default.wait(s.record()), graphcap.CaptureForbiddenError),
}
failure = []
def in_thread(fn):
    def run():
        try:
            fn()
        except BaseException as error:
            failure.append(error)
    thread = threading.Thread(target=run); thread.start(); thread.join()
    raise failure.pop()
default = s.backend.default_stream(0)
other = graphcap.Graph("xpu")
with t, other:
    work(t)
for name, (call, error) in cases.items():
    t.record()
    graph = graphcap.Graph("xpu")
    with s:
        graph.capture_begin()
        work()
        try:
            call()
        except error:
            pass
        else:
            sys.exit(f"{name}: no error")
        try:
            graph.capture_end()
        except graphcap.CaptureInvalidatedError as ended:
            assert isinstance(ended.__cause__, error), name
        else:
            sys.exit(f"{name}: the capture was not broken")
    s.synchronize()
    with s, graph:
        work()
    graph.replay(s)
    s.synchronize()
    print("survived", name)
assert (np.asarray(x).view(np.int32) == len(cases)).all()
with s, graphcap.Graph("xpu") as first:
    work()
    kept = s.record()
for call in (lambda: t.wait(kept), kept.synchronize, kept.query):
    try:
        call()
    except graphcap.CaptureError:
        pass
    else:
        sys.exit("an event of an ended capture was taken")
work(t)
t.synchronize()
print("survived all", len(cases))
"""
)

EXITS = {
    "in the middle of a capture": "graph = graphcap.Graph('xpu'); s.__enter__(); graph.capture_begin(); work()",
    "with replays in flight": """
graph = graphcap.Graph("xpu")
with s, graph:
    for _ in range(50):
        work()
    s.host_call(sum, range(1000))
for _ in range(50):
    graph.replay(s)
""",
    "with a slow host call in flight": """
import time
s.host_call(time.sleep, 0.3)
work()
t.wait(s)
t.host_call(print, "ran")
""",
    "with a host call that outlasts the grace": """
from graphcap.backends.xpu import leaving
import time
leaving.GRACE_S = 0.1
s.host_call(time.sleep, 0.7)
s.host_call(print, "must not run")
""",
    "from a thread, with everything alive": """
keep = []
def run():
    graph = graphcap.Graph("xpu", keep_graph=True)
    with graphcap.Stream("xpu") as stream, graph:
        work(stream)
    graph.replay()
    keep.append((graph, stream))
thread = threading.Thread(target=run); thread.start(); thread.join()
""",
    "by an exception in a host call": """
def fail():
    raise ValueError("told to nobody, for nobody waits")
s.host_call(fail)
""",
}


@pytest.mark.parametrize("tier", ["native", "software"])
def test_forbidden_calls_are_errors(tier: str) -> None:
    """Issue: each is refused with the error of its rule before SYCL sees it, and the stream captures again at once."""
    done = run_child(FORBIDDEN, environment={"GRAPHCAP_XPU_TIER": tier})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "survived all 10" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("tier", ["native", pytest.param("software", marks=pytest.mark.slow)])
@pytest.mark.parametrize("how", EXITS)
def test_leaving_the_interpreter(tier: str, how: str) -> None:
    """The process ends in order, whatever is under way, and prints nothing."""
    done = run_child(COMMON + EXITS[how], environment={"GRAPHCAP_XPU_TIER": tier})
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    if "slow" in how:
        assert done.stdout == "ran\n"
    elif "outlasts" in how:
        assert done.stdout == ""


PAST_GRAPHCAP = {
    "queue.wait()": ("s.queue.wait()", signal.SIGABRT),
    "a synchronous copy to the host gives garbage": ("print('copied', x.memory.copy_to_host()[0])", 0),
    "a dependency from before the capture": (
        """
try:
    s.queue.submit_barrier([before])
    print("no error")
except Exception as error:
    print("error", type(error).__name__)
""",
        0,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("how", PAST_GRAPHCAP)
def test_what_dpctl_does_when_called_directly(how: str) -> None:
    """``docs/xpu.md`` lists what users can still break by calling dpctl on a recording queue. It is not made up."""
    call, expected = PAST_GRAPHCAP[how]
    done = run_child(
        COMMON
        + "before = s.queue.submit_barrier(); s.synchronize()\ngraph = graphcap.Graph('xpu'); s.__enter__()\n"
        + "graph.capture_begin(); work()\n"
        + call
    )
    assert done.returncode == (-expected if expected else 0), done.stdout + done.stderr
