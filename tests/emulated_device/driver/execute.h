// Seams between the scheduler and what it runs.
#pragma once

#include "scheduler.h"

namespace emulator::scheduler {

bool run_one(Lock& lock);
void execute_entry(Lock& lock, const Ref<Work>& work, const Ref<Frame>& frame, unsigned node, uint32_t priority);
void push_step(const Ref<Frame>& frame, unsigned step);
// Counts `work` as unfinished without putting it into a stream (markers of event nodes).
void begin(const Ref<Work>& work);

}  // namespace emulator::scheduler
