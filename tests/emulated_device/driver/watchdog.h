// Ends grids that never end.
#pragma once

#include <cstdint>

namespace emulator::watchdog {

// Around each grid, on its thread.
void begin();
void end();
// Whether the grid that runs has used too much processor time. Read by the signal handler.
bool wants_to_stop();
// That time: GRAPHCAP_EMULATED_TIMEOUT, 300 unless set; 0: no limit.
double limit_seconds();

}  // namespace emulator::watchdog
