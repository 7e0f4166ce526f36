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
tests/emulated_device/make_cuda12.sh "$python" ||
    echo "note: the second environment (bindings of CUDA 12.9) could not be made; its tests will skip"
exit 0
