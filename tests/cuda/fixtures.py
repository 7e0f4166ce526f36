"""The CUDA backend's part in the conformance suite."""

from __future__ import annotations

import functools
import gc
import os
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

import graphcap
from graphcap.backends.cuda import cuda_backend
from graphcap.testing import BackendFixtures, scalar
from tests.cuda import kit
from tests.emulated_device import control

__all__ = ["CUDAFixtures"]


class CUDAFixtures(BackendFixtures):
    """CUDA over whichever driver answers; on the emulated one every handle is counted."""

    device = "cuda"
    seeds: ClassVar[Sequence[int]] = (int(os.environ.get("GRAPHCAP_TEST_SEED", "0")),)
    _before: dict[str, int]

    def start(self, seed: int) -> None:
        kit.kernel("axpy_to")
        if kit.is_emulated():
            control.seed(seed)
            self._before = _handles()

    def finish(self) -> None:
        self.__dict__.pop("helper", None)  # the suite's own stream
        if kit.is_emulated():
            assert _handles() == self._before, "handles of the driver leaked"

    def launch_axpy(self, stream: graphcap.Stream, out: Any, a: Any, x: Any, y: Any) -> None:
        count = out.nbytes // 4
        stream.launch(kit.kernel("axpy_to"), -(-count // 128), 128, out, scalar(a), x, y, np.int32(count))


@functools.cache
def _old_objects_set_aside() -> None:
    """What exists by now is left out of later collections, which would otherwise cost more than the tests."""
    gc.collect()
    gc.freeze()


def _handles() -> dict[str, int]:
    """Live objects of the driver once everything that may go is gone."""
    _old_objects_set_aside()
    gc.collect()
    graphcap.synchronize("cuda")
    cuda_backend().trim()
    return {
        kind: count
        for kind, count in control.counts().items()
        if kind not in ("library", "module", "kernel", "function")
    }
