#!/bin/sh
# Runs the tests of the emulated driver with the driver built under address and undefined-behaviour sanitizers. Any report of
# theirs ends the run.
#
# usage: tests/emulated_device/sanitize.sh [PYTHON] [pytest arguments]   (from the repository's root)
set -eu
python=${1:-python3}
[ $# -gt 0 ] && shift
compiler=${CXX:-g++}
export GRAPHCAP_TEST_DRIVER=emulated GRAPHCAP_EMULATED_SANITIZE=address,undefined
"$python" -c "from tests.emulated_device import loader; print('driver:', loader.build())"
# Faults of kernels are the emulated device's to handle; leaks of the interpreter are not ours to count.
export ASAN_OPTIONS=detect_leaks=0:handle_segv=0:handle_sigbus=0:handle_sigfpe=0:detect_stack_use_after_return=0
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
LD_PRELOAD="$("$compiler" -print-file-name=libasan.so):$("$compiler" -print-file-name=libubsan.so)"
export LD_PRELOAD
[ $# -gt 0 ] || set -- -q -m "not slow and not gpu" -p no:cacheprovider tests/driver_rules tests/test_emulated_device_*.py
exec "$python" -m pytest "$@"
