"""All that a backend of its own needs to run the whole conformance suite."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphcap
from graphcap.testing import BackendFixtures, conformance_classes


def axpy(out: Any, a: Any, x: Any, y: Any) -> None:
    out.view(np.float32)[...] = a * x.view(np.float32) + y.view(np.float32)


class NPUFixtures(BackendFixtures):
    device = "npu"

    def launch_axpy(self, stream: graphcap.Stream, out: Any, a: float, x: Any, y: Any) -> None:
        stream.launch(axpy, out, np.float32(a), x, y)


globals().update(conformance_classes(NPUFixtures))
