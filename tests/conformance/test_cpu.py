"""The CPU backend keeps the contract and the rules of the design."""

from __future__ import annotations

from graphcap.testing import conformance_classes
from tests.conformance.cpu_fixtures import CPUFixtures

globals().update(conformance_classes(CPUFixtures))
