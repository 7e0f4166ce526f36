"""A backend in a distribution of its own joins by the entry-point group, and runs the conformance suite."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_SOURCE = Path(__file__).with_name("npu")
_ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a child in which the distribution is installed (into a folder of its own, without network)."""
    folder = tmp_path_factory.mktemp("out_of_tree")
    shutil.copytree(_SOURCE, folder / "source")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps", "--no-index"]
    command += ["--disable-pip-version-check", "--target", str(folder / "installed"), str(folder / "source")]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    path = os.pathsep.join([str(folder / "installed"), str(_ROOT)])
    return {**os.environ, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def test_found_without_being_imported(environment: dict[str, str], tmp_path: Path) -> None:
    """Design 1: the entry point makes the name known; its module is loaded when it is asked for, and not before."""
    code = """if True:
        import json, sys, graphcap
        known = ["NPU" in graphcap.known_backends(), graphcap.has_graph_impl("npu"), "graphcap_npu" in sys.modules]
        impl = graphcap.create_graph_impl("NPU")
        known += [type(impl).__module__, graphcap.backend_status()["NPU"].ok, "NPU" in graphcap.available_backends()]
        print(json.dumps(known))
    """
    command = [sys.executable, "-W", "error", "-c", code]
    found = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout) == [True, True, False, "graphcap_npu.graph", True, True]


def test_conformance(environment: dict[str, str], tmp_path: Path) -> None:
    """Issue 2, items 2 and 9: with one fixtures class the whole suite runs on it, and passes; skips are by capability."""
    options = ["-q", "-ra", "-p", "no:cacheprovider", "--noconftest", "--assert=plain", "-W", "error", "--rootdir", "."]
    shutil.copytree(_SOURCE / "tests", tmp_path / "tests")
    command = [sys.executable, "-m", "pytest", *options, "tests"]
    found = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout[-4000:] + found.stderr
    passed = re.search(r"(\d+) passed", found.stdout)
    assert passed is not None
    assert int(passed[1]) > 300
    reasons = re.findall(r"^SKIPPED .*?: (.*)$", found.stdout, re.MULTILINE)
    assert reasons
    assert all(reason.startswith("backend NPU ") for reason in reasons)
