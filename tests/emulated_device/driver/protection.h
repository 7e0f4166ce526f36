// Device memory is closed to the host, and a stray access of a kernel becomes an error of the device.
#pragma once

#include "scheduler.h"

namespace emulator {

// Runs an operation with device memory open, turning memory faults into CUDA_ERROR_ILLEGAL_ADDRESS.
CUresult run_protected(const Operation& operation, Work& work);

namespace protection {

bool on();
bool set(bool on);  // with the driver's lock held; gives the setting before
void install_handler();
// Copies, or says that it could not because the memory is not there. Called with or without the driver's lock.
bool try_copy(void* to, const void* from, size_t bytes);
// Opens device memory to the calling thread for a moment.
class Open {
  public:
    Open();
    ~Open();
};
// Applies the current setting to fresh memory of the device.
void apply(void* start, size_t bytes, bool open_now);

}  // namespace protection
}  // namespace emulator
