// Events.
#include "call.h"
#include "capture.h"
#include "scheduler.h"

namespace emulator {

EventOperation::EventOperation(CUgraphNodeType kind, Ref<Event> target) : Operation(kind), event(std::move(target)) {}
EventOperation::~EventOperation() = default;

namespace {

CUresult elapsed(float* out, CUevent start_handle, CUevent end_handle) {
    Event *start, *end;
    if (const CUresult error = resolve_event(start_handle, start)) return error;
    if (const CUresult error = resolve_event(end_handle, end)) return error;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult captured = capture::captured_event(*start)) return captured;
    if (const CUresult captured = capture::captured_event(*end)) return captured;
    if (!start->timed() || !end->timed() || !start->work || !end->work || start->context != end->context)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!start->work->done || !end->work->done) return CUDA_ERROR_NOT_READY;
    *out = static_cast<float>((static_cast<double>(end->work->completed_ns) - static_cast<double>(start->work->completed_ns)) * 1e-6);
    return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuEventCreate(CUevent* out, unsigned int flags) CALL(cuEventCreate, context, nullptr) {
    constexpr unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    if (!out || (flags & ~known)) return CUDA_ERROR_INVALID_VALUE;
    if ((flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING)) return CUDA_ERROR_INVALID_VALUE;
    auto event = make<Event>();
    event->context = current_context();
    event->flags = flags;
    *out = reinterpret_cast<CUevent>(state().events.add(event));
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuEventDestroy(CUevent handle) CALL(cuEventDestroy, release, nullptr) {
    Event* event = state().events.find(handle);
    if (!event) return CUDA_ERROR_INVALID_HANDLE;
    state().events.remove(event->handle);  // nodes that use it keep the object
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuEventRecord(CUevent handle, CUstream stream_handle) CALL(cuEventRecord, context, stream_handle) {
    Event* event;
    Stream* stream;
    if (const CUresult error = resolve_event(handle, event)) return error;
    if (const CUresult error = resolve_stream(stream_handle, stream)) return error;
    return capture::record_event(*event, *stream, 0);
} END_CALL

CUresult CUDAAPI cuEventRecordWithFlags(CUevent handle, CUstream stream_handle, unsigned int flags)
CALL(cuEventRecordWithFlags, context, stream_handle) {
    Event* event;
    Stream* stream;
    if (const CUresult error = resolve_event(handle, event)) return error;
    if (const CUresult error = resolve_stream(stream_handle, stream)) return error;
    return capture::record_event(*event, *stream, flags);
} END_CALL

CUresult CUDAAPI cuStreamWaitEvent(CUstream stream_handle, CUevent handle, unsigned int flags)
CALL(cuStreamWaitEvent, context, stream_handle) {
    Event* event;
    Stream* stream;
    if (const CUresult error = resolve_event(handle, event)) return error;
    if (const CUresult error = resolve_stream(stream_handle, stream)) return error;
    return capture::wait_event(*stream, *event, flags);
} END_CALL

// S-D16: not while any stream of the context captures.
CUresult CUDAAPI cuCtxRecordEvent(CUcontext context_handle, CUevent handle) CALL(cuCtxRecordEvent, context, nullptr) {
    Event* event;
    if (const CUresult error = resolve_event(handle, event)) return error;
    Context* context = state().contexts.find(context_handle);
    if (!context || event->context != context) return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult refused = capture::whole_context(*context)) return refused;
    auto marker = make<Work>();
    marker->operation = make<EmptyOperation>();
    marker->stamped = event->timed();
    for (Stream* stream : context->streams) scheduler::depend(*marker, stream->tail);
    scheduler::submit(*context->legacy, marker);
    event->capture = {};
    event->frontier.clear();
    event->work = marker;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuCtxWaitEvent(CUcontext context_handle, CUevent handle) CALL(cuCtxWaitEvent, context, nullptr) {
    Event* event;
    if (const CUresult error = resolve_event(handle, event)) return error;
    Context* context = state().contexts.find(context_handle);
    if (!context) return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult refused = capture::whole_context(*context)) return refused;
    if (const CUresult captured = capture::captured_event(*event)) return captured;
    if (!event->work || event->work->done) return CUDA_SUCCESS;
    for (Stream* stream : context->streams) {
        auto waiting = make<Work>();
        waiting->operation = make<EmptyOperation>();
        scheduler::depend(*waiting, event->work);
        scheduler::submit(*stream, waiting);
    }
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuEventQuery(CUevent handle) CALL(cuEventQuery, context, nullptr) {
    Event* event;
    if (const CUresult error = resolve_event(handle, event)) return error;
    if (const CUresult captured = capture::captured_event(*event)) return captured;
    if (!event->work) return CUDA_SUCCESS;  // never recorded: harmless even under a capture (evidence D14)
    if (const CUresult refused = capture::unsafe_call()) return refused;
    if (event->work->done) return event->context->sticky;
    scheduler::poll();
    return CUDA_ERROR_NOT_READY;
} END_CALL

CUresult CUDAAPI cuEventSynchronize(CUevent handle) CALL(cuEventSynchronize, context, nullptr) {
    Event* event;
    if (const CUresult error = resolve_event(handle, event)) return error;
    if (const CUresult captured = capture::captured_event(*event)) return captured;
    if (!event->work) return CUDA_SUCCESS;
    if (const CUresult refused = capture::unsafe_call()) return refused;
    Context& context = *event->context;
    scheduler::wait(lock, Ref<Work>(event->work));
    return context.sticky;
} END_CALL

CUresult CUDAAPI cuEventElapsedTime(float* out, CUevent start, CUevent end)
CALL(cuEventElapsedTime, context, nullptr) {
    return elapsed(out, start, end);
} END_CALL

}  // extern "C"
}  // namespace emulator
