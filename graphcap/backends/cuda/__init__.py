"""The CUDA backend: NVIDIA's driver API through cuda-python. See ``docs/cuda.md``.

Reading order: ``_driver`` (loads and calls the driver, maps errors), ``_calls`` and ``_graph_calls`` (the driver's functions
with types), ``context``, ``captures`` (what the driver forgets), ``stream`` and ``event``, ``graph`` (the implementation);
then ``source`` and ``buffer`` (memory), ``operands`` and ``launch`` (arguments), ``host_calls``, ``trash`` (deferred
destruction), ``describe`` (topology), ``nodes`` (updates), ``conditional``.

Importing this package loads no driver; the first graph, stream or status query does.
"""

from graphcap.backends.cuda.backend import CUDABackend, cuda_backend
from graphcap.backends.cuda.graph import INSTANTIATE_FLAGS, CUDAGraphImpl

__all__ = ["INSTANTIATE_FLAGS", "CUDABackend", "CUDAGraphImpl", "cuda_backend"]
