// Contexts: primary and created, the stack of each thread, limits, peers.
#include "call.h"
#include "capture.h"
#include "memory.h"
#include "scheduler.h"

namespace emulator {

namespace {

thread_local std::vector<CUcontext> tls_stack;

Ref<Context> create(Device& device, unsigned flags, bool primary) {
    auto context = make<Context>();
    context->device = &device;
    context->primary = primary;
    context->flags = flags;
    context->limits[CU_LIMIT_STACK_SIZE] = 1024;
    context->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
    context->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
    auto legacy = make<Stream>();
    legacy->context = context.get();
    legacy->legacy = true;
    legacy->id = state().next_serial++;
    context->legacy = legacy;
    state().contexts.add(context);
    return context;
}

// Ends the context: waits for its work, then everything in it dies.
void destroy(Lock& lock, Context& target) {
    Ref<Context> context(&target);
    scheduler::wait_idle(lock, target);
    std::vector<uintptr_t> streams, events;
    state().streams.each([&](Stream& stream) {
        if (stream.context == context.get()) streams.push_back(stream.handle);
    });
    for (uintptr_t handle : streams) {
        auto stream = state().streams.remove(handle);
        if (stream->capture) capture::stream_destroyed(*stream);
        context->streams.erase(stream.get());
    }
    state().events.each([&](Event& event) {
        if (event.context == context.get()) events.push_back(event.handle);
    });
    for (uintptr_t handle : events) state().events.remove(handle);
    memory::release_context(*context);
    for (auto& entry : context->per_thread)
        if (entry.second->capture) capture::stream_destroyed(*entry.second);
    context->per_thread.clear();
    context->legacy = {};
    state().contexts.remove(context->handle);
    // Operations may still name the context by address; keep the object.
    static auto* graveyard = new std::vector<Ref<Context>>;
    graveyard->push_back(context);
}

Context* find(CUcontext handle) { return state().contexts.find(handle); }

}  // namespace

Context* current_context() { return tls_stack.empty() ? nullptr : find(tls_stack.back()); }

CUresult resolve_stream(CUstream handle, Stream*& out) {
    Context* context = current_context();
    if (handle == nullptr) handle = null_stream_is_per_thread() ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
    if (handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
        if (!context) return CUDA_ERROR_INVALID_CONTEXT;
        if (handle == CU_STREAM_LEGACY) {
            out = context->legacy.get();
            return CUDA_SUCCESS;
        }
        auto& stream = context->per_thread[std::this_thread::get_id()];
        if (!stream) {
            stream = make<Stream>();
            stream->context = context;
            stream->per_thread = true;
            stream->id = state().next_serial++;
            context->streams.insert(stream.get());
        }
        out = stream.get();
        return CUDA_SUCCESS;
    }
    out = state().streams.find(handle);
    if (!out) return CUDA_ERROR_INVALID_HANDLE;
    return out->context->sticky;
}

CUresult resolve_event(CUevent handle, Event*& out) {
    out = state().events.find(handle);
    return out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

extern "C" {

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice dev) CALL(cuDevicePrimaryCtxRetain, initialised, nullptr) {
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    Device* device = device_at(dev);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    if (!device->primary) device->primary = create(*device, device->primary_flags, true);
    ++device->primary_retained;
    *out = handle_of<CUcontext>(device->primary.get());
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice dev) CALL(cuDevicePrimaryCtxRelease, initialised, nullptr) {
    Device* device = device_at(dev);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    if (!device->primary_retained) return CUDA_ERROR_INVALID_CONTEXT;
    if (device->primary_retained > 1) {
        --device->primary_retained;
        return CUDA_SUCCESS;
    }
    if (inside_callback()) return CUDA_ERROR_NOT_PERMITTED;
    device->primary_retained = 0;
    const Ref<Context> context = device->primary;
    device->primary = {};
    destroy(lock, *context);
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuDevicePrimaryCtxReset(CUdevice dev) CALL(cuDevicePrimaryCtxReset, initialised, nullptr) {
    Device* device = device_at(dev);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    if (inside_callback()) return CUDA_ERROR_NOT_PERMITTED;
    if (!device->primary) return CUDA_SUCCESS;
    const Ref<Context> context = device->primary;
    device->primary = {};
    device->primary_retained = 0;
    destroy(lock, *context);
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags)
CALL(cuDevicePrimaryCtxSetFlags, initialised, nullptr) {
    Device* device = device_at(dev);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    device->primary_flags = flags;
    if (device->primary) device->primary->flags = flags;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int* flags, int* active)
CALL(cuDevicePrimaryCtxGetState, initialised, nullptr) {
    if (!flags || !active) return CUDA_ERROR_INVALID_VALUE;
    const Device* device = device_at(dev);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    *flags = device->primary_flags;
    *active = static_cast<bool>(device->primary);
    return CUDA_SUCCESS;
} END_CALL

static CUresult create_context(CUcontext* out, unsigned flags, CUdevice dev) {
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    Device* device = device_at(dev);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    auto context = create(*device, flags, false);
    *out = handle_of<CUcontext>(context.get());
    tls_stack.push_back(*out);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxCreate_v4(CUcontext* out, CUctxCreateParams* parameters, unsigned int flags, CUdevice dev)
CALL(cuCtxCreate, initialised, nullptr) {
    if (parameters && (parameters->numExecAffinityParams || parameters->cigParams)) return CUDA_ERROR_NOT_SUPPORTED;
    return create_context(out, flags, dev);
} END_CALL

EXPORT CUresult CUDAAPI cuCtxCreate_v3(CUcontext* out, CUexecAffinityParam*, int count, unsigned int flags, CUdevice dev)
CALL(cuCtxCreate, initialised, nullptr) {
    if (count) return CUDA_ERROR_NOT_SUPPORTED;
    return create_context(out, flags, dev);
} END_CALL

EXPORT CUresult CUDAAPI cuCtxCreate_v2(CUcontext* out, unsigned int flags, CUdevice dev)
CALL(cuCtxCreate, initialised, nullptr) {
    return create_context(out, flags, dev);
} END_CALL

CUresult CUDAAPI cuCtxDestroy(CUcontext handle) CALL(cuCtxDestroy, initialised, nullptr) {
    Context* context = find(handle);
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    if (context->primary) return CUDA_ERROR_INVALID_CONTEXT;
    if (inside_callback()) return CUDA_ERROR_NOT_PERMITTED;
    const CUresult earlier = context->sticky;
    if (!tls_stack.empty() && tls_stack.back() == handle) tls_stack.pop_back();
    destroy(lock, *context);
    return earlier;
} END_CALL

CUresult CUDAAPI cuCtxGetCurrent(CUcontext* out) CALL(cuCtxGetCurrent, initialised, nullptr) {
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = handle_of<CUcontext>(current_context());
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuCtxSetCurrent(CUcontext handle) CALL(cuCtxSetCurrent, initialised, nullptr) {
    if (!handle) {
        if (!tls_stack.empty()) tls_stack.pop_back();
        return CUDA_SUCCESS;
    }
    if (!find(handle)) return CUDA_ERROR_INVALID_CONTEXT;
    if (tls_stack.empty())
        tls_stack.push_back(handle);
    else
        tls_stack.back() = handle;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuCtxPushCurrent(CUcontext handle) CALL(cuCtxPushCurrent, initialised, nullptr) {
    if (!find(handle)) return CUDA_ERROR_INVALID_CONTEXT;
    tls_stack.push_back(handle);
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuCtxPopCurrent(CUcontext* out) CALL(cuCtxPopCurrent, initialised, nullptr) {
    if (tls_stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    if (out) *out = tls_stack.back();
    tls_stack.pop_back();
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuCtxGetDevice(CUdevice* out) CALL(cuCtxGetDevice, initialised, nullptr) {
    const Context* context = current_context();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = context->device->ordinal;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuCtxGetDevice_v2(CUdevice* out, CUcontext handle) CALL(cuCtxGetDevice, initialised, nullptr) {
    const Context* context = handle ? find(handle) : current_context();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = context->device->ordinal;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuCtxGetFlags(unsigned int* out) CALL(cuCtxGetFlags, context, nullptr) {
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = current_context()->flags;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuCtxGetId(CUcontext handle, unsigned long long* out) CALL(cuCtxGetId, initialised, nullptr) {
    const Context* context = handle ? find(handle) : current_context();
    if (!context) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = context->handle;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuCtxGetApiVersion(CUcontext handle, unsigned int* out) CALL(cuCtxGetApiVersion, initialised, nullptr) {
    if (handle && !find(handle)) return CUDA_ERROR_INVALID_CONTEXT;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = 3020;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuCtxSynchronize(void) CALL(cuCtxSynchronize, context, nullptr) {
    Context& context = *current_context();
    if (const CUresult refused = capture::synchronise_device(context)) return refused;
    scheduler::wait_idle(lock, context);
    return context.sticky;
} END_CALL

CUresult CUDAAPI cuCtxSynchronize_v2(CUcontext handle) CALL(cuCtxSynchronize, context, nullptr) {
    Context* context = handle ? find(handle) : current_context();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    if (const CUresult refused = capture::synchronise_device(*context)) return refused;
    scheduler::wait_idle(lock, *context);
    return context->sticky;
} END_CALL

CUresult CUDAAPI cuCtxGetStreamPriorityRange(int* least, int* greatest) CALL(cuCtxGetStreamPriorityRange, context, nullptr) {
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuCtxGetLimit(size_t* out, CUlimit limit) CALL(cuCtxGetLimit, context, nullptr) {
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    if (limit < 0 || limit >= 16) return CUDA_ERROR_UNSUPPORTED_LIMIT;
    *out = current_context()->limits[limit];
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuCtxSetLimit(CUlimit limit, size_t value) CALL(cuCtxSetLimit, context, nullptr) {
    if (limit < 0 || limit >= 16) return CUDA_ERROR_UNSUPPORTED_LIMIT;
    current_context()->limits[limit] = value;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext handle, unsigned int flags) CALL(cuCtxEnablePeerAccess, context, nullptr) {
    const Context* peer = find(handle);
    Context& context = *current_context();
    if (!peer || peer == &context) return CUDA_ERROR_INVALID_CONTEXT;
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    if (peer->device == context.device) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    if (!context.peers.insert(peer->device->ordinal).second) return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuCtxDisablePeerAccess(CUcontext handle) CALL(cuCtxDisablePeerAccess, context, nullptr) {
    const Context* peer = find(handle);
    if (!peer) return CUDA_ERROR_INVALID_CONTEXT;
    return current_context()->peers.erase(peer->device->ordinal) ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
} END_CALL

}  // extern "C"
}  // namespace emulator
