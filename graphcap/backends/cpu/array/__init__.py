"""NumPy for arrays whose work can be captured: ``xp = graphcap.array_namespace("cpu")``.

Every public name of the installed NumPy is here. While the current stream captures, work is recorded, and what would need a
value is refused at once; otherwise it runs at once. Ordinary NumPy calls (``np.sin(a)``) do the same for arrays of this
namespace. ``docs/numpy.md`` has a table of every function.

Reading order: ``_base`` (what an array is), ``_protocols`` and ``_dispatch`` (how calls get here), ``_ufuncs`` (how the most
important ones are recorded), ``_infer`` (how all others are), the families, ``_refused``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphcap.backends.cpu.array import _elementwise as _elementwise
from graphcap.backends.cpu.array import _fft as _fft
from graphcap.backends.cpu.array import _linalg as _linalg
from graphcap.backends.cpu.array import _manipulation as _manipulation
from graphcap.backends.cpu.array import _reductions as _reductions
from graphcap.backends.cpu.array import _refused as _refused
from graphcap.backends.cpu.array import _standard
from graphcap.backends.cpu.array import char as char
from graphcap.backends.cpu.array import emath as emath
from graphcap.backends.cpu.array import fft as fft
from graphcap.backends.cpu.array import linalg as linalg
from graphcap.backends.cpu.array import random as random
from graphcap.backends.cpu.array import strings as strings
from graphcap.backends.cpu.array._array import ndarray as ndarray
from graphcap.backends.cpu.array._namespace import names_of
from graphcap.backends.cpu.array._namespace_info import NamespaceInfo
from graphcap.backends.cpu.array._standard import EDITION

globals().update(names_of(np))

__array_api_version__ = EDITION
__array_namespace_info__ = NamespaceInfo
__version__ = np.__version__
from_dlpack, asnumpy = _standard.from_dlpack, _standard.asnumpy
check_api_version = _standard.check_api_version


def __getattr__(name: str) -> Any:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
