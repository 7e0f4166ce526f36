"""The skips that are allowed, with when they happen. Any other skip fails the run; the README lists these.

A skipped case without a known reason is a defect: it would look like a passed one.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["ALLOWED", "is_allowed", "table"]

ALLOWED: Final[dict[str, tuple[str, str]]] = {
    r"backend \S+ (lacks|has) the (capability|capture mode) '\w+'": (
        "backend X lacks (or has) the capability or capture mode Y",
        "always: the conformance suite goes by what a backend declares",
    ),
    r"this driver has no arrays|numpy\.lib is not part of the namespace|backend .* no legacy": (
        "this driver has no arrays; numpy.lib is not part of the namespace",
        "always: surfaces and NumPy's internals are out of scope",
    ),
    r"XPU: ": (
        "XPU: (what is missing)",
        "dpctl, the OpenCL CPU device, clang or llvm-spirv has no build for this machine or is not installed",
    ),
    r".*(needs a real|a real (device|driver)|NVIDIA GPU|GPU).*": (
        "needs a real GPU or driver",
        "always, except under `make gpu-check`",
    ),
    r".*(Chromium|Graphviz|graphviz|\bdot\b|browser).*": (
        "Chromium or Graphviz is not installed",
        "optional programs that a test drives",
    ),
    r".*dot-samples.*|.*samples.*": (
        "the real dumps are not here",
        "the folder of samples lies beside the repository, not in it",
    ),
    r".*(extension was not built|hands its loops out in another layout).*": (
        "the native replay was not built",
        "no C compiler, or a NumPy that hands its loops out in another layout",
    ),
    r"this release of the bindings .*|.*cuda-bindings 12.*|.*CUDA 12.*|conditional nodes of this kind need a newer driver": (
        "this release of the bindings does not know the call",
        "older cuda-bindings, or the second environment with cuda-bindings 12.9 was not made (`make test-cuda12`)",
    ),
    r"no CPython from .*|.*sanitizer.*": (
        "the sanitizers are not installed",
        "tests that run under sanitizers",
    ),
    r"no CuPy for the tests: ": (
        "no CuPy for the tests: (why)",
        "no pinned wheel of CuPy for this Python and machine, no package index within reach, or no CuPy installed beside a real GPU",
    ),
    r".*(no wheel|could not import|is not installed).*": (
        "a package is not installed",
        "no wheel for this architecture or Python",
    ),
}
"""Pattern of the reason -> (the reason as the README words it, when it happens)."""

_PATTERNS: Final = [re.compile(pattern) for pattern in ALLOWED]


def is_allowed(reason: str) -> bool:
    """Whether a skip for this reason is expected."""
    return any(pattern.match(reason) for pattern in _PATTERNS)


def table() -> str:
    """The README's table of allowed skips."""
    rows = [f"| {reason} | {when} |" for reason, when in ALLOWED.values()]
    return "\n".join(["| reason | when |", "| --- | --- |", *rows])
