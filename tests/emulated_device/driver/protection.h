// Device memory is closed to the host.
#pragma once

#include <cstddef>

namespace emulator::protection {

bool on();
bool set(bool on);  // with the driver's lock held; gives the setting before
// Opens device memory to the calling thread for a moment.
class Open {
  public:
    Open();
    ~Open();
};
// Opens it again inside an Open: a signal resets the thread's rights.
void reopen();
// Applies the current setting to fresh memory of the device.
void apply(void* start, size_t bytes, bool open_now);

}  // namespace emulator::protection
