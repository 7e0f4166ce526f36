"""The hook of CuPy against a stand-in that has CuPy's stream and allocator interface and nothing else of CuPy.

It shows that the hook makes streams current, routes, frees and restores as it should. What real CuPy does with it,
``test_cupy.py`` asks on a GPU.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

_STAND_IN = """
import sys, threading, types
from tests.emulated_device import loader
loader.load()

cupy, cuda = types.ModuleType("cupy"), types.ModuleType("cupy.cuda")
cupy.cuda = cuda
tls = threading.local()

class ExternalStream:
    _graph_host_funcargs = None
    def __init__(self, ptr, device_id=-1): self.ptr, self.device_id = ptr, device_id
    def __enter__(self): stack().append(self); return self
    def __exit__(self, *a): stack().pop()
    def __cuda_stream__(self): return (0, self.ptr)
ExternalStream.__module__ = "cupy.cuda.stream"
null = ExternalStream(0)
def stack():
    if not hasattr(tls, "s"): tls.s = [null]
    return tls.s
cuda.ExternalStream = ExternalStream
cuda.get_current_stream = lambda device_id=-1: stack()[-1]

class Memory:  # frees when it dies, on whatever thread
    def __init__(self, size, malloc, free): self.free, self.ptr = free, malloc(size, 0)
    def __del__(self): self.free(self.ptr, 0)
class PythonFunctionAllocator:
    def __init__(self, malloc, free): self.m, self.f = malloc, free
    def malloc(self, size): return Memory(size, self.m, self.f)
cuda.PythonFunctionAllocator = PythonFunctionAllocator
def default(size): return ("default", size)
def get_allocator(): return getattr(tls, "a", None) or default
class using_allocator:
    def __init__(self, a): self.a = a
    def __enter__(self): self.before, tls.a = getattr(tls, "a", None), self.a
    def __exit__(self, *e): tls.a = self.before
cuda.get_allocator, cuda.using_allocator = get_allocator, using_allocator
alloc = lambda size: get_allocator()(size)

import graphcap
def install():
    sys.modules["cupy"], sys.modules["cupy.cuda"] = cupy, cuda
"""

_CASES = {
    "streams": """
install()
s, f = graphcap.Stream("cuda"), ExternalStream(graphcap.Stream("cuda").handle)
keep = graphcap.Stream("cuda"); f = ExternalStream(keep.handle)
with s:
    assert cuda.get_current_stream().ptr == s.handle
    with f:
        assert graphcap.current_stream("cuda").handle == f.ptr
        with s:
            assert graphcap.current_stream("cuda") is s
        assert graphcap.current_stream("cuda").handle == f.ptr
    with null:
        assert graphcap.current_stream("cuda").is_default
    assert graphcap.current_stream("cuda") is s
assert stack() == [null]
with graphcap.Stream.wrap(f, "cuda"):
    assert cuda.get_current_stream() is f
""",
    "routing": """
install()
s, other = graphcap.Stream("cuda"), graphcap.Stream("cuda")
mine = lambda size: ("mine", size)
m = s.allocate(4)
g = graphcap.Graph("cuda")
with using_allocator(mine):
    with s, g:
        a, b = alloc(1000), alloc(1000)
        first = a.ptr
        del a
        assert alloc(1000).ptr == first, "a temporary of the capture is used again by the capture"
        with other:
            assert alloc(5) == ("mine", 5), "a stream outside the capture keeps the user's allocator"
        s.fill(m, 1)
    assert get_allocator() is mine
assert get_allocator() is default
pool = [p for p in graphcap.memory_snapshot("cuda")["segments"] if tuple(p["pool_id"]) == g.pool()]
assert any(p["address"] <= b.ptr < p["address"] + p["total_size"] for p in pool)
g.replay(); g.reset()
before = graphcap.memory_stats("cuda")["allocated_bytes.current"]
t = threading.Thread(target=globals().pop, args=("b",)); t.start(); t.join()
assert graphcap.memory_stats("cuda")["allocated_bytes.current"] < before
try:
    with s, g:
        raise KeyError("own")
except KeyError:
    pass
assert get_allocator() is default and stack() == [null]
""",
    "late import": """
s = graphcap.Stream("cuda")
m = s.allocate(4)
g = graphcap.Graph("cuda")
with s:
    install()
    assert cuda.get_current_stream() is null
    with g:
        assert cuda.get_current_stream().ptr == s.handle
        owned = cuda.get_current_stream()._graph_host_funcargs
        assert owned == []
        s.fill(m, 1)
    assert cuda.get_current_stream() is null
""",
    "refusals": """
install()
class CUDARuntimeError(RuntimeError):
    status = 907
s = graphcap.Stream("cuda")
cases = [
    (NotImplementedError("calling cuBLAS API during stream capture is currently unsupported"), "cuBLAS"),
    (RuntimeError("cannot copy synchronously while the stream is capturing"), "Stream.copy"),
    (CUDARuntimeError("cudaErrorCapturedEvent: ..."), "Stream.copy"),
]
for error, word in cases:
    g = graphcap.Graph("cuda")
    try:
        with s, g:
            raise error
    except graphcap.CaptureForbiddenError as explained:
        assert explained.__cause__ is error and word in str(explained), explained
    else:
        raise AssertionError(error)
for error in (NotImplementedError("of something else"), ValueError("capture the flag"), KeyboardInterrupt()):
    try:
        with s, graphcap.Graph("cuda"):
            raise error
    except BaseException as same:
        assert same is error
""",
}


@pytest.mark.parametrize("case", _CASES)
def test_the_hook(case: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _STAND_IN + _CASES[case]], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
