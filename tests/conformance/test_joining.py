"""How fixtures and suite are put together: names, seeds, skips."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from graphcap.interface import GraphCaptureMode
from graphcap.testing import BackendFixtures, conformance_classes
from graphcap.testing.case import ConformanceCase, needs, needs_mode
from tests.conformance.cpu_fixtures import CPUFixtures


class Seeded(CPUFixtures):
    seeds: ClassVar[Sequence[int]] = (3, 5)


def test_classes_are_bound_to_the_fixtures() -> None:
    """docs/conformance.md: one class of behaviours each, with a name that pytest collects, in the caller's module."""
    classes = conformance_classes(Seeded)
    documented = {"Contract", "States", "Recording", "Forks", "BeginAndEnd", "Invalidation", "BodyErrors", "Lifetimes"}
    documented |= {"Graphs", "Pools", "Allocation", "Comfort", "Programs", "Parameters", "Segments"}
    assert {name.removeprefix("Test") for name in classes} == documented
    for name, found in classes.items():
        assert found.__name__ == name
        assert found.__module__ == __name__
        assert found.fixtures_class is Seeded
        assert found.__doc__


@pytest.mark.parametrize(("fixtures", "expected"), [(Seeded, (3, 5)), (CPUFixtures, None)])
def test_suite_runs_once_for_each_seed(fixtures: type[BackendFixtures], expected: Any) -> None:
    """docs/conformance.md: ``seeds``."""

    class Metafunc:
        seeds: Any = None

        def parametrize(self, name: str, values: Any, **options: Any) -> None:
            assert name == "fx"
            assert options["indirect"]
            self.seeds = tuple(values)

    metafunc: Any = Metafunc()
    conformance_classes(fixtures)["TestGraphs"]().pytest_generate_tests(metafunc)
    assert metafunc.seeds == expected


def test_every_test_names_its_rule() -> None:
    """Every test of the suite says in its docstring which rule it is about, or its class does where one issue is behind all."""
    sources: tuple[str, ...] = (
        "Rule",
        "rule",
        "Design",
        "S-",
        "E-",
        "F4",
        "Issue",
        "capture:",
        "Stream",
        "Event",
        "Graph",
        "Buffer",
    )
    sources += ("graphcap.", "Capability", "…")
    for case in conformance_classes(CPUFixtures).values():
        if (case.__doc__ or "").startswith("Issue"):
            continue
        for name in dir(case):
            if name.startswith("test_"):
                text = getattr(case, name).__doc__ or ""
                assert any(word in text for word in sources), f"{case.__name__}.{name}: {text!r}"


def test_skips_name_the_capability() -> None:
    """Skips only by declared capability, with that reason."""

    @needs("graph_update")
    def update() -> None: ...

    @needs_mode(GraphCaptureMode.GLOBAL)
    def mode() -> None: ...

    fx = CPUFixtures()
    with pytest.raises(pytest.skip.Exception, match="backend CPU lacks the capability 'graph_update'"):
        ConformanceCase._skip_unless_able(fx, update)
    ConformanceCase._skip_unless_able(fx, mode)
