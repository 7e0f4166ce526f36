"""The native tier's extension: found prebuilt, found in the cache, or built on first use.

`load` gives the module ``_sycl_graph`` (its functions are described in ``_sycl_graph.cpp``) or raises
`BuildError` with one line of reason and one of cure. The result, good or bad, is kept for the process.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import logging
import threading
from pathlib import Path
from typing import Any, Protocol, cast

from graphcap.backends.xpu.native.build import BuildError, build_extension, cache_path, find_toolchain, packaged_path

__all__ = ["BuildError", "SyclGraph", "load"]

_log = logging.getLogger(__name__)


class SyclGraph(Protocol):
    """The functions of the extension. `Any` stands for a capsule: of a queue, an event, a graph, an executable."""

    SYCL_MAJOR: int

    def state(self, queue: Any, /) -> int: ...
    def support(self, queue: Any, /) -> int: ...
    def wait(self, queue: Any, /) -> None: ...
    def wait_event(self, event: Any, /) -> None: ...
    def is_idle(self, queue: Any, /) -> bool: ...
    def fill_bytes(self, queue: Any, pointer: int, value: int, count: int, events: list[Any], /) -> Any: ...
    def host_task(self, queue: Any, token: int, events: list[Any], /) -> Any: ...
    def set_host_dispatcher(self, dispatcher: Any, /) -> None: ...
    def close_host_tasks(self) -> None: ...
    def host_tasks_running(self) -> int: ...
    def begin(self, queue: Any, /) -> Any: ...
    def join(self, graph: Any, queue: Any, /) -> None: ...
    def end(self, graph: Any, /) -> None: ...
    def nodes(self, graph: Any, events: list[Any], /) -> tuple[list[tuple[int, list[int]]], list[int]]: ...
    def print(self, graph: Any, path: str, verbose: bool = True, /) -> None: ...
    def finalize(self, graph: Any, updatable: bool = False, /) -> Any: ...
    def update(self, executable: Any, graph: Any, /) -> None: ...
    def launch(self, executable: Any, queue: Any, host_tasks: int, /) -> Any: ...


_lock = threading.Lock()
_outcome: SyclGraph | BuildError | None = None


def load() -> SyclGraph:
    """The extension, built on first use. dpctl must be imported: it loads the SYCL runtime that this links with.

    Raises
    ------
    BuildError
        There is no built extension for this runtime, and none can be built.
    """
    global _outcome
    with _lock:
        if _outcome is None:
            try:
                _outcome = _find_or_build()
            except BuildError as error:
                _outcome = error
        if isinstance(_outcome, BuildError):
            raise _outcome
        return _outcome


def _find_or_build() -> SyclGraph:
    toolchain = find_toolchain()
    for path in (packaged_path(toolchain), cache_path(toolchain)):
        if path.is_file():
            return _import(path)
    path = cache_path(toolchain)
    _log.info("building the SYCL graph extension with %s into %s", toolchain.compiler[0], path)
    return _import(build_extension(toolchain, path))


def _import(path: Path) -> SyclGraph:
    name = f"{__name__}._sycl_graph"
    loader = importlib.machinery.ExtensionFileLoader(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    try:
        if spec is None:
            raise ImportError(f"{path} is not an extension module")
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except ImportError as error:
        raise BuildError(
            f"the built extension does not load ({error})", f"Delete {path} and try again; it is built anew."
        ) from error
    return cast("SyclGraph", module)
