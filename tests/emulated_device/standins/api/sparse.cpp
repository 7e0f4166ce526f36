// libcusparse.so.12 for the emulated device: handles, and names for errors. Everything that computes refuses.
#include "device.h"

namespace {

enum { success = 0, not_initialized = 1, invalid_value = 3 };

struct handle {
    CUstream stream = nullptr;
    int pointer_mode = 0;
};

struct text {
    const char *name, *words;
};

constexpr text texts[] = {
    {"CUSPARSE_STATUS_SUCCESS", "success"},
    {"CUSPARSE_STATUS_NOT_INITIALIZED", "initialization error"},
    {"CUSPARSE_STATUS_ALLOC_FAILED", "out of memory"},
    {"CUSPARSE_STATUS_INVALID_VALUE", "invalid value"},
    {"CUSPARSE_STATUS_ARCH_MISMATCH", "architecture mismatch"},
    {"CUSPARSE_STATUS_MAPPING_ERROR", "texture mapping error"},
    {"CUSPARSE_STATUS_EXECUTION_FAILED", "kernel launch failure"},
    {"CUSPARSE_STATUS_INTERNAL_ERROR", "internal error"},
    {"CUSPARSE_STATUS_MATRIX_TYPE_NOT_SUPPORTED", "matrix type not supported"},
    {"CUSPARSE_STATUS_ZERO_PIVOT", "zero pivot"},
    {"CUSPARSE_STATUS_NOT_SUPPORTED", "not supported by the stand-in of the emulated device"},
    {"CUSPARSE_STATUS_INSUFFICIENT_RESOURCES", "insufficient resources"},
};

const text& text_of(int status) {
    static constexpr text unknown = {"unknown", "unknown error"};
    return status >= 0 && status < static_cast<int>(sizeof texts / sizeof *texts) ? texts[status] : unknown;
}

}  // namespace

EXPORT int cusparseCreate(handle** out) {
    if (!out) return invalid_value;
    if (!standins::need_context()) return not_initialized;
    *out = new handle;
    return success;
}
EXPORT int cusparseDestroy(handle* h) {
    delete h;
    return h ? success : not_initialized;
}
EXPORT int cusparseSetStream(handle* h, CUstream stream) {
    if (!h) return not_initialized;
    h->stream = stream;
    return success;
}
EXPORT int cusparseGetStream(handle* h, CUstream* stream) {
    if (!h) return not_initialized;
    if (!stream) return invalid_value;
    *stream = h->stream;
    return success;
}
EXPORT int cusparseSetPointerMode(handle* h, int mode) {
    if (!h) return not_initialized;
    h->pointer_mode = mode;
    return success;
}
EXPORT int cusparseGetVersion(handle*, int* version) {
    if (!version) return invalid_value;
    *version = 12600;
    return success;
}
EXPORT const char* cusparseGetErrorName(int status) { return text_of(status).name; }
EXPORT const char* cusparseGetErrorString(int status) { return text_of(status).words; }
