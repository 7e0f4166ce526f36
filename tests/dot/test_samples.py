"""The collected real and rebuilt dumps: node, edge and cluster counts of their index, and their kinds.

They lie beside the repository in `shared/dot-samples`; without that folder this module is skipped.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import graphcap.dot

FOLDER = Path(__file__).parents[3] / "shared" / "dot-samples"

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="the collected samples are not beside the repository")

HIP_KINDS = {
    "kernel": 3, "memcpy": 1, "memset": 1, "host": 1, "child_graph": 1, "empty": 1, "event_record": 1, "mem_free": 1,
}  # fmt: skip
KINDS = {
    "cuda_cupy_verbose_conditional_if.partial.dot": {"kernel": 2, "conditional": 1},
    "cuda_cutensor_verbose_2k.dot": {"kernel": 2},
    "cuda_einsummable_verbose_2k.dot": {"kernel": 2},
    "cuda_opennn_drv595_verbose.excerpt.dot": {"kernel": 8, "memcpy": 2, "memset": 1, "mem_alloc": 1, "mem_free": 1},
    "cuda_torch210_drv595_chain.dot": {"kernel": 5},
    "cuda_torch210_drv595_forkjoin_1stream.dot": {"kernel": 5},
    "cuda_torch210_drv595_forkjoin_2stream.dot": {"kernel": 5},
    "cuda_torch28_cu128_verbose_kmem.dot": {"kernel": 3, "memcpy": 1},
    "cuda_torch_issue126753_head.partial.dot": {"kernel": 2, "memset": 1},
    "cuda_torch_issue126753_mid.partial.dot": {"kernel": 3},
    "hip_default.reconstructed.dot": HIP_KINDS,
    "hip_kernelparams_brokenquote.reconstructed.dot": HIP_KINDS,
    "hip_verbose.reconstructed.dot": HIP_KINDS,
    "sycl_nonverbose_mangled.reconstructed.dot": {"kernel": 4, "memcpy": 2, "empty": 1},
    "sycl_verbose_mangled.reconstructed.dot": {"kernel": 4, "memcpy": 2, "empty": 1},
}


def index() -> dict[str, tuple[int, int, int]]:
    """The counts that INDEX.md gives: file -> nodes, edges, clusters."""
    rows: dict[str, tuple[int, int, int]] = {}
    if FOLDER.is_dir():
        for line in (FOLDER / "INDEX.md").read_text().splitlines():
            cells = [cell.strip() for cell in line.split("|")]
            if len(cells) > 4 and cells[1].endswith(".dot"):
                counts = re.match(r"(\d+) / (\d+) / (\d+)", cells[4])
                # The row of the fragment names its nodes in words: 14, 15 and part of 16, and no cluster line.
                rows[cells[1]] = (int(counts[1]), int(counts[2]), int(counts[3])) if counts else (3, 0, 0)
    return rows


@pytest.mark.parametrize("name", KINDS)
def test_a_sample_reads_with_the_counts_of_the_index(name: str) -> None:
    graph = graphcap.dot.read(FOLDER / name)
    counted = (len(list(graph.all_nodes())), sum(len(level.edges) for level in graph.walk()), graph.graph_count)
    assert counted == index()[name]
    assert graph.counts() == KINDS[name]
    assert graph.origin == name.split("_")[0]


def test_the_index_and_this_module_name_the_same_files() -> None:
    assert set(index()) == set(KINDS) == {path.name for path in FOLDER.glob("*.dot")}


def test_whole_samples_read_without_a_word() -> None:
    for name in KINDS:
        if not re.search("partial|excerpt|brokenquote", name):
            assert graphcap.dot.read(FOLDER / name).warnings == (), name


def test_what_the_index_says_of_single_samples() -> None:
    fork = graphcap.dot.read(FOLDER / "cuda_torch210_drv595_forkjoin_2stream.dot")
    assert [node.id for node in fork.roots] == [0, 1]
    assert [node.id for node in fork.predecessors(2)] == [1, 0]  # headlabel 0 is node 1
    assert fork.name == "graph_16"
    line = graphcap.dot.read(FOLDER / "cuda_torch210_drv595_forkjoin_1stream.dot")
    assert (line.width, line.depth, fork.width, fork.depth) == (1, 5, 2, 4)
    assert line.node(0).params["grid"] == (32, 2, 1)
    cupy = graphcap.dot.read(FOLDER / "cuda_cupy_verbose_conditional_if.partial.dot")
    assert cupy.node(1).params["condition"] == "if"
    assert cupy.missing_graphs() == ["graph_2"]
    assert any("cut off" in w for w in cupy.warnings)
    chain = graphcap.dot.read(FOLDER / "cuda_torch210_drv595_chain.dot")
    assert max(len(node.name) for node in chain) == 252
    excerpt = graphcap.dot.read(FOLDER / "cuda_opennn_drv595_verbose.excerpt.dot")
    assert excerpt.undeclared == (1741, 1742, 1743)
    assert excerpt.counts()["mem_alloc"] == 1
    assert sum(node.nbytes for node in excerpt.find(kind="memcpy")) == 131072 + 2097152
    broken = graphcap.dot.read(FOLDER / "hip_kernelparams_brokenquote.reconstructed.dot")
    whole = graphcap.dot.read(FOLDER / "hip_default.reconstructed.dot")
    assert [n.name for n in broken.all_nodes()] == [n.name for n in whole.all_nodes()]
    assert broken.node(13).params["grid"] == (4096, 1, 1)
