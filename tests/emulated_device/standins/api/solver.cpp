// libcusolver.so.12 for the emulated device: handles. Everything that computes refuses.
#include "device.h"

namespace {

enum { success = 0, not_initialized = 1, invalid_value = 3 };

struct handle {
    CUstream stream = nullptr;
};

int create(handle** out) {
    if (!out) return invalid_value;
    if (!standins::need_context()) return not_initialized;
    *out = new handle;
    return success;
}
int destroy(handle* h) {
    delete h;
    return h ? success : not_initialized;
}
int set_stream(handle* h, CUstream stream) {
    if (!h) return not_initialized;
    h->stream = stream;
    return success;
}
int get_stream(handle* h, CUstream* stream) {
    if (!h) return not_initialized;
    if (!stream) return invalid_value;
    *stream = h->stream;
    return success;
}

}  // namespace

#define HANDLES(family)                                                                                 \
    EXPORT int cusolver##family##Create(handle** out) { return create(out); }                           \
    EXPORT int cusolver##family##Destroy(handle* h) { return destroy(h); }                              \
    EXPORT int cusolver##family##SetStream(handle* h, CUstream stream) { return set_stream(h, stream); } \
    EXPORT int cusolver##family##GetStream(handle* h, CUstream* stream) { return get_stream(h, stream); }
HANDLES(Dn)
HANDLES(Sp)

// 0: major, 1: minor, 2: patch.
EXPORT int cusolverGetProperty(int which, int* value) {
    if (!value || which < 0 || which > 2) return invalid_value;
    *value = which == 0 ? 12 : 0;
    return success;
}
