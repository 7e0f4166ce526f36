"""The Fourier transform stand-in against NumPy, through its C interface."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda.bindings import driver as cu
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.emulated_device import control, harness
from tests.emulated_device.harness import Board, ok
from tests.standins.interface import interface, library

Array = np.ndarray[Any, Any]

R2C, C2R, C2C, D2Z, Z2D, Z2Z = 0x2A, 0x2C, 0x29, 0x6A, 0x6C, 0x69
FORWARD, INVERSE = -1, 1
INVALID_PLAN, INVALID_VALUE, EXEC_FAILED, INVALID_SIZE, NO_WORKSPACE, NOT_IMPLEMENTED = 1, 4, 6, 8, 13, 14
LENGTHS = [1, 2, 3, 4, 5, 7, 8, 11, 12, 13, 17, 31, 60, 64, 97, 100, 121, 210, 256, 257, 1000, 1009, 2310, 4096]


class Plan:
    """A plan on a stream of its own."""

    def __init__(self, board: Board, shape: tuple[int, ...], kind: int, batch: int = 1, layout: Any = None) -> None:
        self.board, self.lib, self.kind = board, library("cufft"), kind
        ffi = interface()
        out = ffi.new("int *")
        assert self.lib.cufftCreate(out) == 0
        self.handle = out[0]
        board.later(lambda: self.lib.cufftDestroy(self.handle))
        self.stream = board.stream()
        assert self.lib.cufftSetStream(self.handle, int(self.stream)) == 0
        self.work = ffi.new("size_t *")
        if len(shape) == 1 and layout is None:
            status = self.lib.cufftMakePlan1d(self.handle, shape[0], kind, batch, self.work)
        else:
            in_box, in_stride, in_distance, out_box, out_stride, out_distance = layout or (None, 1, 0, None, 1, 0)
            boxes = [ffi.NULL if box is None else ffi.new("int[]", list(box)) for box in (in_box, out_box)]
            places = (boxes[0], in_stride, in_distance, boxes[1], out_stride, out_distance)
            sides = ffi.new("int[]", list(shape))
            status = self.lib.cufftMakePlanMany(self.handle, len(shape), sides, *places, kind, batch, self.work)
        assert status == 0

    def submit(self, source: int, target: int, direction: int = FORWARD) -> int:
        name = {R2C: "R2C", C2R: "C2R", C2C: "C2C", D2Z: "D2Z", Z2D: "Z2D", Z2Z: "Z2Z"}[self.kind]
        more = (direction,) if self.kind in (C2C, Z2Z) else ()
        return int(getattr(self.lib, f"cufftExec{name}")(self.handle, source, target, *more))


def numbers(rng: np.random.Generator, shape: Any, dtype: Any) -> Array:
    x = rng.standard_normal(shape)
    return np.asarray(x + 1j * rng.standard_normal(shape) if np.issubdtype(dtype, np.complexfloating) else x, dtype)


def close(got: Array, expected: Array) -> None:
    eps = float(np.finfo(got.dtype).eps)
    np.testing.assert_allclose(got, expected, rtol=0, atol=30 * eps * max(1.0, float(np.abs(expected).max())))


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize(("kind", "dtype"), [(C2C, np.complex64), (Z2Z, np.complex128)])
@pytest.mark.parametrize("direction", [FORWARD, INVERSE])
def test_complex_lengths(board: Board, n: int, kind: int, dtype: Any, direction: int) -> None:
    x = numbers(np.random.default_rng(n), (3, n), dtype)
    plan, source, target = Plan(board, (n,), kind, 3), board.upload(x), board.buffer(x.nbytes)
    assert plan.submit(source, target, direction) == 0
    expected = np.fft.fft(x) if direction == FORWARD else np.fft.ifft(x) * n
    close(board.read(target, dtype, x.size).reshape(x.shape), expected)


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize(
    ("forward", "inverse", "real", "dtype"),
    [(R2C, C2R, np.float32, np.complex64), (D2Z, Z2D, np.float64, np.complex128)],
)
def test_real_lengths(board: Board, n: int, forward: int, inverse: int, real: Any, dtype: Any) -> None:
    x = numbers(np.random.default_rng(n), (2, n), real)
    half = n // 2 + 1
    target, back = board.buffer(2 * half * np.dtype(dtype).itemsize), board.buffer(x.nbytes)
    assert Plan(board, (n,), forward, 2).submit(board.upload(x), target) == 0
    spectrum = board.read(target, dtype, 2 * half).reshape(2, half)
    close(spectrum, np.fft.rfft(x).astype(dtype))
    assert Plan(board, (n,), inverse, 2).submit(target, back) == 0
    close(board.read(back, real, x.size).reshape(x.shape), x * n)


@settings(max_examples=60)
@given(
    shape=st.lists(st.integers(1, 17), min_size=1, max_size=3), batch=st.integers(1, 70),
    kind=st.sampled_from([R2C, C2R, C2C, D2Z, Z2D, Z2Z]), seed=st.integers(0, 999),
)  # fmt: skip
def test_every_shape_and_batch(shape: list[int], batch: int, kind: int, seed: int) -> None:
    rng, axes = np.random.default_rng(seed), tuple(range(1, len(shape) + 1))
    single = kind in (R2C, C2R, C2C)
    real, dtype = (np.float32, np.complex64) if single else (np.float64, np.complex128)
    half = [*shape[:-1], shape[-1] // 2 + 1]
    if kind in (R2C, D2Z):
        x = numbers(rng, (batch, *shape), real)
        expected: Array = np.fft.rfftn(x, axes=axes)
    elif kind in (C2R, Z2D):
        x = numbers(rng, (batch, *half), dtype)
        expected = np.fft.irfftn(x, s=shape, axes=axes) * np.prod(shape)
    else:
        x = numbers(rng, (batch, *shape), dtype)
        expected = np.fft.fftn(x, axes=axes)
    out = np.dtype(real if kind in (C2R, Z2D) else dtype)
    with harness.board() as board:
        control.seed(seed)
        target = board.buffer(expected.size * out.itemsize)
        assert Plan(board, tuple(shape), kind, batch).submit(board.upload(x), target) == 0
        close(board.read(target, out, expected.size).reshape(expected.shape), expected)


def test_strides_and_distances(board: Board) -> None:
    """Batches along the last axis, in a larger box."""
    rng = np.random.default_rng(1)
    x = numbers(rng, (6, 8, 5), np.complex128)  # the transform is over axes 0 and 1 of the first 4 by 8
    layout = ((6, 8), 5, 1, (4, 8), 5, 1)
    plan, target = Plan(board, (4, 8), Z2Z, 5, layout), board.buffer(4 * 8 * 5 * 16)
    assert plan.submit(board.upload(x), target) == 0
    close(board.read(target, np.complex128, 160).reshape(4, 8, 5), np.fft.fftn(x[:4], axes=(0, 1)))


@pytest.mark.parametrize("n", [8, 9])
def test_real_transforms_in_place_are_padded(board: Board, n: int) -> None:
    rng, row = np.random.default_rng(2), 2 * (n // 2 + 1)
    x = np.zeros((3, row))
    x[:, :n] = rng.standard_normal((3, n))
    pointer = board.upload(x)
    assert Plan(board, (n,), D2Z, 3).submit(pointer, pointer) == 0
    close(board.read(pointer, np.complex128, 3 * row // 2).reshape(3, -1), np.fft.rfft(x[:, :n]))
    assert Plan(board, (n,), Z2D, 3).submit(pointer, pointer) == 0
    close(board.read(pointer, np.float64, 3 * row).reshape(3, row)[:, :n], x[:, :n] * n)


def test_in_place(board: Board) -> None:
    x = numbers(np.random.default_rng(3), (70, 12), np.complex64)
    pointer = board.upload(x)
    assert Plan(board, (12,), C2C, 70).submit(pointer, pointer) == 0
    close(board.read(pointer, np.complex64, x.size).reshape(x.shape), np.fft.fft(x))


def test_a_work_area_of_the_callers(board: Board) -> None:
    lib, ffi = library("cufft"), interface()
    out, work = ffi.new("int *"), ffi.new("size_t *")
    assert lib.cufftCreate(out) == 0
    before = control.counts()["device_allocation"]
    assert lib.cufftSetAutoAllocation(out[0], 0) == 0
    assert lib.cufftMakePlan1d(out[0], 17, Z2Z, 2, work) == 0
    assert control.counts()["device_allocation"] == before
    x = numbers(np.random.default_rng(4), (2, 17), np.complex128)
    source, target = board.upload(x), board.buffer(x.nbytes)
    assert lib.cufftExecZ2Z(out[0], source, target, FORWARD) == NO_WORKSPACE
    assert lib.cufftSetWorkArea(out[0], board.buffer(work[0])) == 0
    assert lib.cufftExecZ2Z(out[0], source, target, FORWARD) == 0
    close(board.read(target, np.complex128, x.size).reshape(x.shape), np.fft.fft(x))
    assert lib.cufftDestroy(out[0]) == 0
    assert lib.cufftDestroy(out[0]) == INVALID_PLAN


def test_a_captured_transform_is_one_node_and_replays(board: Board) -> None:
    rng = np.random.default_rng(5)
    plan, source, target = Plan(board, (30,), Z2Z), board.buffer(480), board.buffer(480)
    graph = board.capture(plan.stream, lambda: plan.submit(source, target))
    assert ok(cu.cuGraphGetNodes(graph, 10))[1] == 1
    executable = board.instantiate(graph)
    for seed in range(5):
        control.seed(seed)
        x = numbers(rng, 30, np.complex128)
        ok(cu.cuMemcpyHtoD(source, x.ctypes.data, x.nbytes))
        ok(cu.cuGraphLaunch(executable, plan.stream))
        close(board.read(target, np.complex128, 30), np.fft.fft(x))


def test_what_is_refused(board: Board) -> None:
    lib, ffi = library("cufft"), interface()
    out, work, sides = ffi.new("int *"), ffi.new("size_t *"), ffi.new("int[]", [2, 2, 2, 2])
    assert lib.cufftCreate(out) == 0
    board.later(lambda: lib.cufftDestroy(out[0]))
    assert lib.cufftMakePlan1d(out[0], 0, C2C, 1, work) == INVALID_SIZE
    assert lib.cufftMakePlan1d(out[0], 8, 5, 1, work) == INVALID_VALUE
    assert lib.cufftMakePlanMany(out[0], 4, sides, ffi.NULL, 1, 0, ffi.NULL, 1, 0, C2C, 1, work) == INVALID_VALUE
    assert lib.cufftExecC2C(out[0], 8, 8, FORWARD) == INVALID_PLAN  # nothing was made
    assert lib.cufftExecC2C(987654, 8, 8, FORWARD) == INVALID_PLAN
    plan, pointer = Plan(board, (4,), C2C), board.buffer(64)
    assert lib.cufftExecZ2Z(plan.handle, pointer, pointer, FORWARD) == INVALID_PLAN
    assert plan.submit(pointer, pointer, 0) == INVALID_VALUE
    control.fail("cuLaunchKernel", 1, 999)
    assert plan.submit(pointer, pointer) == EXEC_FAILED
