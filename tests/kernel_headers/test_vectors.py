"""Vector types: the table "Alignment Requirements" of the CUDA C++ programming guide, section "Built-in Vector Types"."""

from __future__ import annotations

import numpy as np

from tests.emulated_device.harness import Board
from tests.kernel_headers.programs import Program

SIZES = {"char": 1, "short": 2, "int": 4, "long": 8, "longlong": 8, "float": 4, "double": 8}
ALIGNMENTS = {
    "char": (1, 2, 1, 4),
    "short": (2, 4, 2, 8),
    "int": (4, 8, 4, 16),
    "long": (8, 16, 8, 16),
    "longlong": (8, 16, 8, 16),
    "float": (4, 8, 4, 16),
    "double": (8, 16, 8, 16),
}
TYPES = [
    f"{sign}{name}{count}"
    for name in SIZES
    for sign in ("", "u")
    for count in (1, 2, 3, 4)
    if not (sign and name in ("float", "double"))
]

PROGRAM = Program(
    'extern "C" __global__ void layouts(int *sizes, int *alignments) {',
    *(f"sizes[{i}] = sizeof({name}); alignments[{i}] = alignof({name});" for i, name in enumerate(TYPES)),
    "}",
    """
    extern "C" __global__ void members(float *out, const float4 *in, int3 *threads) {
        float4 v = in[0];
        float2 pair = make_float2(v.w, v.z);
        uchar4 bytes = make_uchar4(1, 2, 3, 255);
        out[0] = v.x; out[1] = v.y; out[2] = pair.y; out[3] = pair.x; out[4] = bytes.w;
        dim3 d(7, 8), unit;
        threads[0] = make_int3(d.x, d.y, d.z);
        threads[1] = make_int3(unit.x, unit.y, unit.z);
        uint3 u = blockDim;
        dim3 back = u;
        threads[2] = make_int3(back.x, back.y, back.z);
        threads[3] = make_int3(gridDim.x, gridDim.y, warpSize);
    }
    """,
)


def test_sizes_and_alignments(board: Board) -> None:
    sizes, alignments = PROGRAM.run(
        board, "layouts", np.zeros(len(TYPES), np.int32), np.zeros(len(TYPES), np.int32), block=1
    )
    expected_sizes, expected_alignments = [], []
    for name in TYPES:
        stem, count = name[:-1].removeprefix("u"), int(name[-1])
        expected_sizes.append(SIZES[stem] * count)
        expected_alignments.append(ALIGNMENTS[stem][count - 1])
    assert dict(zip(TYPES, sizes, strict=True)) == dict(zip(TYPES, expected_sizes, strict=True))
    assert dict(zip(TYPES, alignments, strict=True)) == dict(zip(TYPES, expected_alignments, strict=True))


def test_members_and_dim3(board: Board) -> None:
    out, _, threads = PROGRAM.run(
        board,
        "members",
        np.zeros(5, np.float32),
        np.array([1, 2, 3, 4], np.float32),
        np.zeros((4, 3), np.int32),
        grid=(1, 1),
        block=(1, 1, 1),
    )
    assert out.tolist() == [1, 2, 3, 4, 255]
    assert threads.tolist() == [[7, 8, 1], [1, 1, 1], [1, 1, 1], [1, 1, 32]]


LINEAR = Program(
    """
    extern "C" __global__ void places(unsigned *out) {
        unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
        unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
        unsigned i = block * blockDim.x * blockDim.y * blockDim.z + thread;
        out[i] = i + 1;
    }
    """
)


def test_built_in_variables_number_all_threads(board: Board) -> None:
    (out,) = LINEAR.run(board, "places", np.zeros(2 * 3 * 4 * 5 * 2 * 3, np.uint32), grid=(2, 3, 4), block=(5, 2, 3))
    assert (out == np.arange(1, out.size + 1)).all()
