"""The block-wide and warp-wide algorithms of CUB that kernel text may use, and cuComplex.h."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulated_device import harness
from tests.emulated_device.harness import Board
from tests.kernel_headers.programs import Program

PROGRAM = Program(
    """
    #include <cub/cub.cuh>
    #include <cuda/functional>
    #include <cuComplex.h>

    struct Joined { int first, last; };  // joining is not commutative
    struct Join { __device__ Joined operator()(const Joined &a, const Joined &b) const { return {a.first, b.last}; } };

    extern "C" __global__ void reductions(double *out, Joined *ends, const double *in) {
        typedef cub::BlockReduce<double, 96> Reduce;
        __shared__ typename Reduce::TempStorage storage;
        int i = threadIdx.x;
        double results[4];
        results[0] = Reduce(storage).Sum(in[i]);
        __syncthreads();
        results[1] = Reduce(storage).Reduce(in[i], cuda::maximum());
        __syncthreads();
        results[2] = Reduce(storage).Sum(in[i], 50);
        __syncthreads();
        double own[2] = {in[i], in[i] * 2};
        results[3] = Reduce(storage).Sum(own);
        typedef cub::BlockReduce<Joined, 96> JoinedReduce;
        __shared__ typename JoinedReduce::TempStorage joined;
        Joined all = JoinedReduce(joined).Reduce(Joined{i, i}, Join());
        if (i == 0) {
            for (int k = 0; k < 4; ++k) out[k] = results[k];
            ends[0] = all;
        }
    }
    extern "C" __global__ void scans(int *out, const int *in) {
        typedef cub::BlockScan<int, 64> Scan;
        __shared__ typename Scan::TempStorage storage;
        int i = threadIdx.x, *mine = out + 8 * i;
        Scan(storage).InclusiveSum(in[i], mine[0]);
        __syncthreads();
        Scan(storage).ExclusiveSum(in[i], mine[1], mine[2]);
        __syncthreads();
        Scan(storage).InclusiveScan(in[i], mine[3], cuda::maximum<int>());
        __syncthreads();
        int own[2] = {in[i], 1}, sums[2];
        Scan(storage).ExclusiveSum(own, sums);
        mine[4] = sums[0];
        mine[5] = sums[1];
        typedef cub::WarpScan<int> WarpScan;
        __shared__ typename WarpScan::TempStorage warps[2];
        WarpScan(warps[i / 32]).InclusiveSum(in[i], mine[6]);
        typedef cub::WarpReduce<int, 16> WarpReduce;
        __shared__ typename WarpReduce::TempStorage parts[4];
        mine[7] = WarpReduce(parts[i / 16]).Sum(in[i]);
    }
    extern "C" __global__ void loads(float *out, float *copy, const float *in, int valid) {
        typedef cub::BlockLoad<float, 32, 4> Load;
        typedef cub::BlockStore<float, 32, 4> Store;
        __shared__ typename Load::TempStorage load;
        __shared__ typename Store::TempStorage store;
        float items[4];
        Load(load).Load(in, items, valid, -1.0f);
        for (int k = 0; k < 4; ++k) out[4 * threadIdx.x + k] = items[k];
        Store(store).Store(copy, items, valid - 10);
    }
    extern "C" __global__ void complex_numbers(cuDoubleComplex *out, const cuDoubleComplex *in) {
        cuDoubleComplex a = in[0], b = in[1];
        out[0] = cuCmul(a, b); out[1] = cuCdiv(a, b); out[2] = cuCsub(cuConj(a), b);
        out[3] = make_cuDoubleComplex(cuCabs(a), cuCreal(b)); out[4] = cuCfma(a, b, a);
        cuFloatComplex f = cuComplexDoubleToFloat(cuCadd(a, b));
        out[5] = cuComplexFloatToDouble(f);
    }
    """
)

pytestmark = pytest.mark.skipif(not harness.emulated(), reason="about the emulated device's own headers, not a GPU's")


def test_reductions(board: Board) -> None:
    given = np.random.default_rng(1).standard_normal(96)
    out, ends, _ = PROGRAM.run(board, "reductions", np.zeros(4), np.zeros(2, np.int32), given, block=96)
    np.testing.assert_allclose(out, [given.sum(), given.max(), given[:50].sum(), 3 * given.sum()], rtol=1e-12)
    assert ends.tolist() == [0, 95]


def test_scans(board: Board) -> None:
    given = np.random.default_rng(2).integers(-50, 50, 64).astype(np.int32)
    out, _ = PROGRAM.run(board, "scans", np.zeros((64, 8), np.int32), given, block=64)
    inclusive = np.cumsum(given)
    before = inclusive - given
    places = np.arange(64)
    columns = [inclusive, before, np.full(64, given.sum()), np.maximum.accumulate(given), before + places]
    columns.append(inclusive + places)
    columns.append(np.concatenate([np.cumsum(half) for half in given.reshape(2, 32)]))
    np.testing.assert_array_equal(out[:, :7], np.stack(columns, 1))
    np.testing.assert_array_equal(out[::16, 7], given.reshape(4, 16).sum(1))


def test_loads_and_stores(board: Board) -> None:
    given = np.arange(128, dtype=np.float32)
    out, copy, _ = PROGRAM.run(
        board, "loads", np.zeros(128, np.float32), np.zeros(128, np.float32), given, np.int32(101)
    )
    np.testing.assert_array_equal(out, np.where(given < 101, given, -1))
    np.testing.assert_array_equal(copy, np.where(given < 91, given, 0))


def test_complex_numbers(board: Board) -> None:
    a, b = 1.5 - 2j, -0.25 + 3j
    out, _ = PROGRAM.run(board, "complex_numbers", np.zeros(6, np.complex128), np.array([a, b]), block=1)
    expected = [a * b, a / b, a.conjugate() - b, abs(a) + 1j * b.real, a * b + a, a + b]
    np.testing.assert_allclose(out, expected, rtol=1e-14)
