"""The shipped conformance suite on the CUDA backend, for one seed of the emulated driver's scheduler.

``GRAPHCAP_TEST_SEED`` names another; ``test_conformance_seeds.py`` runs this file for 20 of them.
"""

from __future__ import annotations

from graphcap.testing import conformance_classes
from tests.cuda.fixtures import CUDAFixtures

globals().update(conformance_classes(CUDAFixtures))
