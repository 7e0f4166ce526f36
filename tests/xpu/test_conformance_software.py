"""The software tier keeps the contract and the rules of the design."""

from __future__ import annotations

from graphcap.testing import conformance_classes
from tests.xpu.tiers import SoftwareFixtures

globals().update(conformance_classes(SoftwareFixtures))
