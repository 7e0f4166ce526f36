"""Warp operations against a model of PTX's definitions (``shfl.sync``, ``vote.sync``, ``match.sync``, ``redux.sync``)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.emulated_device import harness
from tests.emulated_device.harness import Board
from tests.kernel_headers.programs import Array, Program

TYPES: dict[str, tuple[str, type[np.generic]]] = {
    "int": ("int", np.int32),
    "uint": ("unsigned", np.uint32),
    "long": ("long", np.int64),
    "ulong": ("unsigned long", np.uint64),
    "ll": ("long long", np.int64),
    "ull": ("unsigned long long", np.uint64),
    "float": ("float", np.float32),
    "double": ("double", np.float64),
}
SHUFFLES = ("shfl", "shfl_up", "shfl_down", "shfl_xor")
WIDTHS = (2, 4, 8, 16, 32)
REDUCTIONS: dict[str, tuple[str, Callable[[int, int], int]]] = {
    "add_u": ("unsigned", lambda a, b: (a + b) & 0xFFFFFFFF),
    "min_u": ("unsigned", min),
    "max_u": ("unsigned", max),
    "and_u": ("unsigned", lambda a, b: a & b),
    "or_u": ("unsigned", lambda a, b: a | b),
    "xor_u": ("unsigned", lambda a, b: a ^ b),
    "add_i": ("int", lambda a, b: ((a + b + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)),
    "min_i": ("int", min),
    "max_i": ("int", max),
}

PROGRAM = Program(
    "#include <cuda_fp16.h>\n#include <cuda_bf16.h>",
    *(
        f"""
        extern "C" __global__ void {name}_{kind}({word} *out, const {word} *in, const int *by, int width) {{
            out[threadIdx.x] = __{name}_sync(0xffffffffu, in[threadIdx.x], by[threadIdx.x], width);
        }}
        """
        for name in SHUFFLES
        for kind, (word, _) in TYPES.items()
    ),
    *(
        f"""
        extern "C" __global__ void small_{kind}({word} *out, const {word} *in) {{
            out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, __shfl_down_sync(0xffffffffu, in[threadIdx.x], 1), 3, 8);
        }}
        """
        for kind, word in (("half", "__half"), ("bfloat", "__nv_bfloat16"), ("half2", "__half2"))
    ),
    *(
        f"""
        extern "C" __global__ void reduce_{name}({word} *out, const {word} *in) {{
            int lane = threadIdx.x % 32;
            unsigned mask = lane < 7 ? 0x7f : lane % 2 ? 0xaaaaaa80u : 0x55555500u;
            out[threadIdx.x] = __reduce_{name[:-2]}_sync(mask, in[threadIdx.x]);
        }}
        """
        for name, (word, _) in REDUCTIONS.items()
    ),
    *(
        f"""
        extern "C" __global__ void match_{kind}(unsigned *any, unsigned *all, int *same, const {word} *in) {{
            unsigned mask = threadIdx.x % 32 < 16 ? 0xffffu : 0xffff0000u;
            any[threadIdx.x] = __match_any_sync(mask, in[threadIdx.x]);
            all[threadIdx.x] = __match_all_sync(mask, in[threadIdx.x], &same[threadIdx.x]);
        }}
        """
        for kind, (word, _) in TYPES.items()
    ),
    """
    extern "C" __global__ void votes(unsigned *ballot, int *any, int *all, const int *in) {
        int p = in[threadIdx.x];
        unsigned mask = threadIdx.x % 32 < 8 ? 0xffu : 0xffffff00u;
        ballot[threadIdx.x] = __ballot_sync(mask, p);
        any[threadIdx.x] = __any_sync(mask, p);
        all[threadIdx.x] = __all_sync(mask, p);
    }
    extern "C" __global__ void early(unsigned *out, int *sums) {
        if (threadIdx.x % 4 == 3) return;  // a lane that has returned is not waited for
        out[threadIdx.x] = __ballot_sync(0xffffffffu, threadIdx.x % 2);
        int sum = 1;
        for (int by = 16; by; by /= 2) sum += __shfl_xor_sync(0x77777777u, sum, by & 0x1c);
        sums[threadIdx.x] = sum;
    }
    extern "C" __global__ void branches(int *out) {
        int lane = threadIdx.x, x;
        if (lane < 16) x = __shfl_sync(0x0000ffffu, lane * 10, 15 - lane);
        else x = __shfl_down_sync(0xffff0000u, lane * 100, 4, 16);
        __syncwarp();
        out[lane] = x;
    }
    extern "C" __global__ void handing_on(int *out) {
        __shared__ int cells[96];
        int i = threadIdx.x;
        cells[i] = i;
        for (int step = 1; step < 32; step *= 2) {
            __syncwarp();
            int x = cells[i ^ step];
            __syncwarp();
            cells[i] += x;
        }
        out[i] = cells[i];
    }
    extern "C" __global__ void active(unsigned *out) { out[threadIdx.x] = __activemask(); }
    """,
)


def source(name: str, lane: int, by: int, width: int) -> int:
    """The lane that is read, after the pseudo-code of PTX's ``shfl.sync``."""
    clamp = 0 if name == "shfl_up" else 31
    segment = 32 - width
    distance = by & 31
    most, least = (lane & segment) | (clamp & ~segment & 31), lane & segment
    if name == "shfl_up":
        return lane - distance if lane - distance >= most else lane
    wanted = {
        "shfl": least | (distance & ~segment),
        "shfl_down": lane + distance,
        "shfl_xor": lane ^ distance,
    }[name]
    return wanted if wanted <= most else lane


def values(dtype: type[np.generic], count: int, seed: int) -> Array:
    words = np.random.default_rng(seed).integers(0, 1 << 63, count)
    if issubclass(dtype, np.floating):
        return (words / 2.0**40).astype(dtype)
    return words.astype(dtype)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", SHUFFLES)
def test_shuffles(board: Board, name: str, kind: str) -> None:
    """Every width, and distances and indices beyond the warp."""
    dtype = TYPES[kind][1]
    draw = np.random.default_rng(21)
    for width in WIDTHS:
        given = values(dtype, 64, width)
        # Deltas are the same for all lanes, as they mostly are; indices may differ.
        for by in ([0], [1], [3], [width - 1], [width], [31], [32], [33], None):
            steps = np.array(by * 64 if by else draw.integers(-5, 70, 64) % (97 if name == "shfl" else 32), np.int32)
            out, *_ = PROGRAM.run(board, f"{name}_{kind}", np.zeros(64, dtype), given, steps, np.int32(width), block=64)
            read = [i // 32 * 32 + source(name, i % 32, int(steps[i]), width) for i in range(64)]
            np.testing.assert_array_equal(out, given[read])


@pytest.mark.parametrize(("kind", "dtype"), [("half", np.uint16), ("bfloat", np.uint16), ("half2", np.uint32)])
def test_shuffles_of_small_numbers(board: Board, kind: str, dtype: type[np.generic]) -> None:
    given = values(dtype, 32, 3)
    out, _ = PROGRAM.run(board, f"small_{kind}", np.zeros(32, dtype), given)
    down = [source("shfl_down", i, 1, 32) for i in range(32)]
    np.testing.assert_array_equal(out, given[[down[source("shfl_xor", i, 3, 8)] for i in range(32)]])


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(board: Board, name: str) -> None:
    word, f = REDUCTIONS[name]
    dtype = np.int32 if word == "int" else np.uint32
    given = values(np.uint32, 64, 4).view(dtype)
    out, _ = PROGRAM.run(board, f"reduce_{name}", np.zeros(64, dtype), given, block=64)
    for i in range(64):
        lane = i % 32
        lanes = range(7) if lane < 7 else range(7 + (lane % 2 == 0), 32, 2)
        total: int | None = None
        for j in lanes:
            value = int(given[i // 32 * 32 + j])
            total = value if total is None else f(total, value)
        assert int(out[i]) == total


@pytest.mark.parametrize("kind", TYPES)
def test_matches(board: Board, kind: str) -> None:
    dtype = TYPES[kind][1]
    given = (np.random.default_rng(5).integers(0, 4, 96) * 1000003).astype(dtype)
    given[32:48] = given[32]  # all equal in one half of a warp
    any_, all_, same, _ = PROGRAM.run(
        board,
        f"match_{kind}",
        np.zeros(96, np.uint32),
        np.zeros(96, np.uint32),
        np.zeros(96, np.int32),
        given,
        block=96,
    )
    for i in range(96):
        half = range(i // 16 * 16, i // 16 * 16 + 16)
        mask = sum(1 << j % 32 for j in half if given[j] == given[i])
        everyone = sum(1 << j % 32 for j in half)
        equal = all(given[j] == given[i] for j in half)
        assert int(any_[i]) == mask
        assert int(all_[i]) == (everyone if equal else 0)
        assert bool(same[i]) is equal


def test_votes(board: Board) -> None:
    given = np.random.default_rng(6).integers(0, 2, 64).astype(np.int32) * 5
    given[:8] = 1
    given[32:40] = 0
    ballot, any_, all_, _ = PROGRAM.run(
        board, "votes", np.zeros(64, np.uint32), np.zeros(64, np.int32), np.zeros(64, np.int32), given, block=64
    )
    for i in range(64):
        base, lane = i // 32 * 32, i % 32
        lanes = range(8) if lane < 8 else range(8, 32)
        expected = sum(1 << j for j in lanes if given[base + j])
        assert int(ballot[i]) == expected
        assert bool(any_[i]) is bool(expected)
        assert bool(all_[i]) is all(given[base + j] for j in lanes)


def test_lanes_that_have_returned(board: Board) -> None:
    out, sums = PROGRAM.run(board, "early", np.zeros(32, np.uint32), np.zeros(32, np.int32))
    here = [i for i in range(32) if i % 4 != 3]
    voted = sum(1 << i for i in here if i % 2)
    assert [int(x) for x in out] == [voted if i in here else 0 for i in range(32)]
    assert all(sums[i] == 32 for i in here)  # 16, 8 and 4 add eight lanes; 2 and 1 are masked to the lane itself


def test_two_branches(board: Board) -> None:
    (out,) = PROGRAM.run(board, "branches", np.zeros(32, np.int32))
    lower = [(15 - i) * 10 for i in range(16)]
    upper = [(i + 4 if i + 4 < 32 else i) * 100 for i in range(16, 32)]
    assert out.tolist() == lower + upper


def test_shared_memory_between_warp_barriers(board: Board) -> None:
    (out,) = PROGRAM.run(board, "handing_on", np.zeros(96, np.int32), block=96)
    assert out.tolist() == [sum(range(i // 32 * 32, i // 32 * 32 + 32)) for i in range(96)]


def test_active_mask_has_the_lane_itself(board: Board) -> None:
    """All that is promised. The emulated device promises no more: no two lanes run in step."""
    (out,) = PROGRAM.run(board, "active", np.zeros(32, np.uint32))
    assert all(int(out[i]) >> i & 1 for i in range(32))
    if harness.emulated():
        assert [int(x) for x in out] == [1 << i for i in range(32)]
