#!/bin/sh
# The fast tests on every CPython from 3.10 up that this machine has, each in an environment of its own.
set -eu
cd "$(dirname "$0")/.."
tried=0
failed=""
for minor in 10 11 12 13 14 15; do
    found=""
    for candidate in "python3.$minor" "$HOME"/.pyenv/versions/3.$minor.*/bin/python; do
        if "$candidate" -c 'import sys; sys.exit(sys.implementation.name != "cpython")' >/dev/null 2>&1; then
            found=$candidate
            break
        fi
    done
    [ -n "$found" ] || continue
    tried=$((tried + 1))
    venv=.venv-3.$minor
    echo "== CPython 3.$minor"
    [ -x "$venv/bin/python" ] || "$found" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -e ".[test]"
    tests/install_optional.sh "$venv/bin/python"
    for folder in "" tests/cupy; do # shellcheck disable=SC2086 # nothing, or one folder
        "$venv/bin/python" -m pytest -q -n 2 --dist loadgroup -m "not slow and not gpu" $folder || failed="$failed 3.$minor"
    done
done
[ "$tried" -gt 0 ] || { echo "no CPython from 3.10 up was found" >&2; exit 1; }
[ -z "$failed" ] || { echo "failed on:$failed" >&2; exit 1; }
echo "passed on $tried versions"
