"""The tree itself: what is in it and what is not, how it is got, built and loaded."""

from __future__ import annotations

import os
import pathlib
import platform
import re
import subprocess
import sys
from typing import Any

import pytest

from tests.emulated_device import cupy_tree, loader
from tests.emulated_device.cupy_tree import archives, build, pins

pytestmark = pytest.mark.usefixtures("emulated")

ROOT = pathlib.Path(__file__).resolve().parents[2]


def _child(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env={**os.environ, **environment}, timeout=600, check=False
    )


def test_the_version_is_the_pinned_one(cp: Any) -> None:
    """And results are named after it."""
    assert cp.__version__ == pins.VERSION
    assert cupy_tree.label() == f"CuPy {pins.VERSION}, rebuilt modules, host-compiled kernels"
    assert cp.cuda.runtime.runtimeGetVersion() == pins.CUDA_VERSION
    assert pathlib.Path(cp.__file__).is_relative_to(cupy_tree.tree().site)


def test_nothing_of_nvidias_is_mapped(cp: Any) -> None:
    """After work that uses every library: the compiler, the runtime and the others come from our own cache alone."""
    program = """
from tests.emulated_device import cupy_tree
cupy_tree.load()
import cupy
from cupy_backends.cuda.libs import cublas, curand, cusolver, cusparse, nvrtc
import cupy.cuda.cufft
x = cupy.ones((4, 4))
(x @ x).sum(), cupy.sort(x), cupy.random.rand(3), nvrtc.getVersion(), cupy.cuda.get_local_runtime_version()
print(cupy_tree.foreign_libraries())
for line in open("/proc/self/maps"):
    print(line.split()[-1])
"""
    done = _child(program)
    assert done.returncode == 0, done.stderr
    foreign, *mapped = done.stdout.splitlines()
    assert foreign == "[]"
    for soname in (
        "libcuda.so.1",
        build.CUDART,
        "libnvrtc.so.13",
        "libcublas.so.13",
        "libcurand.so.10",
        "libcufft.so.12",
    ):
        paths = {path for path in mapped if path.endswith(f"/{soname}")}
        assert len(paths) == 1, (soname, paths)
        assert paths.pop().startswith(os.path.realpath(archives.CACHE.parent))


def test_no_module_carries_nvidias_runtime(cp: Any) -> None:
    """By a string of its static form, which the wheel's five modules hold and none of the tree's."""
    marker = b"cuGetExportTable"  # how that runtime authenticates its driver
    suffix = ".so"

    def carriers(folder: pathlib.Path) -> set[str]:
        files = [file for file in folder.rglob(f"*{suffix}") if marker in file.read_bytes()]
        return {str(file.relative_to(folder)).split(".")[0].replace("/", ".") for file in files}

    assert carriers(archives.CACHE / "wheels" / archives.wheel_name().removesuffix(".whl")) == {
        *build.REBUILT,
        *build.REPLACED,
    }
    assert carriers(cupy_tree.tree().site) == set()


def test_kernels_are_compiled_with_our_headers(cp: Any) -> None:
    """Also where a wheel of NVIDIA's has headers, which CuPy would find first."""
    options = cp._core.core.assemble_cupy_compiler_options(())
    folders = [option[2:] for option in options if option.startswith("-I")]
    assert str(cupy_tree.tree().cuda / "include") in folders
    site = str(cupy_tree.tree().site)
    assert all(folder.startswith((site, str(cupy_tree.tree().cuda))) for folder in folders)
    assert str(loader.include_folder()) not in folders


def test_a_second_load_changes_nothing(cp: Any) -> None:
    """It answers the same."""
    path = list(sys.path)
    assert cupy_tree.load() == "emulated"
    assert sys.path == path


def test_another_cupy_is_refused() -> None:
    """With where it came from, and what to do."""
    done = _child(
        "import sys, types\nsys.modules['cupy'] = types.ModuleType('cupy'); sys.modules['cupy'].__file__ = '/elsewhere/cupy.py'\n"
        "from tests.emulated_device import cupy_tree\ncupy_tree.load()"
    )
    assert done.returncode == 1
    assert (
        "another CuPy is imported already (/elsewhere/cupy.py): call tests.emulated_device.cupy_tree.load()"
        in done.stderr
    )


def test_a_machine_without_a_pinned_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Says which one it would be."""
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(cupy_tree.Unavailable, match=r"no wheel of CuPy \S+ is pinned for cp3\d+ on linux riscv64"):
        build.build()


def test_an_index_out_of_reach(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    """What pip said is told."""
    monkeypatch.setattr(archives, "CACHE", tmp_path)
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(cupy_tree.Unavailable, match=f"pip cannot bring {pins.WHEEL}=={pins.VERSION}: ERROR"):
        archives.wheel()


def test_an_archive_that_is_another(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    """It is neither used nor kept."""
    monkeypatch.setattr(archives, "CACHE", tmp_path)
    fake = tmp_path / "archives" / archives.sdist_name()
    fake.parent.mkdir()
    fake.write_bytes(b"something else")
    with pytest.raises(cupy_tree.ArchiveError, match=r"SHA-256 is .*, pinned is .*; the file was removed"):
        archives.sdist()
    assert not fake.exists()


def test_a_folder_is_whole_or_not_there(tmp_path: pathlib.Path) -> None:
    """Also when its making fails."""
    with pytest.raises(ZeroDivisionError), archives.whole_folder(tmp_path / "made") as draft:
        (draft / "part").write_text("")
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_errors_have_the_runtimes_names_and_numbers(cp: Any) -> None:
    """Against the enumeration in the header of NVIDIA's wheel, which takes no part in the build."""
    text = (loader.include_folder() / "driver_types.h").read_text("latin-1")
    text = text.split("enum __device_builtin__ cudaError\n", 1)[1].split("};", 1)[0]
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    official = {int(number): name for name, number in re.findall(r"(cuda(?:Error)?\w+)\s*=\s*(\d+)", text)}
    assert len(official) > 100
    ours = (build.RUNTIME / "errors.cpp").read_text()
    known = {int(number): name for number, name in re.findall(r'\{(\d+), "(cuda\w+)"', ours)}
    assert {number: official.get(number) for number in known} == known
    error = cp.cuda.runtime.CUDARuntimeError(719)
    assert str(error) == "cudaErrorLaunchFailure: unspecified launch failure"


def test_structures_have_the_runtimes_layout(tmp_path: pathlib.Path) -> None:
    """Against NVIDIA's header: a module of the wheel that was compiled against that one must find what it expects."""
    text = (build.RUNTIME / "include" / "cuda_runtime.h").read_text()
    places = [
        "cudaDeviceProp",
        "cudaPointerAttributes",
        "cudaMemcpy3DParms",
        "cudaResourceDesc",
        "cudaTextureDesc",
        "cudaMemPoolProps",
    ]
    lines = []
    for struct in places:
        body = re.search(rf"struct {struct} \{{(.*?)\n\}};", text, re.DOTALL)
        assert body
        plain = re.sub(r"union \{.*\n    \} res;", "int res;", body[1], flags=re.DOTALL)
        fields = [name for line in plain.splitlines() for name in re.findall(r"[ *](\w+)(?:\[\d+\])?(?=[,;])", line)]
        fields = [name for name in fields if name != "reserved"]
        lines += [f'printf("{struct}.{field} %zu\\n", offsetof({struct}, {field}));' for field in fields]
        lines.append(f'printf("{struct} %zu\\n", sizeof({struct}));')
    (
        tmp_path / "crt"
    ).mkdir()  # a header of NVIDIA's that is in another wheel; its words mean nothing to a host compiler
    words = [
        "__device_builtin__",
        "__device_builtin_texture_type__",
        "__device_builtin_surface_type__",
        "__host__",
        "__device__",
    ]
    words += [f"{word}(n) __attribute__((aligned(n)))" for word in ("__align__", "__builtin_align__")]
    (tmp_path / "crt" / "host_defines.h").write_text("".join(f"#define {word}\n" for word in words))
    found = []
    for folder, header in ((build.RUNTIME / "include", "cuda_runtime.h"), (loader.include_folder(), "texture_types.h")):
        source, made = tmp_path / f"{header}.cpp", tmp_path / header.removesuffix(".h")
        includes = [f"#include <{file}>" for file in ("cstddef", "cstdio", header)]
        source.write_text("\n".join([*includes, "int main() {", *lines, "}", ""]))
        command = [loader.compiler(), "-std=c++17", f"-I{tmp_path}", f"-I{folder}", str(source), "-o", str(made)]
        subprocess.run(command, check=True, capture_output=True)
        found.append(subprocess.run([made], check=True, capture_output=True, text=True).stdout)
    assert found[0].count("\n") > 130
    assert found[0] == found[1]


@pytest.mark.slow
def test_two_processes_build_one_tree(cp: Any, tmp_path: pathlib.Path) -> None:
    """The second waits for the first and takes what it made."""
    for name in ("wheels", "sdists"):
        (tmp_path / name).symlink_to(archives.CACHE / name)
    program = (
        "import pathlib, sys\nfrom tests.emulated_device.cupy_tree import archives, build\n"
        f"archives.CACHE = pathlib.Path({str(tmp_path)!r})\nsteps = []\nprint(build.build(steps.append).root, bool(steps))"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=ROOT) for _ in range(2)
    ]
    answers = [child.communicate(timeout=600)[0].split() for child in children]
    assert answers[0][0] == answers[1][0]
    assert sorted(built for _, built in answers) == ["False", "True"]
    assert [file.name for file in (tmp_path / "trees").iterdir()] == [pathlib.Path(answers[0][0]).name]
