"""Barriers for kernels of CuPy's that have none.

``cupy.partition`` and ``argpartition`` sort by a kernel whose 32 threads read what the others wrote without a barrier between: it
counts on a warp that goes in lockstep, which CUDA has not promised since Volta. Threads of the emulated device run one after
the other, so that the result would be wrong without a word. The barriers are put into CuPy's own text before it is compiled.
"""

from __future__ import annotations

import re
import string
import types
from typing import Any, Final

_LOOPS: Final = re.compile(r"for \((?:ptrdiff_t j = i; j < \(y - x\) / 2; j \+= 32|int s = i; s < u; s \+= 32)\) \{")
"""The loops that a warp shares: one step of the bitonic sort, and the merge of two sorted pieces."""


def with_barriers(text: str) -> str:
    """Kernel text with a barrier of the warp before and after each loop that the warp shares.

    Raises
    ------
    ValueError
        The text has other loops than the pinned CuPy's.
    """
    out, start, count = [], 0, 0
    for found in _LOOPS.finditer(text):
        end, depth = found.end(), 1
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        out += [text[start : found.start()], "__syncwarp(); ", text[found.start() : end], " __syncwarp();"]
        start, count = end, count + 1
    if count != 2:
        raise ValueError(
            f"a kernel of cupy.partition has {count} loops of the expected form, not 2: is this the pinned CuPy?"
        )
    return "".join([*out, text[start:]])


class _Template(string.Template):
    def __init__(self, template: str) -> None:
        super().__init__(with_barriers(template))


def mend(routines_sorting: Any) -> None:
    """Let ``cupy._core._routines_sorting`` compile its kernels with barriers.

    Parameters
    ----------
    routines_sorting
        The module. It makes its kernels' text by ``string.Template``, and does nothing else with ``string``.
    """
    mended = types.SimpleNamespace(**vars(string))
    mended.Template = _Template
    routines_sorting.string = mended
