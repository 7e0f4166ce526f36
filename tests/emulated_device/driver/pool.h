// Stream-ordered memory pools.
#pragma once

#include "memory.h"

namespace emulator::pool {

Ref<Pool> create_default(Device& device);
void create_shared_defaults();  // of host and of managed memory
size_t accounted(size_t bytes);

}  // namespace emulator::pool
