"""The command ``graphcap``: looking at dumps of captured graphs, and at what can capture here.

Exit codes: 0 fine; 1 the graphs differ, a check failed, or two nodes are not ordered; 2 the input or the call is wrong.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import threading
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, NoReturn

from graphcap.errors import GraphcapError

try:
    import typer
    from rich.console import Console

    from graphcap.inspection import tables
except ImportError as missing:  # one line, no traceback: the command exists without its libraries
    _MISSING: ImportError | None = missing
else:
    _MISSING = None

from graphcap import inspection
from graphcap.dot.names import demangle
from graphcap.inspection.explanations import EXPLANATIONS, explain
from graphcap.inspection.load import load_bytes
from graphcap.inspection.queries import (
    Problem,
    assert_there,
    converted,
    failure_of,
    files_of,
    kind_of,
    node_data,
    sorted_nodes,
    two_nodes,
    words_of,
    write_whole,
)
from graphcap.topology import GraphTopology

__all__ = ["main"]

_STDIN = "-"
_SLOW = 1.0  # seconds after which a spinner tells that a file is still being read


def main() -> NoReturn:
    """Run the command line; never returns."""
    if _MISSING is not None:
        name = _MISSING.name or "a library"
        print(
            f"graphcap: the command line needs {name}, which is not installed. Cure: pip install typer rich pydemumble "
            "(the extra `cli`).",
            file=sys.stderr,
        )
        raise SystemExit(2)
    try:
        app()
    except BrokenPipeError:  # `graphcap nodes … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
    raise SystemExit(0)


def _fail(message: object) -> NoReturn:
    tables.console(stderr=True, soft_wrap=True).print(tables.clean(f"graphcap: {message}"), style="red", markup=False)
    raise typer.Exit(2)


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Turn what can go wrong with input into one clear line and exit code 2."""
    try:
        yield
    except (GraphcapError, Problem) as error:
        _fail(error)
    except BrokenPipeError:
        raise
    except OSError as error:
        _fail(f"{error.filename or 'input'}: {error.strerror or error}")
    except MemoryError:
        _fail("the graph does not fit into memory")


@contextlib.contextmanager
def _progress(what: str) -> Iterator[None]:
    """Show on a terminal's standard error that something takes its time, once it has taken a second."""
    console = tables.console(stderr=True)
    if not console.is_terminal:
        yield
        return
    status = console.status(what)
    timer = threading.Timer(_SLOW, status.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        status.stop()


def _read(name: str) -> GraphTopology:
    if name == _STDIN:
        with _progress("reading standard input …"):
            return load_bytes(sys.stdin.buffer.read(), "<stdin>")
    with _progress(f"reading {name} …"):
        return inspection.load(Path(name))


def _json(data: Any) -> None:
    print(json.dumps(data, indent=2, ensure_ascii=not (sys.stdout.encoding or "").lower().startswith("utf")))


def _out() -> Console:
    # Off a terminal nothing is cut to a width, so that the text can be searched.
    return tables.console(soft_wrap=not sys.stdout.isatty(), width=None if sys.stdout.isatty() else 100_000)


if _MISSING is None:
    app = typer.Typer(
        name="graphcap",
        help="Look inside captured graphs: DOT from CUDA, HIP, SYCL and graphcap, and graphcap's JSON.",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    Files = Annotated[list[str], typer.Argument(help="Dumps or folders of them; - is standard input.", metavar="FILE…")]
    File = Annotated[str, typer.Argument(help="A dump; - is standard input.", metavar="FILE")]
    AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

    @app.command()
    def backends(as_json: AsJson = False) -> None:
        """Which backends are usable here, why others are not, and what they can do."""
        import graphcap

        status = graphcap.backend_status()
        if as_json:
            _json(
                {
                    name: {
                        "ok": one.ok,
                        "reason": one.reason,
                        "cure": one.cure,
                        "installed": one.installed,
                        "capabilities": tables.capabilities(one),
                        "details": {key: str(value) for key, value in one.details.items()},
                    }
                    for name, one in status.items()
                }
            )
        else:
            tables.show_backends(_out(), status)

    @app.command()
    def show(files: Files, as_json: AsJson = False) -> None:
        """Counts by kind, kernels by name, bytes moved, depth, width, roots, and what deserves a second look."""
        with _told():
            names = files_of(files)
            summaries = []
            wrong = 0
            for name in names:
                try:
                    summaries.append(inspection.summarize(_read(name)))
                except (GraphcapError, OSError) as error:
                    if len(names) == 1:
                        raise
                    wrong += 1
                    tables.console(stderr=True, soft_wrap=True).print(f"graphcap: {error}", style="red", markup=False)
            if as_json:
                data = [summary.to_data() for summary in summaries]
                single = len(names) == 1 and not Path(files[0]).is_dir()
                _json(data[0] if single else data)
            else:
                console = _out()
                for i, summary in enumerate(summaries):
                    if i:
                        console.print()
                    tables.show_summary(console, summary)
            if wrong:
                raise typer.Exit(2)

    class Sort(str, Enum):
        """What nodes are sorted by."""

        order = "order"
        id = "id"
        name = "name"
        kind = "kind"
        bytes = "bytes"

    @app.command()
    def nodes(
        file: File,
        kind: Annotated[list[str] | None, typer.Option(help="Only this kind; may be repeated.")] = None,
        name: Annotated[str, typer.Option(help="Only names that contain this, mangled or demangled.")] = "",
        sort: Annotated[Sort, typer.Option(help="order: as edges demand.")] = Sort.order,
        limit: Annotated[int, typer.Option(min=1, help="Print at most so many.")] = 1_000_000,
        full: Annotated[bool, typer.Option("--full", help="Whole names, with template arguments.")] = False,
        as_json: AsJson = False,
    ) -> None:
        """The nodes, one a line, with their parameters."""
        with _told():
            graph = _read(file)
            kinds = {kind_of(word) for word in kind or ()}
            rows = [
                (level.name, node)
                for level in graph.walk()
                for node in sorted_nodes(level, sort.value)
                if (not kinds or node.kind in kinds) and (not name or name in node.name or name in demangle(node.name))
            ]
            rows = rows[:limit]
            if as_json:
                _json([{"graph": level, **node_data(node)} for level, node in rows])
            else:
                tables.show_nodes(_out(), rows, full=full)

    @app.command()
    def path(file: File, a: str, b: str, as_json: AsJson = False) -> None:
        """How two nodes are ordered: the path of edges from one to the other. Exit code 1 where none orders them.

        A and B are ids, names, or parts of names that mean one node.
        """
        with _told():
            graph = _read(file)
            level, first, second = two_nodes(graph, a, b)
            forward = level.path(first.id, second.id)
            found = forward or level.path(second.id, first.id)
            if as_json:
                _json({"ordered": bool(found), "reversed": bool(found) and not forward, "path": [n.id for n in found]})
            elif found:
                if not forward:
                    _out().print(f"{second.id} runs before {first.id}:")
                tables.show_path(_out(), found)
            else:
                _out().print(f"no path orders {first.id} and {second.id}: they may run in parallel")
            if not found:
                raise typer.Exit(1)

    class Format(str, Enum):
        """What a graph can be converted to."""

        dot = "dot"
        svg = "svg"
        png = "png"
        json = "json"
        mermaid = "mermaid"
        html = "html"

    @app.command()
    def convert(
        file: File,
        to: Annotated[Format | None, typer.Option(help="The format; by default what OUTPUT's suffix says.")] = None,
        output: Annotated[str, typer.Option("-o", "--output", help="A file; - is standard output.")] = _STDIN,
        fold: Annotated[bool, typer.Option("--fold", help="Show repeated sequences (layers) once.")] = False,
        links: Annotated[bool, typer.Option("--links", help="DOT: arrows from nodes to the graphs they hold.")] = False,
    ) -> None:
        """Write a graph as clean DOT, a picture, JSON, Mermaid, or one HTML page to look around in."""
        with _told():
            chosen = to.value if to is not None else Path(output).suffix.lstrip(".").lower()
            chosen = {"gv": "dot", "htm": "html", "mmd": "mermaid", "md": "mermaid"}.get(chosen, chosen)
            if chosen not in Format.__members__:
                raise Problem("say what to convert to: --to dot, svg, png, json, mermaid or html")
            if chosen == "png" and output == _STDIN and sys.stdout.isatty():
                raise Problem("a PNG is not for the terminal: give a file, -o graph.png")
            graph = _read(file)
            with _progress(f"writing {chosen} …"):
                data = converted(graph, chosen, fold, links)
                if output == _STDIN:
                    sys.stdout.buffer.write(data)
                    sys.stdout.flush()
                else:
                    write_whole(Path(output), data)

    @app.command()
    def diff(a: str, b: str, as_json: AsJson = False) -> None:
        """What changed between two graphs; addresses, handles and graph numbers do not count. Exit code 1 if anything."""
        with _told():
            if a == b == _STDIN:
                raise Problem("only one of the two can be standard input")
            result = inspection.diff(_read(a), _read(b))
            if as_json:
                _json(result.to_data())
            else:
                tables.show_diff(_out(), result)
            if result:
                raise typer.Exit(1)

    @app.command()
    def check(
        files: Files,
        forbid: Annotated[
            list[str] | None, typer.Option(help="A kind or a part of a name that must not be there.")
        ] = None,  # as above
        require: Annotated[
            list[str] | None, typer.Option(help="A kind or a part of a name that must be there.")
        ] = None,  # as above
        as_json: AsJson = False,
    ) -> None:
        """Check graphs for what must not, and what must, be in them. Exit code 1 if a check fails.

        Options may be repeated, and take several words parted by commas.
        """
        with _told():
            forbidden, required = words_of(forbid), words_of(require)
            if not forbidden and not required:
                raise Problem("nothing to check: give --forbid memcpy, --require my_kernel")
            failures = []
            for name in files_of(files):
                asserting = inspection.assert_topology(_read(name))
                for word in forbidden:
                    failures += failure_of(name, functools.partial(asserting.lacks, word))
                for word in required:
                    failures += failure_of(name, functools.partial(assert_there, asserting, word))
            if as_json:
                _json({"ok": not failures, "failures": [{"file": f, "failure": text} for f, text in failures]})
            else:
                for file, text in failures:
                    _out().print(tables.clean(f"{file}: {text}"), markup=False)
                if not failures:
                    _out().print("ok")
            if failures:
                raise typer.Exit(1)

    @app.command(name="explain")
    def explain_error(
        error: Annotated[list[str], typer.Argument(help="A code, a name, or a whole message.", metavar="ERROR")],
        as_json: AsJson = False,
    ) -> None:
        """What a capture error means, what usually causes it, and what helps."""
        with _told():
            found = explain(" ".join(error))
            if not found:
                known = ", ".join(f"{e.code} {e.name}" if e.code else e.name for e in EXPLANATIONS)
                raise Problem(f"no explanation of {' '.join(error)!r}. Known: {known}")
            if as_json:
                _json([{**vars(e), "spellings": e.spellings} for e in found])
            else:
                tables.show_explanations(_out(), found)

    @app.callback(invoke_without_command=True)
    def _version(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
        if version:
            import graphcap

            print(graphcap.__version__)
            raise typer.Exit()
