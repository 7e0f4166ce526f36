#!/bin/sh
# Makes a second environment with the newest bindings of CUDA 12, whose edge-data calls carry other names. The tests in
# tests/test_emulated_device_cuda12.py use it where it is, and say so where it is not.
#
# usage: tests/emulated_device/make_cuda12.sh [PYTHON]   (from the repository's root)
set -eu
python=${1:-python3}
[ -x .venv-cuda12/bin/python ] || "$python" -m venv .venv-cuda12
.venv-cuda12/bin/python -m pip install --quiet --disable-pip-version-check "cuda-bindings==12.9.*" numpy cffi
