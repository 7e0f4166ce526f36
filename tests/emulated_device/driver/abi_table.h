// The (name, version) table behind cuGetProcAddress.
#pragma once

#include <type_traits>
#include <vector>

#include "call.h"

namespace emulator {

struct AbiRow {
    const char* name;
    int version;  // 1000 * major + 10 * minor of the release that introduced this ABI
    void* function;
    void* per_thread;
};

const std::vector<AbiRow>& abi_table();

struct NullStreamIsPerThread {
    bool before = null_stream_is_per_thread();
    NullStreamIsPerThread() { null_stream_is_per_thread() = true; }
    ~NullStreamIsPerThread() { null_stream_is_per_thread() = before; }
};

}  // namespace emulator
