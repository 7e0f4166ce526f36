// Copies and sets, as operations.
#pragma once

#include "call.h"

namespace emulator::copy {

CUDA_MEMCPY3D linear(CUmemorytype to, uintptr_t target, CUmemorytype from, uintptr_t source, size_t bytes);
size_t bytes_of(const CUDA_MEMCPY3D& parameters);
// What the copy is between, as the DOT text says it.
const char* direction(const CUDA_MEMCPY3D& parameters, bool& source_pinned, bool& target_pinned);
bool device_side(CUmemorytype type, uintptr_t pointer);
uintptr_t source_of(const CUDA_MEMCPY3D& parameters);
uintptr_t target_of(const CUDA_MEMCPY3D& parameters);

}  // namespace emulator::copy
