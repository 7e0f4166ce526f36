"""What CUDA, HIP and SYCL print, in every form and version known, read back to what was printed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphcap.dot
from graphcap.topology import GraphTopology, Node, NodeKind

from .producers import K, cuda, hip, sycl

NODES = [
    K("KERNEL", "_Z10exp_kernelPKfPfi", (390625,), (256,)),
    K("KERNEL", "ampere_sgemm_128x64_tn", (16, 10, 2), (128,), 2048),
    K("MEMCPY", nbytes=131072, direction="HtoD"),
    K("MEMSET", nbytes=640, value=7),
    K("MEM_ALLOC", nbytes=1460),
    K("MEM_FREE"),
    K("CHILD", graphs=("graph_4",)),
    K("CONDITIONAL", graphs=("graph_7",), condition="WHILE"),
    K("EMPTY"),
    K("EVENT_RECORD"),
    K("EVENT_WAIT"),
    K("HOST"),
]
EDGES = [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (7, 8), (8, 9), (9, 10), (10, 11)]
CHILD = ([K("KERNEL", "_Z5childPf", (16,), (64,)), K("KERNEL", "_Z6child2Pf", (1,), (32, 4))], [(0, 1)])
BODY: tuple[list[K], list[tuple[int, int]]] = ([K("KERNEL", "_Z4bodyPf")], [])
KINDS = {
    "kernel": 5, "memcpy": 1, "memset": 1, "mem_alloc": 1, "mem_free": 1, "child_graph": 1, "conditional": 1, "empty": 1,
    "event_record": 1, "event_wait": 1, "host": 1,
}  # fmt: skip


def read(text: str) -> GraphTopology:
    return graphcap.dot.read(text.encode())


@pytest.mark.parametrize("verbose", [True, False])
@pytest.mark.parametrize("driver", [470, 535, 595])
def test_cuda_in_every_version(verbose: bool, driver: int) -> None:
    graph = read(cuda({1: (NODES, EDGES), 4: CHILD, 7: BODY}, verbose=verbose, driver=driver))
    assert graph.warnings == ()
    assert graph.name == "graph_1"
    assert graph.origin == "cuda"
    assert graph.graph_count == 3
    assert list(graph.graphs) == ["graph_4", "graph_7"]
    assert graph.counts() == KINDS
    assert [e[:2] for e in graph.edges] == EDGES
    assert [node.id for node in graph.nodes] == list(range(len(NODES)))
    assert graph.node(0).name == "_Z10exp_kernelPKfPfi"
    assert graph.node(2).params["direction"] == "HtoD"
    assert graph.node(2).nbytes == 131072
    assert graph.node(3).params["value"] == 7
    assert graph.node(3).nbytes == 640
    assert graph.node(6).graphs == ("graph_4",)
    assert graph.node(7).graphs == ("graph_7",)
    assert graph.node(7).params["condition"] == "while"
    assert graph.source is not None
    assert graph.source.verbose is verbose
    if verbose:
        assert graph.node(0).params["grid"] == (390625, 1, 1)
        assert graph.node(1).params["grid"] == (16, 10, 2)
        assert graph.node(1).params["block"] == (128, 1, 1)
        assert graph.node(1).params["shared_bytes"] == 2048
        assert graph.node(1).params["cooperative"] is False
        assert ("cluster" in graph.node(1).params) == (driver >= 595)
        assert graph.body("graph_4").node(1).params["block"] == (32, 4, 1)
        assert graph.node(4).params["bytes"] == 1460
        assert graph.node(4).params["address"] == graph.node(5).params["address"] == 0x302000000
        assert graph.node(4).params["allocation_type"] == "PINNED"
        assert graph.node(2).params["src"] == 0x797B36600000
        assert graph.node(2).params["dst"] == 0x797B36800000
        assert (graph.node(2).params["src_memory"], graph.node(2).params["dst_memory"]) == ("host pinned", "device")


@pytest.mark.parametrize("mode", ["default", "verbose", "params"])
def test_hip_in_every_mode(mode: str) -> None:
    nodes = [k for k in NODES if k.word != "CONDITIONAL"]
    edges = [e for e in EDGES if max(e) < len(nodes)]
    graph = read(hip({3: (nodes, edges), 4: CHILD}, mode=mode))
    assert graph.origin == "hip"
    assert graph.graph_count == 2
    assert graph.counts() == {kind: 4 if kind == "kernel" else n for kind, n in KINDS.items() if kind != "conditional"}
    assert [e[:2] for e in graph.edges] == edges
    assert graph.node(0).name == "_Z10exp_kernelPKfPfi"
    assert graph.node(2).nbytes == 131072
    assert graph.node(3).params["value"] == 7
    broken = [w for w in graph.warnings if "closing quote" in w]
    assert len(broken) == (1 if mode == "params" else 0)
    assert len(graph.warnings) == len(broken)
    if mode != "default":
        assert graph.node(1).params["grid"] == (16, 10, 2)
        assert graph.node(1).params["shared_bytes"] == 2048


def test_hip_counts_match_what_was_printed() -> None:
    nodes = [K(word) for word in ("EXTERNAL_SEMAPHORE_SIGNAL", "EXTERNAL_SEMAPHORE_WAIT", "EMPTY")]
    graph = read(hip({0: (nodes, [])}))
    assert [node.kind for node in graph] == ["ext_semaphore_signal", "ext_semaphore_wait", "empty"]


def test_hip_debug_environment_adds_lines_inside_the_label() -> None:
    text = hip({0: ([K("KERNEL", "_Z1av")], [])}).replace('_Z1av\n"', '_Z1av\nStreamId:3\nDeviceId: 1\n"')
    node = read(text).node(0)
    assert (node.name, node.params) == ("_Z1av", {"stream": 3, "device": 1})


TYPES = {
    "None": "empty", "CGBarrier": "empty", "CGExecKernel": "kernel", "CGCopy Device-to-Host": "memcpy",
    "CGCopy Host-to-Device": "memcpy", "CGCopy Device-to-Device": "memcpy", "CGFill": "memset", "CGCUpdateHost": "memcpy",
    "CGCopyUSM": "memcpy", "CGFillUSM": "memset", "CGPrefetchUSM": "mem_prefetch", "CGAdviseUSM": "mem_advise",
    "CGHostTask": "host", "CGCopy2DUSM": "memcpy", "CGFill2DUSM": "memset", "CGMemset2DUSM": "memset",
    "CGReadWriteHostPipe": "unknown", "CGCopyToDeviceGlobal": "memcpy", "CGCopyFromDeviceGlobal": "memcpy",
    "CGExecCommandBuffer": "child_graph", "CGNativeCommand": "native_command", "CGAsyncAlloc": "mem_alloc",
    "CGAsyncFree": "mem_free", "Other": "unknown",
}  # fmt: skip


def test_sycl_knows_every_type_word() -> None:
    graph = read(sycl([(word, "", "") for word in TYPES], [(i, i + 1) for i in range(len(TYPES) - 1)]))
    assert [str(node.kind) for node in graph] == list(TYPES.values())
    assert (graph.origin, graph.graph_count, graph.warnings) == ("sycl", 0, ())
    assert graph.depth == len(TYPES)
    assert [n.params["type"] for n in graph if n.kind is NodeKind.UNKNOWN] == ["CGReadWriteHostPipe", "Other"]


def test_sycl_verbose_lines() -> None:
    arguments = "ARGS = \\n0) Type: Accessor Ptr: 0x55d0c1b00018\\n1) Type: STD_Layout Ptr: 0x55d0c1b00030\\n"
    demangled = "typeinfo name for run<unsigned short>(int&)::{lambda(sycl::handler&)#1}::operator()<a|b>"
    graph = read(
        sycl(
            [
                ("CGExecKernel", demangled, arguments),
                ("CGCopyUSM", "", "Src: 0x10 Dst: 0x20 Length: 4096\\n"),
                ("CGFillUSM", "", 'Dst: 0x30 Length: 64 Pattern: \0"\n"x\\n'),
                ("CGCopy2DUSM", "", "Src:0x7f00 Dst: 0x7f10\\n"),
                ("CGCopy Device-to-Host", "", "Src: 0x1 Dst: 0x2\\n"),
                ("CGPrefetchUSM", "", "Dst: 0x5 Length: 7 PrefetchType: host_to_device\\n"),
            ],
            [(0, 2), (3, 2)],
        )
    )
    nodes = list(graph)
    assert graph.warnings == ()
    assert nodes[0].name == demangled
    assert nodes[0].params["arguments"] == ("Accessor", "STD_Layout")
    assert nodes[0].params["argument_addresses"] == (0x55D0C1B00018, 0x55D0C1B00030)
    assert nodes[1].params == {"type": "CGCopyUSM", "src": 0x10, "dst": 0x20, "bytes": 4096}
    assert nodes[2].params["pattern"] == '\0"\n"x'
    assert nodes[2].params["bytes"] == 64
    assert (nodes[3].params["src"], nodes[3].params["dst"]) == (0x7F00, 0x7F10)
    assert nodes[4].params["direction"] == "DtoH"
    assert nodes[5].params["prefetch_type"] == "host_to_device"
    assert len(graph.edges) == 2


RECORD = '"graph_1_node_0"[style="bold" shape="record" label="{%s}"];'
PLAIN = '"graph_1_node_0"[style="solid" shape="rectangle" label="%s"];'


@pytest.mark.parametrize(
    ("text", "kind", "name", "params"),
    [
        # R5: the keyword on line 1 or 2, after the brace, or after the number; at the head only.
        (PLAIN % "0 (topoId: 6)\nEVENT_WAIT\n", "event_wait", "", {}),
        (PLAIN % "0 (topoId: 6)\nWAIT_EVENT\nnode handle: 0x1F\n", "event_wait", "", {"node_handle": 31}),
        (PLAIN % "0\nBATCH_MEM_OP", "batch_mem_op", "", {}),
        (PLAIN.replace("solid", "bold").replace("rectangle", "octagon") % "0\nHOST\n", "kernel", "HOST", {}),
        (PLAIN.replace("solid", "bold").replace("rectangle", "octagon") % "0\ngraph_7\n", "kernel", "graph_7", {}),
        (RECORD % "\nKERNEL\n| {ID | 0 | MEMCPY_EMPTY_graph_3\\<\\<\\<1,1,0\\>\\>\\>}\n", "kernel", "MEMCPY_EMPTY_graph_3",
         {"grid": (1, 1, 1), "block": (1, 1, 1), "shared_bytes": 0}),
        # R6: unknown words are kept.
        (PLAIN % "0\nTELEPORT\n", "unknown", "", {"type": "TELEPORT"}),
        (RECORD % "FOO_BAR\n| {ID | 0}\n| {speed | 9}\n| {{a b | cD} | {1 | x}}\n", "unknown", "",
         {"type": "FOO_BAR", "speed": 9, "a_b": ("cD", "1", "x")}),
        # R7: unescaped < > { } | in a name; the launch follows the last <<<.
        (RECORD % "KERNEL\n| {ID | 0 (topoId: 1) | f<a|b>{x}\\<\\<\\<y\\<\\<\\<\\{2,3\\},4,5\\>\\>\\>}\n", "kernel",
         "f<a|b>{x}<<<y", {"grid": (2, 3, 1), "block": (4, 1, 1), "shared_bytes": 5}),
        (RECORD % "KERNEL\n| {ID | 0 | g\\<\\<\\<(4,1,1),(2,1,1),(3,1,1),16\\>\\>\\>}\n", "kernel", "g",
         {"grid": (4, 1, 1), "block": (2, 1, 1), "shared_bytes": 16, "remainder": (3, 1, 1)}),
        (RECORD % "KERNEL\n| {ID | 0 | g\\<\\<\\<1,1,0\\>\\>\\>}\n| {cooperative | 1}\n| {accessPolicyWindow | {base_ptr | "
         "num_bytes | hitRatio | hitProp | missProp} | {0x00000000000000FF | 64 | 0.500000 | P | S}}\n", "kernel", "g",
         {"grid": (1, 1, 1), "block": (1, 1, 1), "shared_bytes": 0, "cooperative": True, "access_policy_address": 255,
          "access_policy_bytes": 64, "hit_ratio": 0.5, "hit_property": "P", "miss_property": "S"}),
        # R10: addresses in any spelling.
        (RECORD % "MEM_FREE\n| {{ID | node handle} | {0 | 0X00ff}}\n| {{dptr} | {(nil)}}\n", "mem_free", "",
         {"node_handle": 255, "address": 0}),
        (RECORD % "MEM_FREE\n| {{ID | node handle} | {0 | 00005562AD991720}}\n", "mem_free", "",
         {"node_handle": 0x5562AD991720}),
        # 2-D memset and copy: bytes are the product.
        (RECORD % "MEMSET\n| {{ID | node handle | dptr | pitch | value | elementSize | width | height} | {0 | 0x1 | 0x2 | "
         "512 | 3 | 4 | 8 | 2}}\n", "memset", "",
         {"node_handle": 1, "dst": 2, "dst_pitch_bytes": 512, "value": 3, "element_bytes": 4, "width": 8, "height": 2,
          "bytes": 64}),
        (PLAIN % "0 (topoId: 1)\nnode handle: 0x1\nHandle: 1\nType: IF\ngraph_2\ngraph_3\n", "conditional", "",
         {"node_handle": 1, "condition_handle": 1, "condition": "if", "branches": ("true", "false")}),
        (RECORD % "\nCONDITIONAL\n| {ID | 0}\n| {Conditional Type| SWITCH}\n| {0|graph_2}\n| {1 | graph_3}\n", "conditional",
         "", {"condition": "switch", "branches": ("0", "1")}),
        (PLAIN % "", "unknown", "", {}),
        (PLAIN % "0", "unknown", "", {}),
    ],
)  # fmt: skip
def test_a_driver_label(text: str, kind: str, name: str, params: dict[str, Any]) -> None:
    graph = read("digraph dot {\nsubgraph cluster_1 {\n" + text + "\n}\n}\n")
    node = graph.node(0)
    assert (str(node.kind), node.name) == (kind, name)
    assert dict(node.params) == params


def test_the_places_of_dependencies_are_kept(tmp_path: Any) -> None:
    text = (
        'digraph dot {\nsubgraph cluster_16 {\nlabel="graph_16" graph[style="dashed"];\n'
        + "".join(f'"graph_16_node_{i}"[style="bold" shape="octagon" label="{i}\nk{i}\n"];\n' for i in range(4))
        + '"graph_16_node_0" -> "graph_16_node_2" [headlabel=1];\n"graph_16_node_0" -> "graph_16_node_3" [headlabel=0];\n'
        + '"graph_16_node_1" -> "graph_16_node_2" [headlabel=0];\n}\n}\n'
    )
    path = tmp_path / "no_extension"
    path.write_text(text)
    graph = graphcap.dot.read(path)
    assert [n.id for n in graph.predecessors(2)] == [1, 0]
    assert {tuple(e[:2]) for e in graph.edges} == {(0, 2), (0, 3), (1, 2)}
    assert graph.source is not None
    assert graph.source.file == str(path)


def test_clusters_in_any_order_shared_missing_and_circular() -> None:
    child = K("CHILD", graphs=("graph_9",))
    graph = read(cuda({9: ([K("KERNEL", "a"), K("CHILD", graphs=("graph_30",))], []), 5: ([child, child], [(0, 1)])}))
    assert graph.name == "graph_5"
    assert graph.counts(per_run=True)["kernel"] == 2
    assert graph.missing_graphs() == ["graph_30"]
    assert any("graph_30 is held by a node but is not in this file" in w for w in graph.warnings)
    circle = read(cuda({1: ([K("CHILD", graphs=("graph_2",))], []), 2: ([K("CHILD", graphs=("graph_1",))], [])}))
    assert any("hold themselves" in w for w in circle.warnings)
    assert len(list(circle.all_nodes())) == 2


nodes_strategy = st.builds(
    K,
    st.sampled_from(["KERNEL", "KERNEL", "MEMCPY", "MEMSET", "MEM_ALLOC", "MEM_FREE", "HOST", "EMPTY", "EVENT_RECORD"]),
    st.from_regex(r"_?[A-Za-z][A-Za-z0-9_]{0,40}", fullmatch=True),
    st.lists(st.integers(1, 2**31), min_size=1, max_size=3).map(tuple),
    st.lists(st.integers(1, 1024), min_size=1, max_size=3).map(tuple),
    st.integers(0, 10**6),
    st.integers(0, 2**40),
    st.sampled_from(["HtoD", "DtoH", "DtoD"]),
    st.integers(0, 255),
)


@given(st.lists(nodes_strategy, min_size=1, max_size=8), st.integers(1, 10**6), st.booleans(), st.data())
@settings(max_examples=80, deadline=None)
def test_any_cuda_graph_comes_back(nodes: list[K], number: int, verbose: bool, data: st.DataObject) -> None:
    n = len(nodes)
    pairs = data.draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), unique=True, max_size=10))
    edges = [(a, b) for a, b in pairs if a < b]
    graph = read(cuda({number: (nodes, edges)}, verbose=verbose))
    assert graph.warnings == ()
    assert graph.name == f"graph_{number}"
    assert [tuple(e[:2]) for e in graph.edges] == edges
    for node, k in zip(graph.nodes, nodes, strict=True):
        _same(node, k, verbose)


def _same(node: Node, k: K, verbose: bool) -> None:
    assert str(node.kind) == k.word.lower()
    assert node.name == (k.name if k.word == "KERNEL" else "")
    if k.word in ("MEMCPY", "MEMSET"):
        assert node.params["bytes"] == k.nbytes
    if k.word == "MEMCPY":
        assert node.params["direction"] == k.direction
    if verbose and k.word == "KERNEL":
        assert node.params["grid"] == (*k.grid, 1, 1)[:3]
        assert node.params["block"] == (*k.block, 1, 1)[:3]
        assert node.params["shared_bytes"] == k.shared
