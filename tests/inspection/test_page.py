"""The HTML page: one file, no request to anywhere, and it works in a browser where one is installed."""

from __future__ import annotations

import http.server
import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given, settings

from graphcap.inspection import load, to_html
from graphcap.inspection.layout import place
from graphcap.inspection.page import LIBRARY
from graphcap.topology import GraphTopology, Node, NodeKind

from ..topology.strategies import topologies
from .graphs import dump, nested, step

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Parts(HTMLParser):
    """The page's tags, and the text of its scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self._inside = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag == "script"
        if self._inside:
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.scripts[-1] += data


def test_the_page_refers_to_nothing_outside_and_forbids_it() -> None:
    page = Parts(to_html(nested()))
    for tag, attributes in page.tags:
        assert not {"src", "href", "srcset", "action", "data", "poster"} & attributes.keys(), tag
        assert tag not in ("link", "iframe", "object", "embed", "img", "base")
    policy = next(a["content"] for t, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none';")
    assert "http" not in policy
    assert "connect-src" not in policy
    assert len(page.scripts) == 3


def test_the_library_is_whole_and_has_its_licence() -> None:
    folder = resources.files("graphcap.inspection") / "vendor"
    version = re.search(r"-([\d.]+)\.min", LIBRARY)
    assert version is not None
    text = (folder / LIBRARY).read_text(encoding="utf-8")
    assert f'version="{version[1]}"' in text
    assert text in to_html(step())
    assert "Permission is hereby granted" in (folder / "cytoscape-LICENSE.txt").read_text(encoding="utf-8")
    assert version[1] in (folder / "README.md").read_text(encoding="utf-8")


@given(topologies())
@settings(max_examples=40, deadline=None)
def test_no_name_breaks_the_page(graph: GraphTopology) -> None:
    page = Parts(to_html(graph))
    data = json.loads(page.scripts[0])
    assert len(data["nodes"]) == sum(len(g.nodes) + len(g.undeclared) for g in graph.walk())
    own = [e for e in data["edges"] if e[2] != "body"]
    assert len(own) == sum(len(g.edges) for g in graph.walk())
    assert len(page.scripts) == 3


def test_a_name_cannot_end_the_script() -> None:
    wicked = "</script><script>alert(1)</script><!--"
    page = Parts(to_html(GraphTopology([Node(0, NodeKind.KERNEL, wicked)], name=wicked)))
    assert len(page.scripts) == 3
    assert json.loads(page.scripts[0])["nodes"][0]["name"] == wicked


def test_positions_point_edges_down_and_never_coincide() -> None:
    for graph in (step(), nested(), load(dump().encode())):
        places, width, height = place(graph)
        assert len(set(places)) == len(places)
        ids = [node.id for node in graph.nodes]
        for edge in graph.edges:
            assert places[ids.index(edge.source)][1] < places[ids.index(edge.target)][1]
        assert max(y for _, y in places) == height
        assert max(x for x, _ in places) == width


FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


def chromium(profile: Path, *arguments: str) -> str:
    assert CHROMIUM is not None
    done = subprocess.run(
        [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", *arguments], capture_output=True, timeout=120, check=True
    )
    return done.stdout.decode(errors="replace")


@pytest.fixture
def listener() -> Iterator[tuple[int, list[str]]]:
    """A proxy on this machine that notes every request; nothing should ever reach it."""
    asked: list[str] = []

    class Note(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        do_CONNECT = do_POST = do_GET  # noqa: N815  # the names that http.server looks for

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Note) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_address[1], asked
        server.shutdown()
        thread.join(timeout=10)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_it_opens_from_a_file_searches_shows_parameters_and_asks_nobody(
    tmp_path: Path, listener: tuple[int, list[str]]
) -> None:
    port, asked = listener
    path = tmp_path / "graph.html"
    probe = (
        "<script>addEventListener('load', () => { const s = document.getElementById('search'); s.value = 'scale';"
        " s.dispatchEvent(new Event('input')); document.querySelector('#hits button').click();"
        " document.documentElement.dataset.requests = performance.getEntriesByType('resource').length; });</script></body>"
    )
    path.write_text(to_html(load(dump().encode())).replace("</body>", probe), encoding="utf-8")
    shown = chromium(
        tmp_path / "profile", f"--proxy-server=http://127.0.0.1:{port}", "--virtual-time-budget=5000", "--dump-dom",
        path.as_uri(),
    )  # fmt: skip
    # 5 nodes and 2 clusters; 3 edges and the arrow to the child graph.
    assert 'data-ready="7 4"' in shown
    assert 'data-requests="0"' in shown
    assert '<li class="soft">1 node</li>' in shown
    panel = shown[shown.index('id="node"') :]
    assert "_Z5scalePf" in panel
    assert "256" in panel
    # What the browser itself asks at its start goes to its maker; the page's own address is a file, and asks nobody.
    assert not [url for url in asked if "graph.html" in url or "127.0.0.1" in url]


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_the_policy_does_stop_a_request(tmp_path: Path, listener: tuple[int, list[str]]) -> None:
    port, asked = listener
    page = to_html(step())
    ask = f"<script>fetch('http://127.0.0.1:{port}/leak').catch(() => 0);</script></body>"
    (tmp_path / "kept.html").write_text(page.replace("</body>", ask), encoding="utf-8")
    chromium(tmp_path / "one", "--virtual-time-budget=3000", "--dump-dom", (tmp_path / "kept.html").as_uri())
    assert "/leak" not in asked
    policy = re.compile(r"<meta http-equiv=\"Content-Security-Policy\"[^>]*>")
    (tmp_path / "open.html").write_text(policy.sub("", page).replace("</body>", ask), encoding="utf-8")
    chromium(tmp_path / "two", "--virtual-time-budget=3000", "--dump-dom", (tmp_path / "open.html").as_uri())
    assert "/leak" in asked  # the listener does hear, so the silence above means something
