// The public C interface of NVRTC as its documentation gives it, in declarations of our own.
#pragma once

#include <cstddef>

enum nvrtcResult : int {
    NVRTC_SUCCESS = 0,
    NVRTC_ERROR_OUT_OF_MEMORY = 1,
    NVRTC_ERROR_PROGRAM_CREATION_FAILURE = 2,
    NVRTC_ERROR_INVALID_INPUT = 3,
    NVRTC_ERROR_INVALID_PROGRAM = 4,
    NVRTC_ERROR_INVALID_OPTION = 5,
    NVRTC_ERROR_COMPILATION = 6,
    NVRTC_ERROR_BUILTIN_OPERATION_FAILURE = 7,
    NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION = 8,
    NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION = 9,
    NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID = 10,
    NVRTC_ERROR_INTERNAL_ERROR = 11,
    NVRTC_ERROR_TIME_FILE_WRITE_FAILED = 12,
    NVRTC_ERROR_NO_PCH_CREATE_ATTEMPTED = 13,
    NVRTC_ERROR_PCH_CREATE_HEAP_EXHAUSTED = 14,
    NVRTC_ERROR_PCH_CREATE = 15,
    NVRTC_ERROR_CANCELLED = 16,
    NVRTC_ERROR_TIME_TRACE_FILE_WRITE_FAILED = 17,
    NVRTC_ERROR_BUSY = 18,
};

typedef struct _nvrtcProgram* nvrtcProgram;

#define NVRTC_CALL extern "C" __attribute__((visibility("default")))

NVRTC_CALL const char* nvrtcGetErrorString(nvrtcResult result);
NVRTC_CALL nvrtcResult nvrtcVersion(int* major, int* minor);
NVRTC_CALL nvrtcResult nvrtcGetNumSupportedArchs(int* count);
NVRTC_CALL nvrtcResult nvrtcGetSupportedArchs(int* archs);
NVRTC_CALL nvrtcResult nvrtcCreateProgram(nvrtcProgram* out, const char* source, const char* name, int header_count,
                                          const char* const* headers, const char* const* include_names);
NVRTC_CALL nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program);
NVRTC_CALL nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int option_count, const char* const* options);
NVRTC_CALL nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t* size);
NVRTC_CALL nvrtcResult nvrtcGetPTX(nvrtcProgram program, char* ptx);
NVRTC_CALL nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t* size);
NVRTC_CALL nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* cubin);
NVRTC_CALL nvrtcResult nvrtcGetLTOIRSize(nvrtcProgram program, size_t* size);
NVRTC_CALL nvrtcResult nvrtcGetLTOIR(nvrtcProgram program, char* ltoir);
NVRTC_CALL nvrtcResult nvrtcGetOptiXIRSize(nvrtcProgram program, size_t* size);
NVRTC_CALL nvrtcResult nvrtcGetOptiXIR(nvrtcProgram program, char* optixir);
NVRTC_CALL nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t* size);
NVRTC_CALL nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* log);
NVRTC_CALL nvrtcResult nvrtcAddNameExpression(nvrtcProgram program, const char* expression);
NVRTC_CALL nvrtcResult nvrtcGetLoweredName(nvrtcProgram program, const char* expression, const char** lowered);
NVRTC_CALL nvrtcResult nvrtcGetPCHHeapSize(size_t* size);
NVRTC_CALL nvrtcResult nvrtcSetPCHHeapSize(size_t size);
NVRTC_CALL nvrtcResult nvrtcGetPCHCreateStatus(nvrtcProgram program);
NVRTC_CALL nvrtcResult nvrtcGetPCHHeapSizeRequired(nvrtcProgram program, size_t* size);
NVRTC_CALL nvrtcResult nvrtcSetFlowCallback(nvrtcProgram program, int (*callback)(void*, void*), void* payload);
