// libcufft.so.12 for the emulated device: plans of up to three axes on one device. Half precision, several devices and
// callbacks are refused. The types and numbers are those of the library's public documentation.
#include "device.h"
#include "fft_calls.h"

#include <algorithm>
#include <memory>

using namespace standins;

namespace {

enum status {
    success = 0,
    invalid_plan = 1,
    alloc_failed = 2,
    invalid_value = 4,
    exec_failed = 6,
    setup_failed = 7,
    invalid_size = 8,
    no_workspace = 13
};
enum kind { c2c = 0x29, r2c = 0x2a, c2r = 0x2c, z2z = 0x69, d2z = 0x6a, z2d = 0x6c };

constexpr int64_t most_blocks = 64;

struct plan {
    CUstream stream = nullptr;
    bool allocates = true, made = false;
    bool packed_in = true, packed_out = true;  // no box was given: in place, real numbers are padded
    int kind = 0;
    CUdeviceptr own = 0;
    void* work = nullptr;
    int64_t blocks = 0;
    fft_call call = {};
    ~plan() {
        if (own) cuMemFree(own);  // the context may be gone, and the memory with it
    }
};

struct Plans {
    std::mutex mutex;
    std::map<int, std::shared_ptr<plan>> live;
    int next = 1;
};

Plans& plans() {
    static auto* instance = new Plans;
    return *instance;
}

std::shared_ptr<plan> find(int handle) {
    std::lock_guard<std::mutex> lock(plans().mutex);
    const auto found = plans().live.find(handle);
    return found == plans().live.end() ? nullptr : found->second;
}

bool known(int kind) { return kind == c2c || kind == r2c || kind == c2r || kind == z2z || kind == d2z || kind == z2d; }
bool halves_in(int kind) { return kind == c2r || kind == z2d; }
bool halves_out(int kind) { return kind == r2c || kind == d2z; }

// The layout of an array that fills its box.
layout packed(const fft_call& call, bool half, bool padded) {
    layout out = {};
    out.stride = out.distance = 1;
    for (int i = 0; i < call.axes; ++i) {
        out.box[i] = call.length[i];
        if (i == call.axes - 1 && half) out.box[i] = call.length[i] / 2 + 1;
        if (i == call.axes - 1 && padded) out.box[i] = 2 * (call.length[i] / 2 + 1);
        out.distance *= out.box[i];
    }
    return out;
}

layout given(const int* box, int axes, int stride, int distance) {
    layout out = {};
    std::copy(box, box + axes, out.box);
    out.stride = stride;
    out.distance = distance;
    return out;
}

int make(const std::shared_ptr<plan>& p, int axes, const int* n, const int* in_box, int in_stride, int in_distance,
         const int* out_box, int out_stride, int out_distance, int kind, int batch, size_t* work_bytes) {
    if (!p || p->made) return invalid_plan;
    if (!n || axes < 1 || axes > most_axes || !known(kind)) return invalid_value;
    for (int i = 0; i < axes; ++i)
        if (n[i] < 1) return invalid_size;
    if (batch < 1) return invalid_size;
    fft_call& call = p->call;
    call.axes = axes;
    std::copy(n, n + axes, call.length);
    call.batch = batch;
    p->kind = kind;
    // As documented: without either box, strides and distances are ignored.
    p->packed_in = p->packed_out = !in_box || !out_box;
    if (!p->packed_in) {
        call.from = given(in_box, axes, in_stride, in_distance);
        call.to = given(out_box, axes, out_stride, out_distance);
    }
    call.scratch_bytes = fft_scratch_bytes(call.length, axes);
    p->blocks = std::min<int64_t>(batch, most_blocks);
    const auto bytes = static_cast<size_t>(p->blocks * call.scratch_bytes);
    if (work_bytes) *work_bytes = bytes;
    if (p->allocates) {
        if (cuMemAlloc(&p->own, bytes)) return alloc_failed;
        p->work = reinterpret_cast<void*>(p->own);
    }
    p->made = true;
    return success;
}

int execute(int handle, int kind, const char* kernel, void* in, void* out, int sign) {
    const std::shared_ptr<plan> p = find(handle);
    if (!p || !p->made || p->kind != kind) return invalid_plan;
    if (!in || !out || (sign != -1 && sign != 1)) return invalid_value;
    if (!p->work) return no_workspace;
    fft_call call = p->call;
    const bool in_place = in == out;
    if (p->packed_in) {
        call.from = packed(call, halves_in(kind), in_place && halves_out(kind));
        call.to = packed(call, halves_out(kind), in_place && halves_in(kind));
    }
    call.in = in;
    call.out = out;
    call.scratch = p->work;
    call.sign = sign;
    return launch(kernel, p->blocks, p->stream, call) ? exec_failed : success;
}

}  // namespace

EXPORT int cufftCreate(int* handle) {
    if (!handle) return invalid_value;
    if (!need_context()) return setup_failed;
    std::lock_guard<std::mutex> lock(plans().mutex);
    *handle = plans().next++;
    plans().live[*handle] = std::make_shared<plan>();
    return success;
}
EXPORT int cufftDestroy(int handle) {
    std::shared_ptr<plan> last;  // outlives the lock: freeing its memory waits for work
    std::lock_guard<std::mutex> lock(plans().mutex);
    const auto found = plans().live.find(handle);
    if (found == plans().live.end()) return invalid_plan;
    last = found->second;
    plans().live.erase(found);
    return success;
}
EXPORT int cufftGetVersion(int* version) {
    if (!version) return invalid_value;
    *version = 12000;
    return success;
}
EXPORT int cufftSetStream(int handle, CUstream stream) {
    const auto p = find(handle);
    if (!p) return invalid_plan;
    p->stream = stream;
    return success;
}
EXPORT int cufftSetAutoAllocation(int handle, int on) {
    const auto p = find(handle);
    if (!p || p->made) return invalid_plan;
    p->allocates = on != 0;
    return success;
}
EXPORT int cufftSetWorkArea(int handle, void* work) {
    const auto p = find(handle);
    if (!p) return invalid_plan;
    if (p->own) cuMemFree(p->own);
    p->own = 0;
    p->work = work;
    return success;
}
EXPORT int cufftMakePlan1d(int handle, int n, int kind, int batch, size_t* work_bytes) {
    return make(find(handle), 1, &n, nullptr, 1, 0, nullptr, 1, 0, kind, batch, work_bytes);
}
EXPORT int cufftMakePlanMany(int handle, int axes, int* n, int* in_box, int in_stride, int in_distance, int* out_box,
                             int out_stride, int out_distance, int kind, int batch, size_t* work_bytes) {
    return make(find(handle), axes, n, in_box, in_stride, in_distance, out_box, out_stride, out_distance, kind, batch, work_bytes);
}
EXPORT int cufftExecC2C(int handle, void* in, void* out, int sign) { return execute(handle, c2c, "c2c", in, out, sign); }
EXPORT int cufftExecZ2Z(int handle, void* in, void* out, int sign) { return execute(handle, z2z, "z2z", in, out, sign); }
EXPORT int cufftExecR2C(int handle, void* in, void* out) { return execute(handle, r2c, "r2c", in, out, -1); }
EXPORT int cufftExecD2Z(int handle, void* in, void* out) { return execute(handle, d2z, "d2z", in, out, -1); }
EXPORT int cufftExecC2R(int handle, void* in, void* out) { return execute(handle, c2r, "c2r", in, out, 1); }
EXPORT int cufftExecZ2D(int handle, void* in, void* out) { return execute(handle, z2d, "z2d", in, out, 1); }
