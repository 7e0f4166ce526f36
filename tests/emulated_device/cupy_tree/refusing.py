"""Stand-ins for NVIDIA's libraries that the wheel's modules are linked to, in which every function refuses.

The modules are loaded with all their symbols bound, so every function that they name has to exist. Where somebody offers a real
stand-in (one that is loaded already under the library's name), that one is used and nothing of this.
"""

from __future__ import annotations

import pathlib
import re
import subprocess
from typing import Final, NamedTuple

from tests.emulated_device import loader


class Library(NamedTuple):
    """A library of NVIDIA's by its soname, how its functions begin, and how it says "not supported"."""

    soname: str
    prefix: str
    status: int


LIBRARIES: Final = (
    Library("libcublasLt.so.13", "cublasLt", 15),
    Library("libcublas.so.13", "cublas", 15),
    Library("libcurand.so.10", "curand", 204),
    Library("libcufft.so.12", "cufft", 16),
    Library("libcusparse.so.12", "cusparse", 10),
    Library("libcusolver.so.12", "cusolver", 9),
)


def build(modules: pathlib.Path, folder: pathlib.Path) -> None:
    """Build the libraries for what compiled modules name.

    Parameters
    ----------
    modules
        The folder under which the compiled modules lie.
    folder
        Where the libraries go, each under its soname.

    Raises
    ------
    loader.BuildError
        ``nm`` or the compiler refuses.
    """
    wanted = _undefined(modules)
    for library in LIBRARIES:
        names = sorted(name for name, node in wanted if node == library.soname)
        source = folder / f"{library.prefix}.cpp"
        source.write_text(_source(library, names))
        version = folder / f"{library.prefix}.map"
        version.write_text(f"{library.soname} {{ global: {library.prefix}*; local: *; }};\n")
        link = [f"-Wl,-soname,{library.soname}", f"-Wl,--version-script={version}"]
        loader._run(
            [loader.compiler(), "-shared", "-fPIC", "-O1", *link, "-o", str(folder / library.soname), str(source)]
        )
        source.unlink()
        version.unlink()


def _source(library: Library, names: list[str]) -> str:
    lines = [
        "#include <cstdio>",
        'extern "C" {',
        f'extern const char {library.prefix}_on_emulated_device[] = "refuses";',
    ]
    for name in names:
        if re.search(r"(Error|Status)(String|Name)$", name):
            lines.append(f'const char* {name}() {{ return "{library.prefix}: not on the emulated device"; }}')
        else:
            lines.append(f"int {name}() {{ return {library.status}; }}")
    return "\n".join([*lines, "}", ""])


def _undefined(modules: pathlib.Path) -> set[tuple[str, str]]:
    """Names that modules want from elsewhere, each with its version node."""
    files = [str(file) for file in modules.rglob("*.so")]
    try:
        done = subprocess.run(["nm", "-D", "--undefined-only", *files], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise loader.BuildError(f"nm (of binutils) cannot read CuPy's modules: {error}") from error
    return {(name, node) for name, node in re.findall(r" U (\w+)@+(\S+)", done.stdout)}
