"""Real CuPy on the emulated device: CuPy's wheel, with the modules that carry NVIDIA's runtime rebuilt or replaced.

``pins`` names the version; ``archives`` gets wheel and sdist; ``build`` makes the tree; ``loading`` makes a process use it.
``runtime/`` is the runtime library that takes the place of NVIDIA's, ``replacements/`` the modules that take the place of four
others.

A green result on it says that a program and its use of the API are right, not that it is right on a GPU: name it by :func:`label`.
"""

from __future__ import annotations

from .archives import ArchiveError, Unavailable, sdist
from .loading import foreign_libraries, is_loaded, label, load, tree

__all__ = ["ArchiveError", "Unavailable", "foreign_libraries", "is_loaded", "label", "load", "sdist", "tree"]
