// Kernel launches, parameters, function properties, occupancy.
#include <cstring>

#include "capture.h"
#include "graph_build.h"
#include "kernel.h"
#include "scheduler.h"

namespace emulator {

CUresult KernelOperation::run(Work& work) const {
    return block_executor::run(*code, grid, block, shared, const_cast<void**>(parameters.data()), work);
}

std::string KernelOperation::name() const { return "KERNEL " + code->name; }

namespace kernel {

KernelCode* code_of(CUfunction handle, Context*& context) {
    if (Function* function = state().functions.find(handle)) {
        context = function->context;
        return function->code.get();
    }
    if (Kernel* kernel = state().kernels.find(handle)) {
        context = current_context();
        return kernel->code.get();
    }
    return nullptr;
}

CUresult take_parameters(const KernelCode& code, void** parameters, void** extra, KernelOperation& operation) {
    const unsigned count = code.entry->parameter_count;
    operation.storage.resize(code.bytes);
    const unsigned char* packed = nullptr;
    if (extra) {
        if (parameters) return CUDA_ERROR_INVALID_VALUE;
        size_t bytes = 0;
        for (unsigned i = 0; i < 8 && extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
            if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
                packed = static_cast<const unsigned char*>(extra[i + 1]);
            else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE && extra[i + 1])
                bytes = *static_cast<const size_t*>(extra[i + 1]);
            else
                return CUDA_ERROR_INVALID_VALUE;
        }
        if (count && (!packed || bytes < code.bytes)) return CUDA_ERROR_INVALID_VALUE;
    } else if (count && !parameters) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (unsigned i = 0; i < count; ++i) {
        const void* from = packed ? packed + code.offsets[i] : parameters[i];
        if (!from) return CUDA_ERROR_INVALID_VALUE;
        std::memcpy(operation.storage.data() + code.offsets[i], from, code.entry->sizes[i]);
        operation.parameters.push_back(operation.storage.data() + code.offsets[i]);
    }
    return CUDA_SUCCESS;
}

unsigned most_threads(const KernelCode& code) {
    const unsigned bound = code.entry->most_threads;
    return bound && bound < 1024 ? bound : 1024;
}

CUresult check_shape(const KernelOperation& operation) {
    const uint64_t threads = uint64_t{operation.block[0]} * operation.block[1] * operation.block[2];
    for (int i = 0; i < 3; ++i)
        if (!operation.grid[i] || !operation.block[i]) return CUDA_ERROR_INVALID_VALUE;
    if (operation.block[0] > 1024 || operation.block[1] > 1024 || operation.block[2] > 64 || threads > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    if (operation.grid[0] > 2147483647u || operation.grid[1] > 65535 || operation.grid[2] > 65535) return CUDA_ERROR_INVALID_VALUE;
    if (threads > most_threads(*operation.code)) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    auto found = operation.code->attributes.find(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
    const unsigned limit = found == operation.code->attributes.end() ? 48 * 1024 : static_cast<unsigned>(found->second);
    return operation.shared > limit ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult apply_attribute(KernelAttributes& a, CUlaunchAttributeID id, const CUlaunchAttributeValue& value) {
    switch (static_cast<int>(id)) {
        case CU_LAUNCH_ATTRIBUTE_IGNORE:
            return CUDA_SUCCESS;
        case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
            a.window = value.accessPolicyWindow;
            return CUDA_SUCCESS;
        case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
            a.cooperative = value.cooperative;
            return CUDA_SUCCESS;
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
            a.cluster[0] = value.clusterDim.x;
            a.cluster[1] = value.clusterDim.y;
            a.cluster[2] = value.clusterDim.z;
            return CUDA_SUCCESS;
        case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
            a.preferred_cluster[0] = value.preferredClusterDim.x;
            a.preferred_cluster[1] = value.preferredClusterDim.y;
            a.preferred_cluster[2] = value.preferredClusterDim.z;
            return CUDA_SUCCESS;
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
            a.cluster_policy = value.clusterSchedulingPolicyPreference;
            return CUDA_SUCCESS;
        case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
            a.programmatic = value.programmaticStreamSerializationAllowed != 0;
            return CUDA_SUCCESS;
        case CU_LAUNCH_ATTRIBUTE_PRIORITY:
            a.priority = value.priority;
            return CUDA_SUCCESS;
        case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
            a.domain = value.memSyncDomain;
            return CUDA_SUCCESS;
        case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
            a.domain_map = value.memSyncDomainMap;
            return CUDA_SUCCESS;
        case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
            a.carveout = value.sharedMemCarveout;
            return CUDA_SUCCESS;
        default:
            return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult read_attribute(const KernelAttributes& a, CUlaunchAttributeID id, CUlaunchAttributeValue& value) {
    value = {};
    switch (static_cast<int>(id)) {
        case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
            value.accessPolicyWindow = a.window;
            return CUDA_SUCCESS;
        case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
            value.cooperative = a.cooperative;
            return CUDA_SUCCESS;
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
            value.clusterDim = {a.cluster[0], a.cluster[1], a.cluster[2]};
            return CUDA_SUCCESS;
        case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
            value.preferredClusterDim = {a.preferred_cluster[0], a.preferred_cluster[1], a.preferred_cluster[2]};
            return CUDA_SUCCESS;
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
            value.clusterSchedulingPolicyPreference = a.cluster_policy;
            return CUDA_SUCCESS;
        case CU_LAUNCH_ATTRIBUTE_PRIORITY:
            value.priority = a.priority;
            return CUDA_SUCCESS;
        case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
            value.memSyncDomain = a.domain;
            return CUDA_SUCCESS;
        case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
            value.memSyncDomainMap = a.domain_map;
            return CUDA_SUCCESS;
        case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
            value.sharedMemCarveout = a.carveout;
            return CUDA_SUCCESS;
        default:
            return CUDA_ERROR_INVALID_VALUE;
    }
}

}  // namespace kernel

namespace {

CUresult launch(CUfunction function, const unsigned (&shape)[6], unsigned shared, CUstream handle, void** parameters,
                void** extra, const KernelAttributes& attributes) {
    Stream* stream;
    if (const CUresult error = resolve_stream(handle, stream)) return error;
    Context* context = nullptr;
    KernelCode* code = kernel::code_of(function, context);
    if (!code) return CUDA_ERROR_INVALID_HANDLE;
    if (state().kernels.find(function)) context = stream->context;
    if (context != stream->context) return CUDA_ERROR_INVALID_HANDLE;
    auto operation = make<KernelOperation>();
    operation->code = Ref<KernelCode>(code);
    operation->context = context;
    operation->function = function;
    for (int i = 0; i < 3; ++i) {
        operation->grid[i] = shape[i];
        operation->block[i] = shape[i + 3];
    }
    operation->shared = shared;
    operation->attributes = attributes;
    if (const CUresult error = kernel::check_shape(*operation)) return error;
    if (const CUresult error = kernel::take_parameters(*code, parameters, extra, *operation)) return error;
    return capture::enqueue(*stream, operation);
}

KernelAttributes defaults_of(CUstream handle) {
    KernelAttributes attributes;
    Stream* stream;
    if (resolve_stream(handle, stream) == CUDA_SUCCESS) attributes.priority = stream->priority;
    return attributes;
}

int function_attribute(const KernelCode& code, CUfunction_attribute name) {
    auto found = code.attributes.find(name);
    if (found != code.attributes.end()) return found->second;
    switch (name) {
        case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
            return static_cast<int>(kernel::most_threads(code));
        case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
            return static_cast<int>(code.entry->static_shared);
        case CU_FUNC_ATTRIBUTE_NUM_REGS:
            return 32;
        case CU_FUNC_ATTRIBUTE_PTX_VERSION:
        case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
            return 90;
        case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
            return 48 * 1024;
        case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
            return -1;
        default:
            return 0;
    }
}

CUresult get_attribute(int* out, CUfunction_attribute name, const KernelCode* code) {
    if (!code) return CUDA_ERROR_INVALID_HANDLE;
    if (!out || name < 0 || name >= CU_FUNC_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
    *out = function_attribute(*code, name);
    return CUDA_SUCCESS;
}

CUresult set_attribute(KernelCode* code, CUfunction_attribute name, int value) {
    if (!code) return CUDA_ERROR_INVALID_HANDLE;
    if (name == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
        if (value < 0 || value > 227 * 1024) return CUDA_ERROR_INVALID_VALUE;
    } else if (name != CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT &&
               name != CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    code->attributes[name] = value;
    return CUDA_SUCCESS;
}

KernelCode* any_code(const void* handle) {
    Context* context;
    return kernel::code_of(static_cast<CUfunction>(const_cast<void*>(handle)), context);
}

CUresult parameter_info(const KernelCode* code, size_t index, size_t* offset, size_t* bytes) {
    if (!code) return CUDA_ERROR_INVALID_HANDLE;
    if (!offset || index >= code->entry->parameter_count) return CUDA_ERROR_INVALID_VALUE;
    *offset = code->offsets[index];
    if (bytes) *bytes = code->entry->sizes[index];
    return CUDA_SUCCESS;
}

CUresult blocks_per_multiprocessor(int* out, CUfunction function, int block_size) {
    const KernelCode* code = any_code(function);
    if (!code) return CUDA_ERROR_INVALID_HANDLE;
    if (!out || block_size <= 0) return CUDA_ERROR_INVALID_VALUE;
    *out = block_size > static_cast<int>(kernel::most_threads(*code)) ? 0 : std::min(32, 2048 / block_size);
    return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuLaunchKernel(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                                unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void** parameters,
                                void** extra) CALL(cuLaunchKernel, context, stream) {
    return launch(function, {gx, gy, gz, bx, by, bz}, shared, stream, parameters, extra, defaults_of(stream));
} END_CALL

CUresult CUDAAPI cuLaunchCooperativeKernel(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz,
                                           unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
                                           CUstream stream, void** parameters) CALL(cuLaunchCooperativeKernel, context, stream) {
    KernelAttributes attributes = defaults_of(stream);
    attributes.cooperative = 1;
    return launch(function, {gx, gy, gz, bx, by, bz}, shared, stream, parameters, nullptr, attributes);
} END_CALL

CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra)
CALL(cuLaunchKernelEx, context, config ? config->hStream : nullptr) {
    if (!config || (config->numAttrs && !config->attrs)) return CUDA_ERROR_INVALID_VALUE;
    KernelAttributes attributes = defaults_of(config->hStream);
    for (unsigned i = 0; i < config->numAttrs; ++i)
        if (const CUresult error = kernel::apply_attribute(attributes, config->attrs[i].id, config->attrs[i].value)) return error;
    return launch(function,
                  {config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX, config->blockDimY, config->blockDimZ},
                  config->sharedMemBytes, config->hStream, parameters, extra, attributes);
} END_CALL

CUresult CUDAAPI cuFuncGetAttribute(int* out, CUfunction_attribute name, CUfunction function)
CALL(cuFuncGetAttribute, context, nullptr) {
    return get_attribute(out, name, any_code(function));
} END_CALL

CUresult CUDAAPI cuFuncSetAttribute(CUfunction function, CUfunction_attribute name, int value)
CALL(cuFuncSetAttribute, context, nullptr) {
    return set_attribute(any_code(function), name, value);
} END_CALL

CUresult CUDAAPI cuFuncSetCacheConfig(CUfunction function, CUfunc_cache) CALL(cuFuncSetCacheConfig, context, nullptr) {
    return any_code(function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
} END_CALL

CUresult CUDAAPI cuKernelGetAttribute(int* out, CUfunction_attribute name, CUkernel handle, CUdevice dev)
CALL(cuKernelGetAttribute, initialised, nullptr) {
    if (!device_at(dev)) return CUDA_ERROR_INVALID_DEVICE;
    return get_attribute(out, name, any_code(handle));
} END_CALL

CUresult CUDAAPI cuKernelSetAttribute(CUfunction_attribute name, int value, CUkernel handle, CUdevice dev)
CALL(cuKernelSetAttribute, initialised, nullptr) {
    if (!device_at(dev)) return CUDA_ERROR_INVALID_DEVICE;
    return set_attribute(any_code(handle), name, value);
} END_CALL

CUresult CUDAAPI cuFuncGetName(const char** out, CUfunction function) CALL(cuFuncGetName, context, nullptr) {
    const KernelCode* code = any_code(function);
    if (!code) return CUDA_ERROR_INVALID_HANDLE;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = code->entry->name;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuKernelGetName(const char** out, CUkernel handle) CALL(cuKernelGetName, initialised, nullptr) {
    const KernelCode* code = any_code(handle);
    if (!code) return CUDA_ERROR_INVALID_HANDLE;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = code->entry->name;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuFuncGetParamInfo(CUfunction function, size_t index, size_t* offset, size_t* bytes)
CALL(cuFuncGetParamInfo, context, nullptr) {
    return parameter_info(any_code(function), index, offset, bytes);
} END_CALL

CUresult CUDAAPI cuKernelGetParamInfo(CUkernel handle, size_t index, size_t* offset, size_t* bytes)
CALL(cuKernelGetParamInfo, initialised, nullptr) {
    return parameter_info(any_code(handle), index, offset, bytes);
} END_CALL

CUresult CUDAAPI cuFuncIsLoaded(CUfunctionLoadingState* out, CUfunction function) CALL(cuFuncIsLoaded, context, nullptr) {
    if (!any_code(function)) return CUDA_ERROR_INVALID_HANDLE;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = CU_FUNCTION_LOADING_STATE_LOADED;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuFuncLoad(CUfunction function) CALL(cuFuncLoad, context, nullptr) {
    return any_code(function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
} END_CALL

CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessor(int* out, CUfunction function, int block_size, size_t)
CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor, context, nullptr) {
    return blocks_per_multiprocessor(out, function, block_size);
} END_CALL

CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* out, CUfunction function, int block_size, size_t,
                                                                      unsigned int)
CALL(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, context, nullptr) {
    return blocks_per_multiprocessor(out, function, block_size);
} END_CALL

CUresult CUDAAPI cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction function, CUoccupancyB2DSize, size_t,
                                                  int limit) CALL(cuOccupancyMaxPotentialBlockSize, context, nullptr) {
    const KernelCode* code = any_code(function);
    if (!code) return CUDA_ERROR_INVALID_HANDLE;
    if (!grid || !block) return CUDA_ERROR_INVALID_VALUE;
    const int most = static_cast<int>(kernel::most_threads(*code));
    *block = limit > 0 && limit < most ? limit : most;
    *grid = 4 * (2048 / *block);
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuOccupancyAvailableDynamicSMemPerBlock(size_t* out, CUfunction function, int, int)
CALL(cuOccupancyAvailableDynamicSMemPerBlock, context, nullptr) {
    if (!any_code(function)) return CUDA_ERROR_INVALID_HANDLE;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = 48 * 1024;
    return CUDA_SUCCESS;
} END_CALL

}  // extern "C"
}  // namespace emulator
