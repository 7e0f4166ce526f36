"""Building the native tier's extension: where it goes, when it is built anew, and one clear line when it cannot be."""

from __future__ import annotations

import os
import re
import stat
import sys
import threading
from pathlib import Path

import pytest

from graphcap.backends.xpu.native import build as builder
from graphcap.backends.xpu.native.__main__ import main
from graphcap.backends.xpu.native.build import (
    BuildError,
    build_extension,
    cache_path,
    find_toolchain,
    packaged_path,
)
from tests.xpu.child import run_child

STATUS = """
import graphcap
status = graphcap.backend_status()["XPU"]
print(status.ok, status.details.get("tier"), status.capabilities and status.capabilities.native_graph)
print(status.reason, status.cure, status.details.get("note"))
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder of this test."""
    monkeypatch.setenv("GRAPHCAP_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.delenv("GRAPHCAP_XPU_TIER", raising=False)
    return tmp_path


def compiler(folder: Path, script: str) -> str:
    """A stand-in for a compiler."""
    path = folder / "compiler"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_first_use_builds_and_later_uses_do_not(cache: Path) -> None:
    """A child with an empty cache builds the extension into it; the next one loads that file, even with no compiler."""
    first = run_child(STATUS)
    assert first.stdout.splitlines()[0] == "True native True", first.stdout + first.stderr
    assert first.stderr == ""
    (made,) = cache.rglob("*.so")
    assert made == cache_path(find_toolchain())
    assert stat.S_IMODE(made.parent.stat().st_mode) & 0o077 == 0, "others may write into the cache"
    stamp = made.stat().st_mtime_ns
    second = run_child(STATUS, environment={"CXX": "true"})
    assert second.stdout.splitlines()[0] == "True native True", second.stdout + second.stderr
    assert made.stat().st_mtime_ns == stamp
    assert [path.name for path in made.parent.iterdir()] == [made.name], "something half-built was left"


def test_key_tells_runtime_and_source_apart(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Another SYCL ABI, another runtime version and another source are other builds; so is a build in place."""
    toolchain = find_toolchain()
    assert re.fullmatch(r"libsycl\.so\.\d+", toolchain.abi())
    assert toolchain.abi() in toolchain.key()
    assert toolchain.runtime in toolchain.key()
    other = type(toolchain)(
        toolchain.compiler, toolchain.sycl_include, toolchain.sycl_library, toolchain.python_include, "2025.0"
    )
    assert other.key() != toolchain.key()
    changed = tmp_path / "changed.cpp"
    changed.write_bytes(builder.SOURCE.read_bytes() + b"\n")
    key = toolchain.key()
    monkeypatch.setattr(builder, "SOURCE", changed)
    assert toolchain.key() != key
    assert packaged_path(toolchain).parent.name == toolchain.key()


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"CXX": "no-such-compiler"}, "named by CXX"),
        ({"PATH": ""}, "no C++ compiler was found"),
        ({"CXX": "false"}, "failed with status 1"),
        ({"GRAPHCAP_SYCL_ROOT": "nowhere"}, "GRAPHCAP_SYCL_ROOT"),
        ({"GRAPHCAP_CACHE_DIR": "/proc/graphcap"}, "cannot be written"),
    ],
)
def test_one_clear_line_when_it_cannot_be_built(cache: Path, environment: dict[str, str], says: str) -> None:
    """The software tier is used, one warning tells why and what to do, and the status says the same."""
    done = run_child(STATUS, environment=environment)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "True software False"
    assert says in second
    told = [line for line in done.stderr.splitlines() if "GraphcapWarning" in line]
    assert len(told) == 1
    assert says in told[0]
    assert not list(cache.rglob("*.so"))


def test_tier_by_request(cache: Path) -> None:
    """`GRAPHCAP_XPU_TIER`: software is quiet; native without a compiler is an error with reason and cure; nonsense too."""
    quiet = run_child(STATUS, environment={"GRAPHCAP_XPU_TIER": "software", "CXX": "no-such-compiler"})
    assert quiet.stdout.startswith("True software False")
    assert quiet.stderr == ""
    wanted = run_child(STATUS, environment={"GRAPHCAP_XPU_TIER": "native", "CXX": "no-such-compiler"})
    assert wanted.stdout.startswith("False None None")
    assert "Correct CXX" in wanted.stdout
    wrong = run_child(STATUS, environment={"GRAPHCAP_XPU_TIER": "fast"})
    assert wrong.stdout.startswith("False None None")
    assert "auto" in wrong.stdout


def test_error_of_the_compiler_is_told(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = compiler(tmp_path, "echo 'x.cpp: note: see' >&2; echo 'x.cpp:1: error: no such header' >&2; exit 4")
    monkeypatch.setenv("CXX", script)
    target = tmp_path / "out" / "module.so"
    with pytest.raises(BuildError) as caught:
        build_extension(find_toolchain(), target)
    assert "status 4" in caught.value.reason
    assert "no such header" in caught.value.reason
    assert caught.value.cure
    assert list(target.parent.iterdir()) == []


def test_builds_at_the_same_time(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several builders of one file: each result is whole, and the last one stays."""
    out = "-o"
    script = compiler(
        tmp_path, f'while [ "$1" != {out} ]; do shift; done; echo part >"$2"; sleep 0.1; echo whole >>"$2"'
    )
    monkeypatch.setenv("CXX", script)
    target = tmp_path / "out" / "module.so"
    toolchain = find_toolchain()
    threads = [threading.Thread(target=build_extension, args=(toolchain, target)) for _ in range(4)]
    for thread in threads:
        thread.start()
    seen = set()
    while any(thread.is_alive() for thread in threads):
        if target.exists():
            seen.add(target.read_text())
    assert seen <= {"part\nwhole\n"}
    assert target.read_text() == "part\nwhole\n"
    assert [path.name for path in target.parent.iterdir()] == ["module.so"]


def test_file_that_does_not_load(cache: Path) -> None:
    """A damaged file in the cache is named, with the cure; the process goes on with the software tier."""
    path = cache_path(find_toolchain())
    path.parent.mkdir(parents=True)
    path.write_bytes(b"not a library")
    done = run_child(STATUS)
    assert done.stdout.startswith("True software False"), done.stderr
    assert f"Delete {path}" in done.stderr


def test_program_tells_in_one_line(
    cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert main([]) == 1
    told = capsys.readouterr().err
    assert told.startswith("error: ")
    assert told.count("\n") == 1


@pytest.mark.skipif(sys.platform != "linux", reason="the refusal is for other systems")
def test_other_systems_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(BuildError, match="Linux"):
        find_toolchain()


def test_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    toolchain = find_toolchain()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("GRAPHCAP_CACHE_DIR", raising=False)
    assert cache_path(toolchain).is_relative_to(tmp_path / "xdg" / "graphcap")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_path(toolchain).is_relative_to(tmp_path / "home" / ".cache")
    monkeypatch.setenv("GRAPHCAP_CACHE_DIR", os.fspath(tmp_path / "own"))
    assert cache_path(toolchain).is_relative_to(tmp_path / "own")
