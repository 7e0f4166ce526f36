// Conditional nodes.
#pragma once

#include "graph.h"

namespace emulator::conditional {
CUresult build(Graph& graph, CUDA_CONDITIONAL_NODE_PARAMS& parameters, Ref<Operation>& out);
void discard(ConditionalOperation& operation);
}  // namespace emulator::conditional

namespace emulator::graph {
CUresult build_allocation(const CUDA_MEM_ALLOC_NODE_PARAMS_v2& parameters, Ref<Operation>& out);
}
