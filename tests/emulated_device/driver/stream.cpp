// Streams, and host functions put into them.
#include "call.h"
#include "capture.h"
#include "memory.h"
#include "scheduler.h"

namespace emulator {

CUresult HostOperation::run(Work&) const {
    fn(user_data);
    return CUDA_SUCCESS;
}

CUresult CallbackOperation::run(Work& work) const {
    callback(stream, work.context->sticky, user_data);
    return CUDA_SUCCESS;
}

namespace {

CUresult create(CUstream* out, unsigned flags, int priority) {
    if (!out || (flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING))) return CUDA_ERROR_INVALID_VALUE;
    Context* context = current_context();
    auto stream = make<Stream>();
    stream->context = context;
    stream->flags = flags;
    stream->priority = std::min(0, std::max(-5, priority));
    stream->id = state().next_serial++;
    context->streams.insert(stream.get());
    *out = reinterpret_cast<CUstream>(state().streams.add(stream));
    return CUDA_SUCCESS;
}

// Lets pass a query about a stream; 906 for the legacy stream while a blocking stream captures.
CUresult resolve_for_query(CUstream handle, Stream*& stream) {
    if (const CUresult error = resolve_stream(handle, stream)) return error;
    return stream->legacy ? capture::legacy_use(*stream->context, capture::Use::query) : CUDA_SUCCESS;
}

CUresult synchronise_refusal(Stream& stream) {
    if (stream.capture) return capture::forbidden_on(stream);
    if (stream.legacy)
        if (const CUresult refused = capture::legacy_use(*stream.context, capture::Use::work)) return refused;
    return capture::unsafe_call();
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuStreamCreate(CUstream* out, unsigned int flags) CALL(cuStreamCreate, context, nullptr) {
    return create(out, flags, 0);
} END_CALL

CUresult CUDAAPI cuStreamCreateWithPriority(CUstream* out, unsigned int flags, int priority)
CALL(cuStreamCreateWithPriority, context, nullptr) {
    return create(out, flags, priority);
} END_CALL

CUresult CUDAAPI cuStreamDestroy(CUstream handle) CALL(cuStreamDestroy, release, handle) {
    Stream* found = state().streams.find(handle);
    if (!found) return CUDA_ERROR_INVALID_HANDLE;
    const Ref<Stream> stream = state().streams.remove(found->handle);
    if (stream->capture) capture::stream_destroyed(*stream);
    Context& context = *stream->context;
    if (stream->blocking() && stream->tail && !stream->tail->done) context.orphans.push_back(stream->tail);
    context.streams.erase(stream.get());
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuStreamSynchronize(CUstream handle) CALL(cuStreamSynchronize, context, handle) {
    Stream* stream;
    if (const CUresult error = resolve_stream(handle, stream)) return error;
    if (const CUresult refused = synchronise_refusal(*stream)) return refused;
    const Ref<Stream> keep(stream);
    Context& context = *stream->context;
    if (stream->legacy) {  // waits for what the legacy stream would wait for
        std::vector<Ref<Work>> all;
        scheduler::add_latest(*stream, all);
        for (Stream* other : context.streams)
            if (other->blocking()) scheduler::add_latest(*other, all);
        for (const auto& orphan : context.orphans) all.push_back(orphan);
        for (const auto& work : all) scheduler::wait(lock, work);
    } else {
        scheduler::wait(lock, Ref<Work>(stream->tail));
    }
    return context.sticky;
} END_CALL

CUresult CUDAAPI cuStreamQuery(CUstream handle) CALL(cuStreamQuery, context, handle) {
    Stream* stream;
    if (const CUresult error = resolve_stream(handle, stream)) return error;
    if (const CUresult refused = synchronise_refusal(*stream)) return refused;
    if (!stream->tail || stream->tail->done) return stream->context->sticky;
    scheduler::poll();
    return CUDA_ERROR_NOT_READY;
} END_CALL

CUresult CUDAAPI cuStreamGetPriority(CUstream handle, int* out) CALL(cuStreamGetPriority, context, handle) {
    Stream* stream;
    if (const CUresult error = resolve_for_query(handle, stream)) return error;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = stream->priority;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuStreamGetFlags(CUstream handle, unsigned int* out) CALL(cuStreamGetFlags, context, handle) {
    Stream* stream;
    if (const CUresult error = resolve_for_query(handle, stream)) return error;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = stream->flags;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuStreamGetId(CUstream handle, unsigned long long* out) CALL(cuStreamGetId, context, handle) {
    Stream* stream;
    if (const CUresult error = resolve_for_query(handle, stream)) return error;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture) return capture::forbidden_on(*stream);  // evidence 2: 900, invalidates
    *out = stream->id;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuStreamGetDevice(CUstream handle, CUdevice* out) CALL(cuStreamGetDevice, context, handle) {
    Stream* stream;
    if (const CUresult error = resolve_for_query(handle, stream)) return error;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture) return capture::forbidden_on(*stream);
    *out = stream->context->device->ordinal;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuStreamGetCtx(CUstream handle, CUcontext* out) CALL(cuStreamGetCtx, context, handle) {
    Stream* stream;
    if (const CUresult error = resolve_for_query(handle, stream)) return error;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture) return capture::forbidden_on(*stream);
    *out = handle_of<CUcontext>(stream->context);
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuStreamGetCtx_v2(CUstream handle, CUcontext* out, CUgreenCtx* green) CALL(cuStreamGetCtx, context, handle) {
    Stream* stream;
    if (const CUresult error = resolve_for_query(handle, stream)) return error;
    if (!out || !green) return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture) return capture::forbidden_on(*stream);
    *out = handle_of<CUcontext>(stream->context);
    *green = nullptr;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuStreamGetAttribute(CUstream handle, CUstreamAttrID name, CUstreamAttrValue* out)
CALL(cuStreamGetAttribute, context, handle) {
    Stream* stream;
    if (const CUresult error = resolve_for_query(handle, stream)) return error;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    auto found = stream->attributes.find(name);
    if (found != stream->attributes.end()) {
        *out = found->second;
        return CUDA_SUCCESS;
    }
    *out = {};
    switch (static_cast<int>(name)) {
        case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
            return CUDA_SUCCESS;
        case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
            out->syncPolicy = CU_SYNC_POLICY_AUTO;
            return CUDA_SUCCESS;
        case CU_LAUNCH_ATTRIBUTE_PRIORITY:
            out->priority = stream->priority;
            return CUDA_SUCCESS;
        default:
            return CUDA_ERROR_INVALID_VALUE;
    }
} END_CALL

CUresult CUDAAPI cuStreamSetAttribute(CUstream handle, CUstreamAttrID name, const CUstreamAttrValue* value)
CALL(cuStreamSetAttribute, context, handle) {
    Stream* stream;
    if (const CUresult error = resolve_for_query(handle, stream)) return error;
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    if (name != CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW && name != CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY &&
        name != CU_STREAM_ATTRIBUTE_PRIORITY)
        return CUDA_ERROR_INVALID_VALUE;
    stream->attributes[name] = *value;
    if (name == CU_STREAM_ATTRIBUTE_PRIORITY) stream->priority = value->priority;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuStreamCopyAttributes(CUstream target, CUstream source) CALL(cuStreamCopyAttributes, context, target) {
    Stream *to, *from;
    if (const CUresult error = resolve_for_query(target, to)) return error;
    if (const CUresult error = resolve_for_query(source, from)) return error;
    to->attributes = from->attributes;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuLaunchHostFunc(CUstream handle, CUhostFn function, void* data) CALL(cuLaunchHostFunc, context, handle) {
    Stream* stream;
    if (const CUresult error = resolve_stream(handle, stream)) return error;
    if (!function) return CUDA_ERROR_INVALID_VALUE;
    return capture::enqueue(*stream, make<HostOperation>(function, data));
} END_CALL

#if CUDA_VERSION >= 13020
CUresult CUDAAPI cuLaunchHostFunc_v2(CUstream handle, CUhostFn function, void* data, unsigned int sync_mode)
CALL(cuLaunchHostFunc, context, handle) {
    Stream* stream;
    if (const CUresult error = resolve_stream(handle, stream)) return error;
    if (!function || sync_mode > 1) return CUDA_ERROR_INVALID_VALUE;
    return capture::enqueue(*stream, make<HostOperation>(function, data));
} END_CALL
#endif

CUresult CUDAAPI cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void* data, unsigned int flags)
CALL(cuStreamAddCallback, context, handle) {
    Stream* stream;
    if (const CUresult error = resolve_stream(handle, stream)) return error;
    if (!callback || flags) return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture) return capture::forbidden_on(*stream);  // S-D17
    auto operation = make<CallbackOperation>();
    operation->callback = callback;
    operation->stream = handle;
    operation->user_data = data;
    return capture::enqueue(*stream, operation);
} END_CALL

CUresult CUDAAPI cuStreamAttachMemAsync(CUstream handle, CUdeviceptr pointer, size_t, unsigned int flags)
CALL(cuStreamAttachMemAsync, context, handle) {
    Stream* stream;
    if (const CUresult error = resolve_stream(handle, stream)) return error;
    if (stream->capture) return capture::forbidden_on(*stream);  // S-D18, not confirmed
    const auto* allocation = memory::containing(pointer);
    if (!allocation || allocation->space != memory::Space::managed || !flags || flags > 4) return CUDA_ERROR_INVALID_VALUE;
    return capture::enqueue(*stream, make<EmptyOperation>());
} END_CALL

}  // extern "C"
}  // namespace emulator
