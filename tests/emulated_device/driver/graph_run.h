// How a launched graph moves through the scheduler.
#pragma once

#include "scheduler.h"

namespace emulator::graph_run {

void start(const Ref<Launch>& launch);
// True when a body was entered; false when the node is finished at once.
bool enter_conditional(const Ref<Frame>& frame, unsigned step);
// A finished launch lets go of what it used, which may be the last to hold it.
void release(Launch& launch);
void finish_step(const Ref<Frame>& frame, unsigned step);

}  // namespace emulator::graph_run
