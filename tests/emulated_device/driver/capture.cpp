#include "capture.h"

#include <algorithm>

#include "graph.h"
#include "scheduler.h"

namespace emulator::capture {

namespace {

thread_local CUstreamCaptureMode tls_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

bool conflicts(const Capture& capture) {
    if (tls_mode == CU_STREAM_CAPTURE_MODE_RELAXED || capture.mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
    if (capture.thread == std::this_thread::get_id()) return true;
    return tls_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

void add_frontier(std::vector<Dependency>& frontier, const std::vector<Dependency>& more) {
    for (const Dependency& extra : more) {
        const bool known = std::any_of(frontier.begin(), frontier.end(),
                                       [&](const Dependency& have) { return have.node == extra.node; });
        if (!known) frontier.push_back(extra);
    }
}

void join(Stream& stream, Capture& capture, const std::vector<Dependency>& frontier) {
    stream.capture = Ref<Capture>(&capture);
    stream.frontier = frontier;
    capture.streams.insert(&stream);
}

}  // namespace

CUstreamCaptureMode exchange_mode(CUstreamCaptureMode mode) { return std::exchange(tls_mode, mode); }

CUresult unsafe_call() {
    CUresult result = CUDA_SUCCESS;
    for (const auto& capture : state().captures)
        if (conflicts(*capture)) {
            invalidate(*capture);
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    return result;
}

CUresult legacy_use(Context& context, Use use) {
    CUresult result = CUDA_SUCCESS;
    for (const auto& capture : state().captures) {
        const bool concerned = std::any_of(capture->streams.begin(), capture->streams.end(), [&](const Stream* stream) {
            return stream->blocking() && stream->context == &context;
        });
        if (!concerned) continue;
        result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        if (use == Use::work) invalidate(*capture);
    }
    return result;
}

void invalidate(Capture& capture) { capture.invalidated = true; }

CUresult forbidden_on(Stream& stream) {
    if (stream.capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    invalidate(*stream.capture);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult record(Stream& stream, const Ref<Operation>& operation, Node** out) {
    if (stream.capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    Graph& graph = *stream.capture->graph;
    Node* node;
    if (const CUresult error = graph::check_placement(graph, *operation)) return error;
    std::vector<Dependency> dependencies = stream.frontier;
    if (operation->type == CU_GRAPH_NODE_TYPE_KERNEL && static_cast<KernelOperation&>(*operation).attributes.programmatic)
        for (Dependency& dependency : dependencies)
            if (dependency.node->operation->type == CU_GRAPH_NODE_TYPE_KERNEL) {
                dependency.data.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
                dependency.data.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
            }
    node = graph::add_node(graph, operation, std::move(dependencies));
    stream.frontier.assign(1, Dependency{node, {}});
    if (out) *out = node;
    return CUDA_SUCCESS;
}

CUresult enqueue(Stream& stream, const Ref<Operation>& operation) {
    if (stream.capture) return record(stream, operation);
    if (stream.legacy)
        if (const CUresult refused = legacy_use(*stream.context, Use::work)) return refused;
    auto work = make<Work>();
    work->operation = operation;
    scheduler::submit(stream, work);
    return CUDA_SUCCESS;
}

CUresult captured_event(Event& event) {
    if (!event.capture) return CUDA_SUCCESS;
    if (event.capture->open) invalidate(*event.capture);
    return CUDA_ERROR_CAPTURED_EVENT;
}

CUresult whole_context(Context& context) {
    CUresult result = CUDA_SUCCESS;
    for (const auto& capture : state().captures) {
        const bool concerned = std::any_of(capture->streams.begin(), capture->streams.end(),
                                           [&](const Stream* stream) { return stream->context->device == context.device; });
        if (!concerned) continue;
        invalidate(*capture);
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return result;
}

CUresult synchronise_device(Context& context) {
    const CUresult result = whole_context(context);
    return result ? result : unsafe_call();
}

CUresult record_event(Event& event, Stream& stream, unsigned flags) {
    if (flags & ~static_cast<unsigned>(CU_EVENT_RECORD_EXTERNAL)) return CUDA_ERROR_INVALID_VALUE;
    if (event.context != stream.context) return CUDA_ERROR_INVALID_HANDLE;
    if (stream.legacy)
        if (const CUresult refused = legacy_use(*stream.context, Use::work)) return refused;
    if (stream.capture) {
        if (stream.capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        if (flags & CU_EVENT_RECORD_EXTERNAL)
            return record(stream, make<EventOperation>(CU_GRAPH_NODE_TYPE_EVENT_RECORD, Ref<Event>(&event)));
        event.capture = stream.capture;
        event.frontier = stream.frontier;
        return CUDA_SUCCESS;
    }
    if (flags) return CUDA_ERROR_INVALID_VALUE;  // S-D26: invalid outside a capture (code not confirmed)
    auto work = make<Work>();
    work->operation = make<EmptyOperation>();
    work->stamped = event.timed();
    event.capture = {};
    event.frontier.clear();
    event.work = work;
    scheduler::submit(stream, work);
    return CUDA_SUCCESS;
}

CUresult wait_event(Stream& stream, Event& event, unsigned flags) {
    if (flags & ~static_cast<unsigned>(CU_EVENT_WAIT_EXTERNAL)) return CUDA_ERROR_INVALID_VALUE;
    if (stream.legacy)
        if (const CUresult refused = legacy_use(*stream.context, Use::work)) return refused;
    Capture* source = event.capture.get();
    if (stream.capture) {
        Capture& capture = *stream.capture;
        if (capture.invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;  // E-6
        if (flags & CU_EVENT_WAIT_EXTERNAL)
            return record(stream, make<EventOperation>(CU_GRAPH_NODE_TYPE_WAIT_EVENT, Ref<Event>(&event)));
        if (source == &capture) {
            add_frontier(stream.frontier, event.frontier);
            return CUDA_SUCCESS;
        }
        if (source && source->open) {  // S-D21: joining two captures breaks both
            invalidate(capture);
            invalidate(*source);
            return CUDA_ERROR_STREAM_CAPTURE_MERGE;
        }
        if (!source && !event.work) return CUDA_SUCCESS;  // never recorded: nothing to wait for
        invalidate(capture);  // that 905 invalidates is not confirmed (E-23)
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    if (source && source->open) {
        if (source->invalidated) return CUDA_ERROR_INVALID_VALUE;  // E-7
        if (stream.legacy) {  // the legacy stream cannot capture, so cannot join either (not confirmed)
            invalidate(*source);
            return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
        join(stream, *source, event.frontier);
        return CUDA_SUCCESS;
    }
    if (source) return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;  // recorded in a capture that has ended (not confirmed)
    if (!event.work || event.work->done) return CUDA_SUCCESS;
    auto work = make<Work>();
    work->operation = make<EmptyOperation>();
    scheduler::depend(*work, event.work);
    scheduler::submit(stream, work);
    return CUDA_SUCCESS;
}

CUresult begin(Stream& stream, Graph* into, std::vector<Dependency> first, CUstreamCaptureMode mode) {
    if (stream.legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;  // S-D1
    if (stream.capture) return CUDA_ERROR_ILLEGAL_STATE;
    auto capture = make<Capture>();
    capture->origin = &stream;
    capture->mode = mode;
    capture->thread = std::this_thread::get_id();
    capture->into_given_graph = into != nullptr;
    capture->graph = into ? Ref<Graph>(into) : graph::create();
    capture->graph->capture = capture.get();
    join(stream, *capture, first);
    state().captures.push_back(capture);
    return CUDA_SUCCESS;
}

namespace {

// All streams are back to "not capturing" at once, whatever the result (E-4).
void close(Capture& closing) {
    const Ref<Capture> capture(&closing);
    for (Stream* stream : capture->streams) {
        stream->capture = {};
        stream->frontier.clear();
    }
    capture->streams.clear();
    capture->orphans.clear();
    capture->open = false;
    capture->graph->capture = nullptr;
    auto& all = state().captures;
    all.erase(std::remove_if(all.begin(), all.end(), [&](const Ref<Capture>& one) { return one.get() == capture.get(); }),
              all.end());
}

// E-8: a forked stream's last node that the origin's frontier does not reach.
bool unjoined(const Capture& capture) {
    std::unordered_set<const Node*> reached;
    std::vector<const Node*> pending;
    auto visit = [&](const Node* node) {
        if (reached.insert(node).second) pending.push_back(node);
    };
    for (const Dependency& dependency : capture.origin->frontier) visit(dependency.node);
    while (!pending.empty()) {
        const Node* node = pending.back();
        pending.pop_back();
        for (const Dependency& dependency : node->dependencies) visit(dependency.node);
    }
    auto missing = [&](const Dependency& dependency) { return !reached.count(dependency.node); };
    for (const Stream* stream : capture.streams)
        if (stream != capture.origin && std::any_of(stream->frontier.begin(), stream->frontier.end(), missing)) return true;
    return std::any_of(capture.orphans.begin(), capture.orphans.end(), missing);
}

}  // namespace

CUresult end(Stream& stream, CUgraph* out) {
    if (!stream.capture) return CUDA_ERROR_ILLEGAL_STATE;  // before the argument: E-3
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = nullptr;
    const Ref<Capture> capture = stream.capture;
    if (capture->origin != &stream) {  // E-1
        invalidate(*capture);
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != std::this_thread::get_id()) {
        invalidate(*capture);  // S-D2: that it invalidates is inferred, not confirmed
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    }
    CUresult result = CUDA_SUCCESS;
    if (capture->invalidated)
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (unjoined(*capture))
        result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    const Ref<Graph> graph = capture->graph;
    close(*capture);
    if (result != CUDA_SUCCESS) {
        if (!capture->into_given_graph) graph::destroy(*graph);
        return result;
    }
    *out = handle_of<CUgraph>(graph.get());
    return CUDA_SUCCESS;
}

void stream_destroyed(Stream& stream) {
    const Ref<Capture> capture = stream.capture;
    if (capture->origin == &stream) {  // E-12: ends it silently
        const Ref<Graph> graph = capture->graph;
        close(*capture);
        if (!capture->into_given_graph) graph::destroy(*graph);
        return;
    }
    capture->orphans.insert(capture->orphans.end(), stream.frontier.begin(), stream.frontier.end());
    capture->streams.erase(&stream);
    stream.capture = {};
    stream.frontier.clear();
}

}  // namespace emulator::capture
