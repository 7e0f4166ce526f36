"""The rewriter alone: properties of any text, checked on generated texts."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from tests.emulated_device.kernel_library import build
from tests.kernel_library.kit import emulated_only

pytestmark = emulated_only

KEYWORDS = [
    *("__global__", "__shared__", "__constant__", "__managed__", "__grid_constant__", "__noinline__"),
    *("__launch_bounds__(3)", "__launch_bounds__"),
]
words = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True).filter(
    lambda word: word not in ("L", "u", "U", "u8", "R")
)
inside = st.lists(st.sampled_from(" abz09_;:{}()[]<>*&,.=+-/#'\"\\") | st.sampled_from(KEYWORDS), max_size=12).map(
    "".join
)


def escaped(text: str, quote: str) -> str:
    return text.replace("\\", "\\\\").replace(quote, "\\" + quote)


#: Text in which a keyword is none.
hidden = st.one_of(
    inside.map(lambda text: '"' + escaped(text, '"') + '"'),
    inside.map(lambda text: "'" + escaped(text, "'") + "'"),
    inside.map(lambda text: f'R"mark({text})mark"'),
    inside.map(lambda text: f'u8R"({text.replace(")", "")})"'),
    st.sampled_from(KEYWORDS[:6]).map(lambda word: f"x{word}"),
    st.sampled_from(KEYWORDS[:6]).map(lambda word: f"{word}x"),
    st.sampled_from(KEYWORDS[:6]).map(lambda word: f"/* {word} ' \" */"),
    st.sampled_from(KEYWORDS[:6]).map(lambda word: f"// {word} '\n"),
    st.sampled_from(["1'000", "0x1p-3", "1.5e+7f", ".5", "::", "->", "\n", "\n\n", "\t"]),
)
plain = words | hidden | st.sampled_from(list("{}()[];,<>=*&:+-")) | st.just('\n# 12 "file.h" 2\n')


def joined(parts: list[str]) -> str:
    return " ".join(parts)


@given(st.lists(plain, max_size=40).map(joined))
def test_text_without_keywords_is_left_alone(text: str) -> None:
    assert build.rewrite(text) == text


@given(
    st.lists(plain | st.sampled_from(KEYWORDS) | st.sampled_from(["extern", "template", "namespace"]), max_size=40).map(
        joined
    )
)
def test_any_text_keeps_its_lines_and_its_directives(text: str) -> None:
    """Broken text too: the compiler is to complain about it, on the right line."""
    out = build.rewrite(text)
    assert out.count("\n") == text.count("\n")
    assert re.findall(r"^# 12.*$", out, re.MULTILINE) == re.findall(r"^# 12.*$", text, re.MULTILINE)


@given(
    st.lists(hidden.filter(lambda part: "//" not in part and "#" not in part), max_size=6),
    st.lists(words, min_size=1, max_size=3, unique=True),
)
def test_a_kernel_among_hidden_keywords_is_found(noise: list[str], names: list[str]) -> None:
    kernels = [
        f'extern "C" __global__ void k_{name}(int *x, const float y = f("(", 3)) {{ {joined(noise)}; }}'
        for name in names
    ]
    out = build.rewrite("\n".join(kernels))
    registered = re.findall(
        r"kernel_of<void \(\*\)\( int \* x , const float y\)>::registration<&graphcap_kernel__(\w+)> \w+\(\"(\w+)\", true\);",
        out,
    )
    assert registered == [(f"k_{name}", f"k_{name}") for name in names]


nested = st.recursive(
    st.just("x += 1;"),
    lambda inner: st.tuples(inner, inner).map(lambda two: f"{{ if (a[0]) {{ {two[0]} }} {two[1]} }}"),
    max_leaves=6,
)


@given(
    st.lists(
        st.sampled_from(
            ["namespace a", "namespace", "inline namespace b", 'extern "C"', 'extern "C++"', "namespace c::d"]
        ),
        max_size=4,
    ),
    nested,
)
def test_a_kernel_is_registered_where_it_ends_and_named_after_its_namespaces(scopes: list[str], body: str) -> None:
    text = (
        "".join(f"{scope} {{ " for scope in scopes)
        + "__global__ void k(int x) { "
        + body
        + " } int after;"
        + " }" * len(scopes)
    )
    out = build.rewrite(text)
    c = next((scope == 'extern "C"' for scope in reversed(scopes) if scope.startswith("extern")), False)
    path = ""
    for scope in scopes:
        if "namespace" in scope:
            path += (scope.removeprefix("inline ").removeprefix("namespace").strip() or "(anonymous namespace)") + "::"
    name, called, plainly = ("k", "graphcap_kernel__k", "true") if c else (path + "k", "k", "false")
    wanted = f'static graphcap_detail::kernel_of<void (*)( int x)>::registration<&{called}> graphcap_entry_0("{name}", {plainly}); int after;'
    assert wanted in out


@given(
    words, st.sampled_from(["T", "const float", "a::b<int, 3>", "unsigned char"]), st.sampled_from(["[]", "[][4]", ""])
)
def test_dynamic_shared_memory_is_a_reference(name: str, kind: str, extents: str) -> None:
    name += "_"
    out = build.rewrite(f"void f() {{ extern __shared__ alignas(8) {kind} {name}{extents}; g({name}); }}")
    wanted = f"{kind} (&{name}){extents} = *reinterpret_cast<{kind} (*){extents}>(graphcap_state.shared);"
    assert wanted.replace(" ", "") in out.replace(" ", "")
    assert "__shared__" not in out
