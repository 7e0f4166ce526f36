// Faults of what the emulated device runs become errors of the device; the process lives.
#pragma once

#include <string>

#include "scheduler.h"

namespace emulator {

// Runs an operation with device memory open. Where it faults, `trouble` says how.
CUresult run_protected(const Operation& operation, Work& work, std::string& trouble);

namespace faults {

void install_handler();
// Copies, or says that it could not because the memory is not there. Called with or without the driver's lock.
bool try_copy(void* to, const void* from, size_t bytes);

}  // namespace faults

namespace division {

// Gives an integer division that has no result the one that a GPU gives, and goes on behind it. False: the signal is not
// from such a division. `context` is the handler's third argument.
bool settle(void* context);

}  // namespace division
}  // namespace emulator
