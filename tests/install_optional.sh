#!/bin/sh
# Packages that the tests use where they can be had. One that has no wheel for this machine is named, not fatal: the tests
# that need it skip and give the same reason.
set -u
python=$1
case "$(uname -m)" in
x86_64) "$python" -m pip install --quiet --disable-pip-version-check "dpctl>=0.22" intel-opencl-rt ||
    echo "note: dpctl or the OpenCL CPU device could not be installed; the XPU tests will skip" ;;
*) echo "note: dpctl has wheels for x86_64 only; the XPU tests will skip" ;;
esac
"$python" -m pip install --quiet --disable-pip-version-check "mpi4py>=4" "mpich>=4.2" ||
    echo "note: mpi4py or an MPI library could not be installed; the tests of several ranks will skip"
tests/emulated_device/make_cuda12.sh "$python" ||
    echo "note: the second environment (bindings of CUDA 12.9) could not be made; its tests will skip"

# Frameworks around a capture (docs/interop.md). None may move what is installed by now, NumPy above all.
held=$(mktemp)
"$python" -m pip freeze --exclude-editable | grep -iE '^(numpy|scipy|cuda-[a-z]+|nvidia-cuda-runtime)==' >"$held"
framework() {
    "$python" -m pip install --quiet --disable-pip-version-check --constraint "$held" "$1" ||
        echo "note: $1 could not be installed; its tests will skip"
}
framework "numba-cuda>=0.30"
framework "jax>=0.9"
framework "rmm-cu13>=26.10"
# The local version: the plain one may bring gigabytes of device libraries, which these tests have no use for.
framework "torch==2.13.0+cpu"
rm -f "$held"
exit 0
