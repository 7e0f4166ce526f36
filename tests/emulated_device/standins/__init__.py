"""Stand-ins for the CUDA libraries that CuPy links, on the emulated device.

Shared libraries of our own with the sonames and symbol versions that CuPy's wheel asks for. What they compute, they compute
by kernels launched on the caller's stream through the driver API: in the stream's order, captured like any kernel, without
synchronising where the real library does not. Every other name that the wheel links exists and returns the library's status
for what is not supported; none pretends success.

``names/`` lists what the wheel links, ``api/`` holds the libraries, ``kernels/`` what they launch, ``cupy_headers/`` what
CuPy's ``thrust.pyx`` and ``cub.pyx`` are compiled against in place of Thrust and CUB (``cupy_text.py``).
"""

from __future__ import annotations

from .builder import LIBRARIES, Library, build, libraries, load, names, refused

__all__ = ["LIBRARIES", "Library", "build", "libraries", "load", "names", "refused"]
