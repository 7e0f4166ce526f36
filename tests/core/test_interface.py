"""The contract's own types: names, modes, ids, arguments, and the abstract class."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphcap
from graphcap.interface import (
    CaptureStatus,
    DeviceType,
    GraphCaptureMode,
    GraphImplArgs,
    GraphImplInterface,
    MempoolId,
    capture_mode,
    device_type_name,
)

# PyTorch's printed names, from its DeviceType list
_PYTORCH = ["CPU", "CUDA", "XPU", "HPU", "MTIA", "PRIVATEUSEONE", "HIP", "MPS", "XLA", "META", "IPU"]


@pytest.mark.parametrize("name", _PYTORCH)
def test_known_device_types(name: str) -> None:
    """Design 1: the names that PyTorch prints are there, in any case, as attributes and in ``known()``."""
    assert DeviceType(name.lower()) == name
    assert getattr(DeviceType, name) == name
    assert name in list(DeviceType.known())


@given(st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,20}", fullmatch=True))
def test_device_types_are_an_open_set(name: str) -> None:
    """Design 1: any identifier is accepted; names compare, hash and print as their upper-case text."""
    found = DeviceType(name)
    assert found == DeviceType(name.upper()) == name.upper()
    assert hash(found) == hash(DeviceType(name.swapcase()))
    assert device_type_name(name) == name.upper()
    assert device_type_name(found, lower_case=True) == name.lower()
    assert pickle.loads(pickle.dumps(found)) == found
    assert copy.deepcopy(found) == found


@pytest.mark.parametrize("name", ["", "cuda:1", "1cuda", "_cuda", "cu da", "cuda-1", "gerät", "cuda:"])
def test_what_is_no_device_type(name: str) -> None:
    """Design 1: an index or anything that is no identifier is refused."""
    with pytest.raises(ValueError, match="device type"):
        DeviceType(name)


@pytest.mark.parametrize("name", [None, 1, b"cuda", ["cuda"]])
def test_device_type_of_another_type(name: Any) -> None:
    """DeviceType: not a string, a TypeError."""
    with pytest.raises(TypeError):
        DeviceType(name)


def test_numbers_of_the_modes() -> None:
    """Design 1: the modes' numbers and the driver's status numbers."""
    assert {mode.name: int(mode) for mode in GraphCaptureMode} == {
        "DEFAULT": 0,
        "GLOBAL": 1,
        "THREAD_LOCAL": 2,
        "RELAXED": 3,
    }
    assert [int(status) for status in (CaptureStatus.NONE, CaptureStatus.ACTIVE, CaptureStatus.INVALIDATED)] == [
        0,
        1,
        2,
    ]


@pytest.mark.parametrize("mode", list(GraphCaptureMode))
def test_modes_by_name_and_number(mode: GraphCaptureMode) -> None:
    """Design 1: a mode, its number, or its lower-case name."""
    assert capture_mode(mode) is capture_mode(int(mode)) is capture_mode(mode.name.lower()) is mode


@pytest.mark.parametrize("mode", ["Global", "GLOBAL", "thread-local", "", " relaxed", 4, -1])
def test_unknown_modes(mode: Any) -> None:
    """Design 1: anything else is a ValueError that lists the modes."""
    with pytest.raises(ValueError, match=r"default.*global.*thread_local.*relaxed"):
        capture_mode(mode)


@pytest.mark.parametrize("mode", [None, 1.0, True, b"global"])
def test_modes_of_another_type(mode: Any) -> None:
    """capture_mode: a TypeError."""
    with pytest.raises(TypeError):
        capture_mode(mode)


def test_pool_ids() -> None:
    """Design 1: a named pair; the alias is the same class; ``(0, 0)`` is none."""
    assert MempoolId(3, 0) == (3, 0)
    assert MempoolId(3, 0).first == 3
    assert MempoolId(0, 4).second == 4
    assert graphcap.MempoolId_t is MempoolId
    assert graphcap.interface.NO_POOL == (0, 0)


def test_user_pool_ids_are_issued_one_by_one() -> None:
    """Design 1: ``(0, n)`` from a counter."""
    first, second = graphcap.graph_pool_handle(), graphcap.graph_pool_handle()
    assert isinstance(first, MempoolId)
    assert first.first == second.first == 0
    assert second.second == first.second + 1


def test_args() -> None:
    """Design 1: frozen, keyword-only, ``keep_graph`` is false."""
    assert GraphImplArgs().keep_graph is False
    assert GraphImplArgs(keep_graph=True).keep_graph is True
    make: Any = GraphImplArgs
    with pytest.raises(TypeError):
        make(True)
    with pytest.raises(dataclasses.FrozenInstanceError):
        GraphImplArgs().keep_graph = True  # type: ignore[misc]  # that it is refused is what is tested


def test_the_eight_methods() -> None:
    """Design 1: exactly these, all abstract, with these arguments."""
    methods = {
        "capture_begin": ["self", "pool", "capture_mode"],
        "capture_end": ["self"],
        "instantiate": ["self"],
        "replay": ["self"],
        "reset": ["self"],
        "pool": ["self"],
        "enable_debug_mode": ["self"],
        "debug_dump": ["self", "path"],
    }
    assert GraphImplInterface.__abstractmethods__ == {*methods, "__init__"}
    for name, parameters in methods.items():
        assert list(inspect.signature(getattr(GraphImplInterface, name)).parameters) == parameters
    begin = inspect.signature(GraphImplInterface.capture_begin).parameters
    assert begin["pool"].default == (0, 0)
    assert begin["capture_mode"].default is GraphCaptureMode.DEFAULT


def test_every_method_is_documented_for_a_backend_writer() -> None:
    """Issue 2, item 2: docstrings with what may raise."""
    for name in GraphImplInterface.__abstractmethods__:
        assert len(inspect.getdoc(getattr(GraphImplInterface, name)) or "") > 40


def test_interface_cannot_be_built() -> None:
    """Design 1: it is abstract."""
    make: Any = GraphImplInterface
    with pytest.raises(TypeError):
        make(GraphImplArgs())


def test_a_bare_implementation_cannot_be_copied_or_pickled() -> None:
    """Design 1: what every implementation inherits."""

    class Bare(GraphImplInterface):
        def __init__(self, args: GraphImplArgs) -> None: ...
        def capture_begin(self, pool: MempoolId = MempoolId(0, 0), capture_mode: Any = 0) -> None: ...  # noqa: B008  # immutable
        def capture_end(self) -> None: ...
        def instantiate(self) -> None: ...
        def replay(self) -> None: ...
        def reset(self) -> None: ...
        def pool(self) -> MempoolId:
            return MempoolId(1, 0)

        def enable_debug_mode(self) -> None: ...
        def debug_dump(self, path: Any) -> None: ...

    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="Bare"):
            duplicate(Bare(GraphImplArgs()))
