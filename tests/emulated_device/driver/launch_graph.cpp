// Instantiating, launching, uploading and destroying executable graphs.
#include "capture.h"
#include "executable.h"
#include "execute.h"
#include "memory.h"

namespace emulator {
namespace {

// What a launch will do to graph-owned memory, decided when it is submitted (S-D31, D33).
CUresult plan_memory(const Executable& executable, const Plan& plan, std::vector<CUdeviceptr>& free_first) {
    std::unordered_map<GraphAllocation*, bool> after;
    auto promised = [&](GraphAllocation* one) {
        auto found = after.find(one);
        return found == after.end() ? one->promised : found->second;
    };
    size_t wanted = 0;
    for (unsigned step : plan.event_steps) {
        const Operation& operation = *plan.steps[step].operation;
        if (operation.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
            GraphAllocation* allocation = static_cast<const AllocOperation&>(operation).allocation.get();
            if (promised(allocation)) {
                if (!(executable.flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH)) return CUDA_ERROR_INVALID_VALUE;
                free_first.push_back(allocation->address);
            } else {
                wanted += allocation->bytes;
                if (allocation->device->used + wanted > allocation->device->limit) return CUDA_ERROR_OUT_OF_MEMORY;
            }
            after[allocation] = true;
        } else if (operation.type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
            GraphAllocation* allocation = memory::graph_allocation(static_cast<const FreeOperation&>(operation).pointer);
            if (!allocation || !promised(allocation)) return CUDA_ERROR_INVALID_VALUE;
            after[allocation] = false;
        }
    }
    for (auto& entry : after) entry.first->promised = entry.second;
    return CUDA_SUCCESS;
}

// Event nodes take effect on their events in the order of submission: a later wait, in a stream or in another graph, waits
// for this launch's record.
void plan_events(Launch& launch, const Plan& plan) {
    for (unsigned step : plan.event_steps) {
        const Operation& operation = *plan.steps[step].operation;
        if (operation.type == CU_GRAPH_NODE_TYPE_WAIT_EVENT) {
            const auto& event = static_cast<const EventOperation&>(operation).event;
            if (event->work && !event->work->done) launch.waits[step] = event->work;
        } else if (operation.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD) {
            const auto& event = static_cast<const EventOperation&>(operation).event;
            auto marker = make<Work>();
            marker->context = Ref<Context>(event->context);
            marker->stamped = event->timed();
            scheduler::begin(marker);
            event->work = marker;
            event->capture = {};
            event->frontier.clear();
            launch.records[step] = marker;
        }
    }
}

void default_conditions(Launch& launch, const Graph& graph) {
    for (const auto& entry : graph.conditionals)
        launch.conditions[entry.first] = entry.second->flags & CU_GRAPH_COND_ASSIGN_DEFAULT ? entry.second->default_value : 0;
    for (const auto& node : graph.nodes) {
        if (node->operation->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
            for (const auto& body : static_cast<const ConditionalOperation&>(*node->operation).bodies) default_conditions(launch, *body);
        if (node->operation->type == CU_GRAPH_NODE_TYPE_GRAPH)
            default_conditions(launch, *static_cast<const ChildOperation&>(*node->operation).body);
    }
}

CUresult launch(Executable& executable, Stream& stream) {
    if (stream.capture) return capture::forbidden_on(stream);  // E-17: no child node, the capture breaks
    if (stream.legacy)
        if (const CUresult refused = capture::legacy_use(*stream.context, capture::Use::work)) return refused;
    auto work = make<Launch>();
    Plan& plan = executable::plan_of(executable);
    work->plan = Ref<Plan>(&plan);
    work->executable = Ref<Executable>(&executable);
    if (!plan.event_steps.empty()) {
        if (const CUresult error = plan_memory(executable, plan, work->free_first)) return error;
        plan_events(*work, plan);
    }
    if (executable.has_conditions) default_conditions(*work, *executable.graph);
    if (executable.last.get() != stream.tail.get()) scheduler::depend(*work, executable.last);
    scheduler::submit(stream, Ref<Work>(work.get()));
    executable.last = Ref<Work>(work.get());
    return CUDA_SUCCESS;
}

CUresult instantiate(CUgraphExec* out, CUgraph handle, unsigned long long flags) {
    if (const CUresult refused = capture::unsafe_call()) return refused;  // E-18
    Graph* graph = graph::find(handle);
    if (!graph || !out) return CUDA_ERROR_INVALID_VALUE;
    if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) return CUDA_ERROR_INVALID_VALUE;  // only with a stream to upload in
    CUgraphInstantiateResult result;
    CUgraphNode error_node;
    return executable::instantiate(out, *graph, flags, result, error_node);
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph, unsigned long long flags)
CALL(cuGraphInstantiateWithFlags, context, nullptr) {
    return instantiate(out, graph, flags);
} END_CALL

// The form before CUDA 12, with a log instead of flags.
EXPORT CUresult CUDAAPI graphcap_cuGraphInstantiate_v11000(CUgraphExec* out, CUgraph graph, CUgraphNode* error_node, char* log,
                                                           size_t log_bytes) CALL(cuGraphInstantiate, context, nullptr) {
    if (error_node) *error_node = nullptr;
    if (log && log_bytes) *log = 0;
    return instantiate(out, graph, 0);
} END_CALL

CUresult CUDAAPI cuGraphInstantiateWithParams(CUgraphExec* out, CUgraph handle, CUDA_GRAPH_INSTANTIATE_PARAMS* p)
CALL(cuGraphInstantiateWithParams, context, p ? p->hUploadStream : nullptr) {
    if (const CUresult refused = capture::unsafe_call()) return refused;
    Graph* graph = graph::find(handle);
    if (!graph || !out || !p) return CUDA_ERROR_INVALID_VALUE;
    Stream* stream = nullptr;
    if (p->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) {
        if (const CUresult error = resolve_stream(p->hUploadStream, stream)) return error;
        if (stream->capture) return capture::forbidden_on(*stream);
    }
    return executable::instantiate(out, *graph, p->flags, p->result_out, p->hErrNode_out);
} END_CALL

CUresult CUDAAPI cuGraphExecGetFlags(CUgraphExec handle, cuuint64_t* out) CALL(cuGraphExecGetFlags, initialised, nullptr) {
    const Executable* executable = executable::find(handle);
    if (!executable || !out) return CUDA_ERROR_INVALID_VALUE;
    *out = executable->flags & ~static_cast<unsigned long long>(CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD);
    return CUDA_SUCCESS;
} END_CALL

#if CUDA_VERSION >= 13010
CUresult CUDAAPI cuGraphExecGetId(CUgraphExec handle, unsigned int* out) CALL(cuGraphExecGetId, initialised, nullptr) {
    const Executable* executable = executable::find(handle);
    if (!executable || !out) return CUDA_ERROR_INVALID_VALUE;
    *out = executable->number;
    return CUDA_SUCCESS;
} END_CALL
#endif

CUresult CUDAAPI cuGraphUpload(CUgraphExec handle, CUstream stream_handle) CALL(cuGraphUpload, context, stream_handle) {
    Executable* executable = executable::find(handle);
    if (!executable) return CUDA_ERROR_INVALID_VALUE;
    Stream* stream;
    if (const CUresult error = resolve_stream(stream_handle, stream)) return error;
    if (stream->capture) return capture::forbidden_on(*stream);
    if (stream->legacy)
        if (const CUresult refused = capture::legacy_use(*stream->context, capture::Use::work)) return refused;
    executable::plan_of(*executable);
    return capture::enqueue(*stream, make<EmptyOperation>());
} END_CALL

CUresult CUDAAPI cuGraphLaunch(CUgraphExec handle, CUstream stream_handle) CALL(cuGraphLaunch, context, stream_handle) {
    Executable* executable = executable::find(handle);
    if (!executable) return CUDA_ERROR_INVALID_VALUE;
    Stream* stream;
    if (const CUresult error = resolve_stream(stream_handle, stream)) return error;
    return launch(*executable, *stream);
} END_CALL

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec handle) CALL(cuGraphExecDestroy, release, nullptr) {
    if (const CUresult refused = capture::unsafe_call()) return refused;  // E-18
    Executable* executable = executable::find(handle);
    if (!executable) return CUDA_ERROR_INVALID_VALUE;
    --executable->source->executables;
    state().executables.remove(executable->handle);  // launches in flight keep the object (S-D40)
    return CUDA_SUCCESS;
} END_CALL

}  // extern "C"
}  // namespace emulator
