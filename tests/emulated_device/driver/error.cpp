// Names and texts of the driver's results.
#include <cstring>

#include "call.h"

namespace emulator {
namespace {

struct Name {
    CUresult code;
    const char* name;
    const char* text = nullptr;  // as far as it has been seen; else made from the name
};

#define NAME(code) {code, #code}
#define TEXT(code, text) {code, #code, text}
const Name names[] = {
    NAME(CUDA_SUCCESS),
    TEXT(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    TEXT(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    TEXT(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    TEXT(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    TEXT(CUDA_ERROR_PROFILER_DISABLED, "profiler disabled while using external profiling tool"),
    NAME(CUDA_ERROR_PROFILER_NOT_INITIALIZED),
    NAME(CUDA_ERROR_PROFILER_ALREADY_STARTED),
    NAME(CUDA_ERROR_PROFILER_ALREADY_STOPPED),
    TEXT(CUDA_ERROR_STUB_LIBRARY, "CUDA driver is a stub library"),
    TEXT(CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER, "API call is not supported in the installed CUDA driver"),
    TEXT(CUDA_ERROR_DEVICE_UNAVAILABLE, "CUDA-capable device(s) is/are busy or unavailable"),
    {static_cast<CUresult>(47), "CUDA_ERROR_MULTICAST_RESOURCE_FULL"},  // not in every header of CUDA 13
    TEXT(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    TEXT(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    TEXT(CUDA_ERROR_DEVICE_NOT_LICENSED, "device doesn't have valid Grid license"),
    TEXT(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    TEXT(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    NAME(CUDA_ERROR_CONTEXT_ALREADY_CURRENT),
    TEXT(CUDA_ERROR_MAP_FAILED, "mapping of buffer object failed"),
    TEXT(CUDA_ERROR_UNMAP_FAILED, "unmapping of buffer object failed"),
    NAME(CUDA_ERROR_ARRAY_IS_MAPPED),
    NAME(CUDA_ERROR_ALREADY_MAPPED),
    TEXT(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"),
    NAME(CUDA_ERROR_ALREADY_ACQUIRED),
    NAME(CUDA_ERROR_NOT_MAPPED),
    NAME(CUDA_ERROR_NOT_MAPPED_AS_ARRAY),
    NAME(CUDA_ERROR_NOT_MAPPED_AS_POINTER),
    TEXT(CUDA_ERROR_ECC_UNCORRECTABLE, "uncorrectable ECC error encountered"),
    TEXT(CUDA_ERROR_UNSUPPORTED_LIMIT, "limit is not supported on this architecture"),
    NAME(CUDA_ERROR_CONTEXT_ALREADY_IN_USE),
    TEXT(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "peer access is not supported between these two devices"),
    TEXT(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
    NAME(CUDA_ERROR_INVALID_GRAPHICS_CONTEXT),
    NAME(CUDA_ERROR_NVLINK_UNCORRECTABLE),
    NAME(CUDA_ERROR_JIT_COMPILER_NOT_FOUND),
    TEXT(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "the provided PTX was compiled with an unsupported toolchain."),
    NAME(CUDA_ERROR_JIT_COMPILATION_DISABLED),
    NAME(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY),
    NAME(CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC),
    NAME(CUDA_ERROR_CONTAINED),
    {static_cast<CUresult>(227), "CUDA_ERROR_INSUFFICIENT_LOADER_VERSION"},  // not in every header of CUDA 13
    TEXT(CUDA_ERROR_INVALID_SOURCE, "device kernel image is invalid"),
    TEXT(CUDA_ERROR_FILE_NOT_FOUND, "file not found"),
    TEXT(CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, "shared object symbol not found"),
    TEXT(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, "shared object initialization failed"),
    TEXT(CUDA_ERROR_OPERATING_SYSTEM, "OS call failed or operation not supported on this OS"),
    TEXT(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    TEXT(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state"),
    NAME(CUDA_ERROR_LOSSY_QUERY),
    TEXT(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    TEXT(CUDA_ERROR_NOT_READY, "device not ready"),
    TEXT(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    TEXT(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"),
    TEXT(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated"),
    NAME(CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING),
    TEXT(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled"),
    TEXT(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access has not been enabled"),
    TEXT(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "cannot set while device is active in this process"),
    TEXT(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
    TEXT(CUDA_ERROR_ASSERT, "device-side assert triggered"),
    TEXT(CUDA_ERROR_TOO_MANY_PEERS, "peer mapping resources exhausted"),
    TEXT(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "part or all of the requested memory range is already mapped"),
    TEXT(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "pointer does not correspond to a registered memory region"),
    TEXT(CUDA_ERROR_HARDWARE_STACK_ERROR, "hardware stack error"),
    TEXT(CUDA_ERROR_ILLEGAL_INSTRUCTION, "an illegal instruction was encountered"),
    TEXT(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address"),
    TEXT(CUDA_ERROR_INVALID_ADDRESS_SPACE, "operation not supported on global/shared address space"),
    TEXT(CUDA_ERROR_INVALID_PC, "invalid program counter"),
    TEXT(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    TEXT(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "too many blocks in cooperative launch"),
    NAME(CUDA_ERROR_TENSOR_MEMORY_LEAK),
    TEXT(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    TEXT(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    TEXT(CUDA_ERROR_SYSTEM_NOT_READY, "system not yet initialized"),
    TEXT(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "system has unsupported display driver / cuda driver combination"),
    NAME(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE),
    NAME(CUDA_ERROR_MPS_CONNECTION_FAILED),
    NAME(CUDA_ERROR_MPS_RPC_FAILURE),
    NAME(CUDA_ERROR_MPS_SERVER_NOT_READY),
    NAME(CUDA_ERROR_MPS_MAX_CLIENTS_REACHED),
    NAME(CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED),
    NAME(CUDA_ERROR_MPS_CLIENT_TERMINATED),
    NAME(CUDA_ERROR_CDP_NOT_SUPPORTED),
    NAME(CUDA_ERROR_CDP_VERSION_MISMATCH),
    TEXT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"),
    TEXT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "operation failed due to a previous error during capture"),
    TEXT(CUDA_ERROR_STREAM_CAPTURE_MERGE, "operation would result in a merge of separate capture sequences"),
    TEXT(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "capture was not ended in the same stream as it began"),
    TEXT(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work"),
    TEXT(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "dependency created on uncaptured work in another stream"),
    TEXT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "operation would make the legacy stream depend on a capturing blocking stream"),
    TEXT(CUDA_ERROR_CAPTURED_EVENT, "operation not permitted on an event last recorded in a capturing stream"),
    TEXT(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "attempt to terminate a thread-local capture sequence from another thread"),
    TEXT(CUDA_ERROR_TIMEOUT, "wait operation timed out"),
    TEXT(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update"),
    TEXT(CUDA_ERROR_EXTERNAL_DEVICE, "an async error has occurred in external entity outside of CUDA"),
    TEXT(CUDA_ERROR_INVALID_CLUSTER_SIZE, "a kernel launch error has occurred due to cluster misconfiguration"),
    NAME(CUDA_ERROR_FUNCTION_NOT_LOADED),
    NAME(CUDA_ERROR_INVALID_RESOURCE_TYPE),
    NAME(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION),
    NAME(CUDA_ERROR_KEY_ROTATION),
    {static_cast<CUresult>(917), "CUDA_ERROR_STREAM_DETACHED"},  // not in every header of CUDA 13
    {static_cast<CUresult>(918), "CUDA_ERROR_GRAPH_RECAPTURE_FAILURE"},  // not in every header of CUDA 13
    {static_cast<CUresult>(919), "CUDA_ERROR_FABRIC_NOT_READY"},  // not in every header of CUDA 13
    TEXT(CUDA_ERROR_UNKNOWN, "unknown error"),
};
#undef NAME
#undef TEXT

const Name* find(CUresult code) {
    for (const Name& entry : names)
        if (entry.code == code) return &entry;
    return nullptr;
}

// What clients look for in messages (CuPy's own tests do) has the words of NVIDIA's driver.
const char* known_text(CUresult code) {
    switch (code) {
        case CUDA_ERROR_INVALID_VALUE:
            return "invalid argument";
        case CUDA_ERROR_NO_BINARY_FOR_GPU:
            return "no kernel image is available for execution on the device";
        case CUDA_ERROR_INVALID_HANDLE:
            return "invalid resource handle";
        case CUDA_ERROR_NOT_FOUND:
            return "named symbol not found";
        case CUDA_ERROR_ILLEGAL_ADDRESS:
            return "an illegal memory access was encountered";
        case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
            return "too many resources requested for launch";
        case CUDA_ERROR_ASSERT:
            return "device-side assert triggered";
        case CUDA_ERROR_LAUNCH_FAILED:
            return "unspecified launch failure";
        case CUDA_ERROR_NOT_SUPPORTED:
            return "operation not supported";
        case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
            return "operation not permitted when stream is capturing";
        case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
            return "operation failed due to a previous error during capture";
        default:
            return nullptr;
    }
}

// "CUDA_ERROR_INVALID_CONTEXT" -> "invalid context (CUDA_ERROR_INVALID_CONTEXT)"
const char* text_of(const Name& entry) {
    if (const char* known = known_text(entry.code)) return known;
    if (entry.text) return entry.text;
    static auto* texts = new std::map<int, std::string>;
    std::string& text = (*texts)[entry.code];
    if (text.empty()) {
        text = entry.code == CUDA_SUCCESS ? "no error" : std::strncmp(entry.name, "CUDA_ERROR_", 11) ? entry.name : entry.name + 11;
        for (char& c : text) c = c == '_' ? ' ' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        if (entry.code != CUDA_SUCCESS) text += std::string(" (") + entry.name + ")";
    }
    return text.c_str();
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuGetErrorName(CUresult code, const char** out) CALL(cuGetErrorName, nothing, nullptr) {
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    const Name* entry = find(code);
    *out = entry ? entry->name : nullptr;
    return entry ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
} END_CALL

CUresult CUDAAPI cuGetErrorString(CUresult code, const char** out) CALL(cuGetErrorString, nothing, nullptr) {
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    const Name* entry = find(code);
    *out = entry ? text_of(*entry) : nullptr;
    return entry ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
} END_CALL

}  // extern "C"
}  // namespace emulator
