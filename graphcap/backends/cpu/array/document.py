"""Write ``docs/numpy.md``: ``python -m graphcap.backends.cpu.array.document docs/numpy.md``."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from graphcap.backends.cpu.array._catalogue import (
    METHODS,
    MODULES,
    OTHER_VERSIONS,
    Entry,
    entry,
    method_entry,
    method_names,
    names,
)

__all__ = ["document", "rows"]

_HEAD = """# NumPy under capture

`xp = graphcap.array_namespace("cpu")` is NumPy for arrays whose work can be captured. Its arrays (`xp.ndarray`) are graphcap's own
type over plain NumPy memory, as `cupy.ndarray` is CuPy's. While the current stream captures, work on them is recorded; at any
other time it runs at once. Ordinary NumPy calls do the same: `np.sin(a)` and `xp.sin(a)` are one thing.

```python
import graphcap, numpy as np

xp = graphcap.array_namespace("cpu")
a = xp.asarray(data)                 # data: a plain ndarray, shared, not copied
with graphcap.capture("cpu") as g:
    b = np.sin(a) * 2 + a[::-1]      # recorded, nothing runs
data[...] = new_values
g.replay()                           # runs on the new values
print(b)
```

## Rules

- **Same results.** Type, shape, memory order and bits of a replay are those of eager NumPy on the same operands; what NumPy raises
  for types and shapes is raised at the recorded call, what it raises for values at `replay()`, with a note that names the node.
- **Zero-dimensional results are arrays**, where NumPy gives scalars. `a[0]` is a copy, as NumPy's scalar is. In-place operators
  on such a result follow the rules of arrays: `s = a.sum(); s += 1` changes the array `s`, and `i[0] += 0.5` on integers is
  refused.
- **Python scalars are baked in** with NumPy's promotion (a Python `2` is weak, `np.float64(2)` is not).
- **Plain `ndarray` operands are used by reference** and live as long as the graph; so are arrays made outside the capture. Lists
  become constants.
- **Calls whose operands are all plain `ndarray`s cannot be seen**: `np.sin(data)` runs at once, also inside a capture. At least one
  operand (or `out`) must be an array of this namespace; calls of `xp` functions are always seen.
- **Values are not there during capture.** What would need one (`float(a)`, `if a.any()`, `print(a)`, `np.asarray(a)`, iteration,
  `plain[:] = a`) raises `CaptureForbiddenError` at that call, before anything has happened: the capture goes on, and the error
  may be caught. `stream.launch(function, *arrays)` makes any Python function a node.
- **Memory.** Arrays made while capturing come from the graph's private pool; memory of an array that the program drops is used
  again within the capture. Results of eager work are NumPy's own memory; `xp.empty`, `xp.zeros`, … take theirs from the CPU's
  memory manager in either case. A view keeps its memory alive.
- **Floating-point error state.** `np.errstate` in force at capture belongs to each node.
- **Temporaries.** NumPy computes `a * b + c` on large arrays in place of the temporary. Its complex loops may then differ in the
  last bit from the same steps with names, which is what a capture records.
- **Memory that leaves the array** while no stream captures (`np.asarray(a)`, `a.flat`, `a.data`) is plain NumPy: later work on it
  is not seen.

## The array API standard

The namespace declares the edition of the installed NumPy (`xp.__array_api_version__`: 2022.12 with NumPy 2.0, 2023.12 with 2.1
and 2.2, 2024.12 from 2.3), and its functions are NumPy's. What is missing of it:

- while a stream captures: functions whose result's shape depends on values (`nonzero`, `unique_*`, `repeat` with an array,
  boolean-mask reads), `bool()`, `int()`, `float()`, `complex()`, `__index__` and `__dlpack__` (all work at other times);
- with NumPy 2.0: what the editions after 2022.12 add to the functions;
- `device` is `"cpu"` and nothing else; `to_device` takes no `stream`.

`array-api-compat` and `array-api-extra` accept the arrays, and SciPy's array-API functions (`SCIPY_ARRAY_API=1`) run on them
outside capture.

"""

_TABLE_HEAD = "| name | during capture | |\n| --- | --- | --- |\n"


def rows() -> list[tuple[str, str, Entry]]:
    """(heading, name, entry) of everything public in the installed NumPy, and of what other releases have."""
    found: list[tuple[str, str, Entry]] = []
    for name in sorted({*method_names(), *METHODS}):
        known = method_entry(name)
        if known is not None:
            found.append(("ndarray", name, known))
    for module in MODULES:
        listed = set(names(module))
        listed |= {name for name in OTHER_VERSIONS if name.rpartition(".")[0] == module and entry(name) is not None}
        for name in sorted(listed):
            known = entry(name)
            if known is not None:
                found.append((f"numpy.{module}" if module else "numpy", name, known))
    return found


def document() -> str:
    """The page, as Markdown."""
    parts = [_HEAD, f"## Every name\n\nMade with NumPy {np.__version__}.\n"]
    heading = ""
    for module, name, known in rows():
        if module != heading:
            heading = module
            title = "Methods and attributes of arrays" if module == "ndarray" else f"`{module}`"
            parts.append(f"\n### {title}\n\n{_TABLE_HEAD}")
        version = f" (NumPy {OTHER_VERSIONS[name]})" if name in OTHER_VERSIONS and module != "ndarray" else ""
        parts.append(f"| `{name}`{version} | {known.status} | {known.how} |\n")
    return "".join(parts)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(document(), encoding="utf-8")
