"""Cooperative groups: the block, tiles, sets of lanes, and the grid as far as it is one block."""

from __future__ import annotations

import numpy as np
import pytest
from cuda.bindings import driver as cu

from tests.emulated_device import harness
from tests.emulated_device.harness import Board
from tests.kernel_headers.programs import Program

SIZES = (1, 2, 4, 8, 16, 32)
PROGRAM = Program(
    """
    #include <cuda/barrier>
    #include <cooperative_groups.h>
    #include <cooperative_groups/reduce.h>
    #include <cooperative_groups/scan.h>
    #include <cooperative_groups/memcpy_async.h>
    namespace cg = cooperative_groups;

    __device__ unsigned anyone(const cg::thread_group &g) { g.sync(); return g.thread_rank() * 100 + g.size(); }

    template <int Size> __device__ void tile_facts(int *out) {
        auto block = cg::this_thread_block();
        auto tile = cg::tiled_partition<Size>(block);
        out[0] = tile.thread_rank();
        out[1] = tile.size();
        out[2] = tile.meta_group_rank();
        out[3] = tile.meta_group_size();
        int value = (int)block.thread_rank() * 7 % 31;
        out[4] = tile.shfl(value, Size / 2);
        out[5] = tile.shfl_up(value, 1);
        out[6] = tile.shfl_down(value, 1);
        out[7] = tile.shfl_xor(value, Size - 1);
        out[8] = tile.any(value > 25);
        out[9] = tile.all(value > 2);
        out[10] = tile.ballot(value % 2);
        out[11] = cg::reduce(tile, value, cg::plus<int>());
        out[12] = cg::reduce(tile, value, cg::greater<int>());
        out[13] = cg::reduce(tile, value, cg::less<int>());
        out[14] = cg::inclusive_scan(tile, value, cg::plus<int>());
        out[15] = cg::exclusive_scan(tile, value);
        out[16] = cg::reduce(tile, value, cg::bit_xor<int>());
        out[17] = anyone(tile);
        tile.sync();
    }
    """,
    *(
        f'extern "C" __global__ void tile_{n}(int *out) {{ tile_facts<{n}>(out + 18 * cg::this_thread_block().thread_rank()); }}'
        for n in SIZES
    ),
    """
    extern "C" __global__ void the_block(int *out, float *moved, const float *from) {
        cg::thread_block block = cg::this_thread_block();
        __shared__ int cells[96];
        __shared__ float floats[40];
        cells[block.thread_rank()] = block.thread_rank();
        cg::memcpy_async(block, floats, from, cuda::aligned_size_t<4>(sizeof(float) * 30));
        cg::memcpy_async(block, floats + 30, 7, from + 30, 100);
        cg::wait(block);
        block.sync();
        int *mine = out + 6 * block.thread_rank();
        mine[0] = cells[block.size() - 1 - block.thread_rank()];
        mine[1] = block.size();
        mine[2] = block.group_index().x * 10 + block.thread_index().y;
        mine[3] = block.group_dim().y;
        mine[4] = anyone(block);
        auto token = block.barrier_arrive();
        block.barrier_wait(cuda_move(token));
        __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
        if (block.thread_rank() == 0) init(&barrier, block.size());
        cg::sync(block);
        barrier.arrive_and_wait();
        mine[5] = block.num_threads();
        if (block.thread_rank() < 37) moved[block.thread_rank()] = floats[block.thread_rank()];
    }
    extern "C" __global__ void parts(int *out) {
        auto block = cg::this_thread_block();
        auto warp = cg::tiled_partition<32>(block);
        int i = block.thread_rank(), *mine = out + 8 * i;
        auto labeled = cg::labeled_partition(warp, i % 3);
        mine[0] = labeled.size();
        mine[1] = labeled.thread_rank();
        mine[2] = labeled.shfl(i, 1);
        mine[3] = cg::reduce(labeled, i, cg::plus<int>());
        auto halves = cg::binary_partition(warp, i % 4 == 0);
        mine[4] = halves.size();
        mine[5] = halves.shfl_down(i, 1);
        auto inner = cg::tiled_partition<4>(cg::tiled_partition<16>(block));
        mine[6] = inner.meta_group_rank() * 10 + inner.meta_group_size();
        double wide = cg::reduce(inner, (double)i / 2, cg::plus<double>());
        mine[7] = (int)(wide * 2);
    }
    struct Triple { double a, b; int c; };
    extern "C" __global__ void structures(double *out) {
        auto tile = cg::tiled_partition<8>(cg::this_thread_block());
        int i = threadIdx.x;
        Triple mine = {i + 0.5, i * 2.0, i}, other = tile.shfl(mine, 3);
        out[3 * i] = other.a; out[3 * i + 1] = other.b; out[3 * i + 2] = other.c;
    }
    extern "C" __global__ void coalesced(int *count) {
        if (threadIdx.x % 3 == 0) {
            auto active = cg::coalesced_threads();
            if (active.thread_rank() == 0) atomicAdd(count, (int)active.size());
        }
    }
    extern "C" __global__ void the_grid(int *out, int *seen) {
        auto grid = cg::this_grid();
        out[grid.thread_rank()] = grid.size() * 1000 + grid.block_rank() * 100 + grid.num_blocks();
        grid.sync();
        seen[grid.thread_rank()] = out[grid.size() - 1 - grid.thread_rank()];
        cg::sync(grid);
    }
    """.replace("cuda_move(token)", "static_cast<decltype(token) &&>(token)"),
)


def ranks(size: int, count: int) -> list[list[int]]:
    """The threads of each tile."""
    return [list(range(i // size * size, min(i // size * size + size, count))) for i in range(count)]


@pytest.mark.parametrize("size", SIZES)
def test_tiles(board: Board, size: int) -> None:
    count = 64
    (out,) = PROGRAM.run(board, f"tile_{size}", np.zeros((count, 18), np.int32), block=(16, 4))
    value = [i * 7 % 31 for i in range(count)]
    for i, tile in enumerate(ranks(size, count)):
        rank = tile.index(i)
        mine = [value[j] for j in tile]
        expected = [
            rank, size, i // size, count // size,
            mine[size // 2], mine[max(rank - 1, 0)], mine[min(rank + 1, size - 1)], mine[rank ^ (size - 1)],
            int(max(mine) > 25), int(min(mine) > 2), sum(v % 2 << r for r, v in enumerate(mine)),
            sum(mine), max(mine), min(mine), sum(mine[: rank + 1]), sum(mine[:rank]),
            int(np.bitwise_xor.reduce(mine)), rank * 100 + size,
        ]  # fmt: skip
        got = out[i].tolist()
        got[8], got[9] = int(bool(got[8])), int(bool(got[9]))
        got[10] &= 0xFFFFFFFF
        assert got == expected, f"thread {i}"


def test_the_block(board: Board) -> None:
    given = np.random.default_rng(1).standard_normal(37).astype(np.float32)
    out, moved, _ = PROGRAM.run(
        board, "the_block", np.zeros((96, 6), np.int32), np.zeros(37, np.float32), given, block=(24, 4)
    )
    assert out.tolist() == [[95 - i, 96, i // 24, 4, i * 100 + 96, 96] for i in range(96)]
    np.testing.assert_array_equal(moved, given)


def test_partitions(board: Board) -> None:
    (out,) = PROGRAM.run(board, "parts", np.zeros((64, 8), np.int32), block=64)
    for i in range(64):
        warp = range(i // 32 * 32, i // 32 * 32 + 32)
        labeled = [j for j in warp if j % 3 == i % 3]
        halves = [j for j in warp if (j % 4 == 0) == (i % 4 == 0)]
        at = halves.index(i)
        four = range(i // 4 * 4, i // 4 * 4 + 4)
        assert out[i].tolist() == [
            len(labeled), labeled.index(i), labeled[1], sum(labeled), len(halves), halves[min(at + 1, len(halves) - 1)],
            i // 4 % 4 * 10 + 4, sum(four),
        ]  # fmt: skip


def test_structures_are_shuffled_whole(board: Board) -> None:
    (out,) = PROGRAM.run(board, "structures", np.zeros((32, 3)))
    assert out.tolist() == [[j + 0.5, j * 2.0, j] for j in (i // 8 * 8 + 3 for i in range(32))]


def test_coalesced_threads_each_count_once(board: Board) -> None:
    """However many are found together."""
    (count,) = PROGRAM.run(board, "coalesced", np.zeros(1, np.int32), block=64)
    assert count[0] == len(range(0, 64, 3))


def test_a_grid_of_one_block(board: Board) -> None:
    out, seen = PROGRAM.run(board, "the_grid", np.zeros(40, np.int32), np.zeros(40, np.int32), block=40)
    assert out.tolist() == [40 * 1000 + 1] * 40
    assert seen.tolist() == out.tolist()


@pytest.mark.skipif(not harness.emulated(), reason="a GPU hangs or runs, as the launch is not cooperative")
def test_a_grid_of_several_blocks_cannot_wait_for_itself(board: Board) -> None:
    with pytest.raises(harness.DriverCallError) as raised:
        PROGRAM.run(board, "the_grid", np.zeros(80, np.int32), np.zeros(80, np.int32), grid=2, block=40)
    assert raised.value.code == cu.CUresult.CUDA_ERROR_LAUNCH_FAILED
