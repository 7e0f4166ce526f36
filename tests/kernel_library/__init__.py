"""Tests of the kernel library: programs from source text, through NVRTC's interface."""
