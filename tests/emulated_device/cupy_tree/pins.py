"""Which CuPy: the one place that names its version and what its archives must be."""

from __future__ import annotations

from typing import Final

VERSION: Final = "14.2.0"
WHEEL: Final = "cupy-cuda13x"
"""The distribution that carries the compiled modules."""
SDIST: Final = "cupy"
"""The distribution that carries the source text and CuPy's own tests."""

CUDA_VERSION: Final = 13000
"""What CuPy's modules are built for; the runtime library says the same."""

CYTHON: Final = ">=3.2,<3.3"
"""The range in the sdist's own build requirements."""

SHA256: Final[dict[str, str]] = {
    "cupy-14.2.0.tar.gz": "cfed725e612178cfbdbf62f4a3a598b60edecbbca718c0d4580c21a16ae4a62c",
    "cupy_cuda13x-14.2.0-cp310-cp310-manylinux2014_x86_64.whl": "351e33aa4260dd89359b243cc8ce3ee76c08e4ed4d1bafaaaec2b882f42e59f8",
    "cupy_cuda13x-14.2.0-cp311-cp311-manylinux2014_x86_64.whl": "f94843e54500a9c8c169135f79572bfaba946efe4f7178e834c227280c1b0c12",
    "cupy_cuda13x-14.2.0-cp312-cp312-manylinux2014_x86_64.whl": "9aafadbe29db3d4285026044aafeb28f2a3de4bd0df70718ec6892b7d27a4ded",
    "cupy_cuda13x-14.2.0-cp313-cp313-manylinux2014_x86_64.whl": "5b79a606f6639d9bed74ef7072f36756a95a804c86d7adb367b39307ac771600",
}
"""The archives that the tree is built from, and nothing else."""

LABEL: Final = f"CuPy {VERSION}, rebuilt modules, host-compiled kernels"
"""How every result of this tree is to be named."""
