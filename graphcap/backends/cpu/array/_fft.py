"""Discrete Fourier transforms under capture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphcap.backends.cpu.array._base import operands
from graphcap.backends.cpu.array._dispatch import recorded
from graphcap.backends.cpu.array._infer import evaluate, ones_like, record_function, record_result
from graphcap.backends.cpu.array._memory import Plain
from graphcap.backends.cpu.stream import CPUStream

__all__: list[str] = []


@recorded("fft.fft fft.ifft fft.rfft fft.irfft fft.ihfft")
def _one_axis(stream: CPUStream, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if kwargs.get("out") is not None:
        return record_function(stream, function, *args, **kwargs)
    kwargs.pop("out", None)
    reads: list[Plain] = []
    given, options = operands(args, stream, reads), operands(kwargs, stream, reads)
    like = evaluate(function, given, options, ones_like)
    return record_result(stream, function, given, options, reads, like, takes_out=True)


@recorded("fft.hfft fft.fft2 fft.ifft2 fft.fftn fft.ifftn fft.rfft2 fft.irfft2 fft.rfftn fft.irfftn")
def _several_axes(stream: CPUStream, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """With ``out`` NumPy's steps over the axes would write to it in between, and ``hfft`` would not write to it at all."""
    return record_function(stream, function, *args, **kwargs)
