"""From a device type's name to what serves it: registered factories, the built-ins, and entry points of other packages.

Nothing is imported before it is asked for. A name is looked up among explicit registrations first, then the built-ins,
then the entry points of the group ``graphcap.graph_impls`` (name: the device type; value: ``module:factory``).
"""

from __future__ import annotations

import importlib
import importlib.metadata
import threading
import warnings
from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar, overload

from graphcap.backends.base import Backend, BackendStatus
from graphcap.errors import BackendNotFoundError, BackendUnavailableError, GraphcapWarning, UnsupportedError
from graphcap.interface import DeviceType, GraphImplArgs, GraphImplInterface

__all__ = [
    "ENTRY_POINT_GROUP",
    "available_backends",
    "backend_status",
    "create_graph_impl",
    "get_backend",
    "has_graph_impl",
    "known_backends",
    "register_graph_impl",
    "status_of",
    "unregister_graph_impl",
]

ENTRY_POINT_GROUP: Final = "graphcap.graph_impls"
GraphImplFactory: TypeAlias = Callable[[GraphImplArgs], GraphImplInterface]
_F = TypeVar("_F", bound=Callable[[GraphImplArgs], GraphImplInterface])

# Order: the one in which a device is chosen when the user names none.
_BUILT_IN: Final[dict[str, str]] = {
    "CUDA": "graphcap.backends.cuda:CUDAGraphImpl",
    "XPU": "graphcap.backends.xpu:XPUGraphImpl",
    "CPU": "graphcap.backends.cpu:CPUGraphImpl",
}

_lock = threading.RLock()
_registered: dict[str, GraphImplFactory | None] = {}  # None: taken away by unregister_graph_impl
_loaded: dict[str, GraphImplFactory] = {}
generation = 0
"""Grows with every change of the registry, so that look-ups can be remembered elsewhere."""
_entry_points: dict[str, importlib.metadata.EntryPoint] | None = None


@overload
def register_graph_impl(key: str, factory: _F, *, replace: bool = False) -> _F: ...
@overload
def register_graph_impl(key: str, factory: None = None, *, replace: bool = False) -> Callable[[_F], _F]: ...
def register_graph_impl(key: str, factory: _F | None = None, *, replace: bool = False) -> Any:
    """Register a factory of graph implementations for a device type; also a class decorator.

    Parameters
    ----------
    key
        The device type's name in any case; an index (``"cuda:1"``) is refused.
    factory
        Called with a :class:`GraphImplArgs`. An attribute ``backend`` (a function without arguments) leads to the
        :class:`graphcap.backends.base.Backend` that brings streams and memory.
    replace
        Allow to take the place of another factory.

    Raises
    ------
    ValueError
        `key` is no device type name, or is taken and `replace` is false.
    TypeError
        `factory` cannot be called.
    """
    name = str(DeviceType(key))
    if factory is None:
        return lambda given: register_graph_impl(name, given, replace=replace)
    if not callable(factory):
        raise TypeError(f"register_graph_impl({key!r}): the factory must be callable, not {type(factory).__name__}")
    with _lock:
        if not replace and has_graph_impl(name):
            raise ValueError(
                f"register_graph_impl({key!r}): {name} is registered already. Pass replace=True to replace it."
            )
        _registered[name] = factory
        _changed(name)
    return factory


def unregister_graph_impl(key: str) -> None:
    """Take a name out of the registry, whoever brought it; ``register_graph_impl`` brings a factory back.

    Raises
    ------
    BackendNotFoundError
        The name is not registered.
    """
    name = str(DeviceType(key))
    with _lock:
        if not has_graph_impl(name):
            raise BackendNotFoundError(name, known_backends())
        _changed(name)
        if name in _BUILT_IN or name in _found_entry_points():
            _registered[name] = None
        else:
            del _registered[name]


def has_graph_impl(device_type: str) -> bool:
    """Whether the name is registered. Imports nothing; whether it works here is :func:`backend_status`'s question."""
    name = str(DeviceType(device_type))
    with _lock:
        if name in _registered:
            return _registered[name] is not None
        return name in _BUILT_IN or name in _found_entry_points()


def create_graph_impl(device_type: str, args: GraphImplArgs | None = None) -> GraphImplInterface | None:
    """Build a graph implementation.

    Returns
    -------
    GraphImplInterface or None
        ``None`` only for a name that is not registered.

    Raises
    ------
    BackendUnavailableError
        The name is registered, but its library or its device is missing.
    """
    name = str(DeviceType(device_type))
    if not has_graph_impl(name):
        return None
    return _factory(name)(GraphImplArgs() if args is None else args)


def get_backend(name: str) -> Backend:
    """The backend behind a device type name: its streams, memory and capabilities.

    Raises
    ------
    BackendNotFoundError
        The name is not registered.
    BackendUnavailableError
        Its library or device is missing.
    UnsupportedError
        It was registered as a bare graph implementation.
    """
    key = str(DeviceType(name))
    if not has_graph_impl(key):
        raise BackendNotFoundError(key, known_backends())
    maker = getattr(_factory(key), "backend", None)
    if maker is None:
        raise UnsupportedError(key, "streams and memory", "backend", "Its factory needs an attribute `backend`.")
    found: Backend = maker()
    return found


def known_backends() -> list[str]:
    """All registered names, in the order in which a default device is chosen. Loads nothing."""
    with _lock:
        names = [*_BUILT_IN, *_found_entry_points(), *_registered]
        return [name for name in dict.fromkeys(names) if _registered.get(name, True) is not None]


def available_backends() -> list[str]:
    """The names usable here, best first. Loads the device libraries that are installed."""
    return [name for name, status in backend_status().items() if status.ok]


def backend_status() -> dict[str, BackendStatus]:
    """For each known name: usable or not, the reason and the cure. Never raises for a broken backend."""
    return {name: status_of(name) for name in known_backends()}


def status_of(name: str) -> BackendStatus:
    """One row of :func:`backend_status`."""
    try:
        return get_backend(name).status()
    except BackendUnavailableError as error:
        return BackendStatus(False, error.reason, error.cure, installed=not isinstance(error.__cause__, ImportError))
    except UnsupportedError:
        return BackendStatus(True, details={"note": "a bare graph implementation: no streams, no memory"})
    except Exception as error:  # a third party's backend may fail in any way; its state is what was asked for
        return BackendStatus(False, f"{type(error).__name__}: {error}", "Report it to the backend's author.")


def _changed(name: str) -> None:
    global generation
    _loaded.pop(name, None)
    generation += 1


def _factory(name: str) -> GraphImplFactory:
    with _lock:
        factory = _registered.get(name) or _loaded.get(name)
        if factory is None:
            target = _BUILT_IN.get(name) or _found_entry_points()[name].value
            factory = _loaded[name] = _load(name, target)
        return factory


def _load(name: str, target: str) -> GraphImplFactory:
    module, _, attribute = target.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise BackendUnavailableError(
            name, f"{target} cannot be imported: {error}", "Install what it needs."
        ) from error
    if not callable(found):
        raise BackendUnavailableError(name, f"{target} is not callable", "Report it to the backend's author.")
    factory: GraphImplFactory = found
    return factory


def _found_entry_points() -> dict[str, importlib.metadata.EntryPoint]:
    global _entry_points  # read once: the set of installed distributions does not change under a running process
    if _entry_points is None:
        found = importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)
        _entry_points, wrong = {}, []
        for point in found:
            try:
                _entry_points[str(DeviceType(point.name))] = point
            except ValueError as error:
                wrong.append(f"the entry point {point.name!r} ({point.value}) is passed over: {error}")
        for text in wrong:  # one distribution's mistake must not take the other backends away
            warnings.warn(text, GraphcapWarning, stacklevel=3)
    return _entry_points
