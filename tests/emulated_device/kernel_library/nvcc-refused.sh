#!/bin/sh
# NVCC points here in tests on the emulated device: CuPy would otherwise start a compiler that the machine happens to have.
echo "nvcc is not used on graphcap's emulated device: kernels are built from source text by the host compiler" \
     "(backend=\"nvrtc\"); code that needs nvcc has to run on a machine with a GPU. Called with: $*" >&2
exit 1
