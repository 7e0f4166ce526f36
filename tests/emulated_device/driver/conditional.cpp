#include "conditional.h"

namespace emulator {

namespace conditional {

CUresult build(Graph& graph, CUDA_CONDITIONAL_NODE_PARAMS& p, Ref<Operation>& out) {
    auto found = graph.conditionals.find(p.handle);
    if (found == graph.conditionals.end() || found->second->used) return CUDA_ERROR_INVALID_VALUE;
    switch (p.type) {
        case CU_GRAPH_COND_TYPE_IF:
            if (p.size != 1 && p.size != 2) return CUDA_ERROR_INVALID_VALUE;
            break;
        case CU_GRAPH_COND_TYPE_WHILE:
            if (p.size != 1) return CUDA_ERROR_INVALID_VALUE;
            break;
        case CU_GRAPH_COND_TYPE_SWITCH:
            if (!p.size || p.size > 4096) return CUDA_ERROR_INVALID_VALUE;
            break;
        default:
            return CUDA_ERROR_INVALID_VALUE;
    }
    Context* context = p.ctx ? state().contexts.find(p.ctx) : current_context();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    auto operation = make<ConditionalOperation>();
    // Placement first: bodies are made only for a node that will stand.
    if (const CUresult error = graph::check_placement(graph, *operation)) return error;
    operation->condition = p.handle;
    operation->kind = p.type;
    operation->context = context;
    for (unsigned i = 0; i < p.size; ++i) {
        operation->bodies.push_back(graph::create());
        operation->body_handles.push_back(handle_of<CUgraph>(operation->bodies.back().get()));
    }
    out = operation;
    return CUDA_SUCCESS;
}

void discard(ConditionalOperation& operation) {
    for (auto& body : operation.bodies) graph::destroy(*body);
}

}  // namespace conditional

extern "C" CUresult CUDAAPI cuGraphConditionalHandleCreate(CUgraphConditionalHandle* out, CUgraph handle, CUcontext ctx,
                                                           unsigned int default_value, unsigned int flags)
CALL(cuGraphConditionalHandleCreate, initialised, nullptr) {
    Graph* graph = graph::find(handle);
    if (!graph || !out || (flags & ~static_cast<unsigned>(CU_GRAPH_COND_ASSIGN_DEFAULT))) return CUDA_ERROR_INVALID_VALUE;
    Context* context = ctx ? state().contexts.find(ctx) : current_context();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    auto condition = make<Conditional>();
    condition->id = 0xC0000000u + state().next_serial++;
    condition->default_value = default_value;
    condition->flags = flags;
    condition->context = context;
    graph->conditionals[condition->id] = condition;
    *out = condition->id;
    return CUDA_SUCCESS;
} END_CALL

}  // namespace emulator
