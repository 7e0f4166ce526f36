#!/bin/sh
# OpenCL C to SPIR-V for the kernels in this folder, or in the folders given. Needs clang and llvm-spirv of one version:
#   Debian 12: apt install clang-14 llvm-spirv-14
# CLANG and LLVM_SPIRV name others. Beside each FILE.cl it writes FILE.spv, and the folder's spirv.json with the hashes of
# both and the tools' versions, by which the tests tell whether a binary is current.
set -eu

clang=${CLANG:-clang-14}
translator=${LLVM_SPIRV:-llvm-spirv-14}
for tool in "$clang" "$translator"; do
  if ! command -v "$tool" >/dev/null; then
    echo "error: $tool was not found; apt install clang-14 llvm-spirv-14, or set CLANG and LLVM_SPIRV" >&2
    exit 1
  fi
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

here=$(dirname "$0")
out=${SPIRV_OUT:-}
[ $# -gt 0 ] || set -- "$here"
for folder in "$@"; do
  target=${out:-$folder}
  for source in "$folder"/*.cl; do
    name=$(basename "$source" .cl)
    # -ffp-contract=off keeps a * b + c two roundings, so that results can be compared with NumPy's.
    # -O1: the translator does not know all that higher levels emit, and the device compiles once more.
    # Without file names and debug data the binary depends on the source text and the tools alone.
    (cd "$folder" && "$clang" -target spir64-unknown-unknown -x cl -cl-std=CL2.0 -Xclang -finclude-default-header \
      -O1 -ffp-contract=off -emit-llvm -c "$name.cl" -o "$work/$name.bc")
    "$translator" --spirv-max-version=1.2 "$work/$name.bc" -o "$work/$name.spv"
    cp "$work/$name.spv" "$target/$name.spv"
  done
  {
    printf '{\n  "clang": "%s",\n' "$("$clang" --version | head -n 1)"
    printf '  "llvm-spirv": "%s",\n' "$("$translator" --version | grep -i 'llvm version' | head -n 1 | sed 's/^ *//')"
    printf '  "files": {'
    comma=''
    for source in "$folder"/*.cl; do
      name=$(basename "$source" .cl)
      printf '%s\n    "%s": {"source": "%s", "spirv": "%s"}' "$comma" "$name" \
        "$(sha256sum "$source" | cut -d ' ' -f 1)" "$(sha256sum "$target/$name.spv" | cut -d ' ' -f 1)"
      comma=','
    done
    printf '\n  }\n}\n'
  } >"$target/spirv.json"
done
