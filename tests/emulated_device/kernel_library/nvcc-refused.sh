#!/bin/sh
# NVCC points here in tests on the emulated device: CuPy would otherwise start a compiler that the machine happens to have.
# The version is told (CuPy's own tests ask for it before anything else); nothing is ever compiled.
if [ "$*" = "--version" ]; then
    echo "graphcap's stand-in for nvcc, which compiles nothing"
    echo "Cuda compilation tools, release 13.0, V13.0.0"
    exit 0
fi
echo "nvcc is not used on graphcap's emulated device: kernels are built from source text by the host compiler" \
     "(backend=\"nvrtc\"); code that needs nvcc has to run on a machine with a GPU. Called with: $*" >&2
exit 1
