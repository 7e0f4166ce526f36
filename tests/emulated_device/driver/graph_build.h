// From the driver's parameter structures to operations and back.
#pragma once

#include "graph.h"

namespace emulator::build {

CUresult kernel(const CUDA_KERNEL_NODE_PARAMS& parameters, const KernelAttributes& attributes, Ref<Operation>& out);
CUresult copy(const CUDA_MEMCPY3D& parameters, Context* context, Ref<Operation>& out, bool check_ranges);
CUresult fill(const CUDA_MEMSET_NODE_PARAMS& parameters, Context* context, Ref<Operation>& out, bool check_ranges);
CUresult host(const CUDA_HOST_NODE_PARAMS& parameters, Ref<Operation>& out);
CUresult event(CUgraphNodeType type, CUevent handle, Ref<Operation>& out);
CUresult child(Graph& graph, bool move, Ref<Operation>& out);
// Any node but conditional ones and memory nodes, which belong to one graph and cannot be set anew.
CUresult from_node_parameters(const CUgraphNodeParams& parameters, Ref<Operation>& out);
Context* context_or_current(CUcontext handle);

}  // namespace emulator::build
