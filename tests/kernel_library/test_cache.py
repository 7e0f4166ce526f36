"""Compiled programs are kept on disk: what is found again, what is not, and processes side by side."""

from __future__ import annotations

import concurrent.futures
from pathlib import Path

import pytest

from tests.emulated_device import loader
from tests.emulated_device.kernel_library import build
from tests.kernel_library.kit import Result, attempt, compiled, emulated_only, in_a_child

pytestmark = emulated_only


def compiled_anew(source: str, *options: str, **more: object) -> bool:
    """Whether the compiler ran for it."""
    before = build.counts().compiled
    compiled(source, *options, **more)
    return build.counts().compiled > before


@pytest.fixture
def fresh() -> str:
    """A program that no earlier run of the tests has compiled."""
    import uuid

    return 'extern "C" __global__ void k(int *x) { x[0] = 1; } // %s\n' % uuid.uuid4()  # noqa: UP031


def test_the_same_program_is_compiled_once(fresh: str) -> None:
    assert compiled_anew(fresh)
    assert not compiled_anew(fresh)


@pytest.mark.parametrize(
    ("source", "options", "more"),
    [
        ("// more\n", (), {}),
        ("", ("-DA",), {}),
        ("", ("--fmad=false",), {}),
        ("", ("--std=c++20",), {}),
        ("", (), {"expressions": ("k",)}),
        ("", (), {"headers": {"unused.h": ""}}),
    ],
)
def test_what_makes_it_another_program(
    fresh: str, source: str, options: tuple[str, ...], more: dict[str, object]
) -> None:
    compiled(fresh)
    assert compiled_anew(fresh + source, *options, **more)
    assert not compiled_anew(fresh + source, *options, **more)


def test_the_programs_folder_does_not_matter(fresh: str) -> None:
    """CuPy gives every compilation a new temporary folder."""
    warned = fresh + "__device__ int f() { int unused; return 1; }"
    compiled(warned, name="/tmp/one/k.cu")
    before = build.counts().compiled
    assert "/tmp/two/k.cu(2): warning" in compiled(warned, name="/tmp/two/k.cu").log
    assert build.counts().compiled == before


def test_a_header_that_changed_is_noticed(fresh: str, tmp_path: Path) -> None:
    inner = tmp_path / "inner.h"
    (tmp_path / "outer.h").write_text('#include "inner.h"\n')
    inner.write_text("#define VALUE 1\n")
    source = "#include <outer.h>\n" + fresh
    folder = f"-I{tmp_path}"
    assert compiled_anew(source, folder)
    assert not compiled_anew(source, folder)
    inner.touch()  # newer, but the same
    assert not compiled_anew(source, folder)
    inner.write_text("#define VALUE 2\n")
    assert compiled_anew(source, folder)
    inner.unlink()
    assert attempt(source, folder).code == Result.NVRTC_ERROR_COMPILATION


def test_errors_are_not_remembered(fresh: str, tmp_path: Path) -> None:
    source = "#include <late.h>\n" + fresh
    folder = f"-I{tmp_path}"
    assert attempt(source, folder).code == Result.NVRTC_ERROR_COMPILATION
    (tmp_path / "late.h").write_text("\n")
    assert compiled_anew(source, folder)


CHILD = """
from tests.emulated_device.kernel_library import build
build.load()
from tests.kernel_library.kit import compiled
for number in range({first}, {last}):
    program = compiled('extern "C" __global__ void k(int *x) {{ x[0] = %d; }}' % number, expressions=("k",))
    assert program.lowered == {{"k": b"k"}} and program.image
print(*build.counts())
"""


@pytest.fixture
def programless(tmp_path: Path) -> Path:
    """A cache without programs; the precompiled headers are the common ones, which take a second to make."""
    (tmp_path / "precompiled").symlink_to(loader.CACHE / "kernel_library" / "precompiled")
    return tmp_path


def test_a_second_process_compiles_nothing(programless: Path) -> None:
    program = CHILD.format(first=0, last=3)
    settings = {"GRAPHCAP_KERNEL_CACHE": str(programless)}
    assert in_a_child(program, **settings).split() == ["3", "0"]
    assert in_a_child(program, **settings).split() == ["0", "3"]


def test_two_processes_at_once_with_an_empty_cache(tmp_path: Path) -> None:
    """Both make the precompiled header, and the same programs."""
    program = CHILD.format(first=0, last=4)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        running = [pool.submit(in_a_child, program, GRAPHCAP_KERNEL_CACHE=str(tmp_path)) for _ in range(2)]
        done = [[int(word) for word in one.result().split()] for one in running]
    assert all(sum(one) == 4 for one in done)
    assert len(list((tmp_path / "precompiled").iterdir())) == 1
    assert not [path for path in tmp_path.rglob("*") if path.suffix.removeprefix(".").isdigit()], "drafts left behind"
    assert in_a_child(program, GRAPHCAP_KERNEL_CACHE=str(tmp_path)).split() == ["0", "4"]


def test_threads_compile_side_by_side(fresh: str) -> None:
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda n: compiled(fresh, f"-DN={n % 3}").image, range(8)))
    assert all(done)


def test_a_damaged_entry_is_compiled_again(programless: Path) -> None:
    program = CHILD.format(first=0, last=1)
    settings = {"GRAPHCAP_KERNEL_CACHE": str(programless)}
    in_a_child(program, **settings)
    (entry,) = [path for path in (programless / "programs").rglob("*") if path.is_file()]
    whole = entry.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2]):
        entry.write_bytes(damaged)
        assert in_a_child(program, **settings).split() == ["1", "0"]
    assert in_a_child(program, **settings).split() == ["0", "1"]


def test_compilations_leave_no_folders_behind(programless: Path) -> None:
    program = CHILD.format(first=0, last=1)
    in_a_child(program, GRAPHCAP_KERNEL_CACHE=str(programless), TMPDIR=str(programless))
    assert {path.name for path in programless.iterdir()} == {"precompiled", "programs"}


def test_the_cache_lies_beside_the_others() -> None:
    assert (loader.CACHE / "kernel_library" / "programs").is_dir()
