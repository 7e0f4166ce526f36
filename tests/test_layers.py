"""Design section 2: a module imports only from its own layer or from one below; every import statement is read.

Imports inside functions count as well, since a cycle that is put off is still a cycle. What is imported for the type
checker alone does not: it is never executed.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_PACKAGE = _ROOT / "graphcap"

# The longest prefix that fits decides. The root package is what users import, so it sees all; nothing imports it.
_LAYERS: dict[str, int] = {
    "graphcap": 7,
    "graphcap.__main__": 7,
    "graphcap.errors": 0,
    "graphcap._typing": 0,
    "graphcap._files": 0,
    "graphcap.interface": 1,
    "graphcap.topology": 1,
    "graphcap._capture_state": 1,
    "graphcap._this_thread": 1,
    "graphcap.dot": 2,
    "graphcap.memory": 2,
    "graphcap.registry": 3,
    "graphcap.backends": 3,
    "graphcap.backends.cpu": 4,
    "graphcap.backends.cuda": 4,
    "graphcap.backends.xpu": 4,
    "graphcap._device": 5,
    "graphcap._gc_pause": 5,
    "graphcap._graph": 5,
    "graphcap._capture": 5,
    "graphcap._callables": 5,
    "graphcap._pool_order": 5,
    "graphcap._trees": 5,
    "graphcap._inputs": 5,
    "graphcap._user_line": 5,
    "graphcap._segments": 5,
    "graphcap._segment_topology": 5,
    "graphcap._steps": 5,
    "graphcap._memory_api": 5,
    "graphcap.inspection": 6,
    "graphcap.interop": 6,
    "graphcap.testing": 6,
    "graphcap.cli": 6,
}

# The suite is written against what users import; the command line and the inspection tools may be too.
_USERS_OF_THE_WHOLE = ("graphcap.testing", "graphcap.cli", "graphcap.__main__")

# A library -> the only modules that may import it (design sections 2 and 7, issue 5)
_ONLY_IN: dict[str, tuple[str, ...]] = {
    "ctypes": (),
    "torch": (),
    # array_namespace("cuda") hands out CuPy itself, when the user asks for it; the hook is for users who have it already
    "cupy": ("graphcap.interop.cupy", "graphcap.backends.cuda.backend"),
    "cupyx": ("graphcap.interop.cupy",),
    "cuda": ("graphcap.backends.cuda", "graphcap.interop.cuda_core"),
    "numba": ("graphcap.interop.numba", "graphcap.interop._numba_guard"),
    "rmm": ("graphcap.interop.rmm",),
    "jax": (),
    "dpctl": ("graphcap.backends.xpu",),
    "dpnp": ("graphcap.backends.xpu",),
    "pytest": ("graphcap.testing",),
    "hypothesis": (),
}


@functools.cache
def _modules() -> list[tuple[str, Path]]:
    found = []
    for path in sorted(_PACKAGE.rglob("*.py")):
        parts = path.relative_to(_ROOT).with_suffix("").parts
        found.append((".".join(parts[:-1] if parts[-1] == "__init__" else parts), path))
    return found


def _layer(module: str) -> int:
    prefix = module
    while prefix not in _LAYERS:
        assert prefix, f"{module} is no module of graphcap"
        prefix = prefix.rpartition(".")[0]
    return _LAYERS[prefix]


def _imports(module: str, path: Path) -> Iterator[tuple[int, str]]:
    """Every module that is imported at run time, with its line; names that are modules themselves are followed."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    known = {name for name, _ in _modules()}
    for node in _run_time(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module if path.name == "__init__.py" else module.rpartition(".")[0]
                for _ in range(node.level - 1):
                    package = package.rpartition(".")[0]
                base = f"{package}.{base}" if base else package
            names = [f"{base}.{alias.name}" for alias in node.names]
            inner = [name for name in names if name in known]
            yield from ((node.lineno, name) for name in inner)
            if len(inner) < len(names):
                yield node.lineno, base
        elif isinstance(node, ast.Call) and _called(node) in ("import_module", "__import__") and node.args:
            target = node.args[0]
            if isinstance(target, ast.Constant) and isinstance(target.value, str):
                yield node.lineno, target.value


def _run_time(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those under ``if TYPE_CHECKING:``."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            for other in child.orelse:
                yield other
                yield from _run_time(other)
            continue
        yield child
        yield from _run_time(child)


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def test_imports_point_downwards() -> None:
    """Design 2: from its own layer or below, at module level and inside functions."""
    wrong = []
    for module, path in _modules():
        for line, name in _imports(module, path):
            if name.partition(".")[0] != "graphcap" or module == "graphcap":
                continue
            if name == "graphcap" and module.startswith(_USERS_OF_THE_WHOLE):
                continue
            if _layer(name) > _layer(module):
                wrong.append(f"{module}:{line} imports {name} (layer {_layer(name)} from layer {_layer(module)})")
    assert wrong == []


def test_libraries_have_their_places() -> None:
    """Design 2 and 7: no ctypes and no PyTorch at all; device libraries in their backends; test tools in the suite."""
    wrong = []
    for module, path in _modules():
        for line, name in _imports(module, path):
            places = _ONLY_IN.get(name.partition(".")[0])
            if places is not None and not any(module == place or module.startswith(place + ".") for place in places):
                wrong.append(f"{module}:{line} imports {name}")
    assert wrong == []


def test_one_file_alone_imports_the_driver_bindings() -> None:
    """Design 2, issue 5: in ``backends/cuda`` one file alone imports ``cuda.bindings``."""
    files = {
        path.name
        for module, path in _modules()
        for _, name in _imports(module, path)
        if name == "cuda" or name.startswith("cuda.bindings")
    }
    assert len(files) <= 1, files


def test_backends_do_not_know_one_another() -> None:
    """Design 2: what the CPU, CUDA and XPU share is in the layer below them."""
    wrong = []
    for module, path in _modules():
        own = module.split(".")[:3]
        if own[:2] != ["graphcap", "backends"] or _layer(module) != 4:
            continue
        for line, name in _imports(module, path):
            other = name.split(".")[:3]
            if name.startswith("graphcap.") and _layer(name) == 4 and other != own:
                wrong.append(f"{module}:{line} imports {name}")
    assert wrong == []


def test_nobody_compares_a_backends_name() -> None:
    """Design 2: capabilities are asked for; a comparison with a backend's name is a hidden special case."""
    wrong = []
    for module, path in _modules():
        if module.startswith(("graphcap.backends.", "graphcap.interop", "graphcap.cli")) and _layer(module) != 3:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare):
                values = {part.value for part in ast.walk(node) if isinstance(part, ast.Constant)}
                touches = {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}
                if values & {"CUDA", "XPU", "CPU", "cuda", "xpu", "cpu"} and "name" in touches:
                    wrong.append(f"{module}:{node.lineno}")
    assert wrong == []


def test_no_module_has_the_name_of_a_public_function() -> None:
    """Design 2: so that ``graphcap.capture`` is never a module by accident; and there is no ``utils``."""
    import graphcap

    names = {path.stem for _, path in _modules() if path.parent == _PACKAGE}
    functions = {name for name in graphcap.__all__ if callable(getattr(graphcap, name))}
    assert not names & functions
    assert not [path for _, path in _modules() if path.stem in ("utils", "util", "helpers", "common", "misc")]


def test_the_reader_of_imports_sees_them_all(tmp_path: Path) -> None:
    """The test itself: relative, inner, aliased and computed imports are seen; those for the type checker are not."""
    path = tmp_path / "sample.py"
    path.write_text(
        "from __future__ import annotations\n"
        "import ctypes.util as u\n"
        "from . import registry\n"
        "from ..errors import GraphError\n"
        "if TYPE_CHECKING:\n    import torch\nelse:\n    import cupy\n"
        "def f():\n    from graphcap import topology, _graph\n"
        "    importlib.import_module('dpctl')\n"
    )
    found = {name for _, name in _imports("graphcap.backends.sample", path)}
    assert found == {
        "__future__",
        "ctypes.util",
        "graphcap.backends",
        "graphcap.errors",
        "cupy",
        "graphcap.topology",
        "graphcap._graph",
        "dpctl",
    }
