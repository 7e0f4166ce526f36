// libcurand.so.10 for the emulated device. Generators for the host, quasi-random ones and 64-bit draws are refused (the real
// library gives 64-bit numbers from 64-bit quasi-random generators only).
#include "device.h"
#include "rand_calls.h"

using namespace standins;

namespace {

enum status {
    success = 0,
    not_initialized = 101,
    allocation_failed = 102,
    type_error = 103,
    out_of_range = 104,
    length_not_multiple = 105,
    launch_failure = 201
};
enum { pseudo_default = 100, philox = 161, ordering_best = 100, ordering_dynamic = 104 };
constexpr uint64_t default_seed = 0;

struct generator {
    CUdeviceptr state = 0;
    CUstream stream = nullptr;
    rand_state fresh = {};
    bool seeded = false;  // the state in device memory is that of the last seed and offset
};

bool is_pseudo(int type) {
    switch (type) {
        case pseudo_default: case 101: case 121: case 141: case 142: case philox: return true;
        default: return false;
    }
}

int outcome(CUresult error) { return error ? launch_failure : success; }

rand_call call_of(generator* g, void* out, size_t n) {
    rand_call call = {};
    call.state = reinterpret_cast<rand_state*>(g->state);
    call.out = out;
    call.n = n;
    call.fresh = g->fresh;
    return call;
}

int prepare(generator* g) {
    if (g->seeded) return success;
    const int result = outcome(launch("seed", 1, g->stream, call_of(g, nullptr, 0)));
    g->seeded = result == success;
    return result;
}

int draw(generator* g, const char* kernel, void* out, size_t n, double first = 0, double second = 0) {
    if (!g) return not_initialized;
    if (const int result = prepare(g)) return result;
    if (!n) return success;
    rand_call call = call_of(g, out, n);
    call.first = first;
    call.second = second;
    return outcome(launch(kernel, 1, g->stream, call));
}

int draw_pairs(generator* g, const char* kernel, void* out, size_t n, double mean, double deviation) {
    if (!g) return not_initialized;
    if (n % 2) return length_not_multiple;
    return draw(g, kernel, out, n, mean, deviation);
}

}  // namespace

EXPORT int curandCreateGenerator(generator** out, int type) {
    if (!out) return out_of_range;
    if (!is_pseudo(type)) return type_error;
    if (!need_context()) return not_initialized;
    auto* g = new generator;
    if (cuMemAlloc(&g->state, sizeof(rand_state))) {
        delete g;
        return allocation_failed;
    }
    g->fresh = {default_seed, 0, type == philox ? 0u : static_cast<uint32_t>(type)};
    *out = g;
    return success;
}
EXPORT int curandDestroyGenerator(generator* g) {
    if (!g) return not_initialized;
    cuMemFree(g->state);  // the context may be gone, and the memory with it
    delete g;
    return success;
}
EXPORT int curandGetVersion(int* version) {
    if (!version) return out_of_range;
    *version = 10400;
    return success;
}
EXPORT int curandSetStream(generator* g, CUstream stream) {
    if (!g) return not_initialized;
    g->stream = stream;
    return success;
}
// A new seed starts the sequence at the offset that was set; a new offset starts the sequence of the seed there.
EXPORT int curandSetPseudoRandomGeneratorSeed(generator* g, unsigned long long seed) {
    if (!g) return not_initialized;
    g->fresh.seed = seed;
    g->seeded = false;
    return success;
}
EXPORT int curandSetGeneratorOffset(generator* g, unsigned long long offset) {
    if (!g) return not_initialized;
    g->fresh.position = offset;
    g->seeded = false;
    return success;
}
EXPORT int curandSetGeneratorOrdering(generator* g, int ordering) {
    if (!g) return not_initialized;
    return ordering >= ordering_best && ordering <= ordering_dynamic ? success : out_of_range;
}
EXPORT int curandGenerateSeeds(generator* g) { return g ? prepare(g) : not_initialized; }
EXPORT int curandGenerate(generator* g, unsigned* out, size_t n) { return draw(g, "bits", out, n); }
EXPORT int curandGenerateLongLong(generator* g, unsigned long long*, size_t) { return g ? type_error : not_initialized; }
EXPORT int curandGenerateUniform(generator* g, float* out, size_t n) { return draw(g, "uniform", out, n); }
EXPORT int curandGenerateUniformDouble(generator* g, double* out, size_t n) { return draw(g, "uniform_double", out, n); }
EXPORT int curandGenerateNormal(generator* g, float* out, size_t n, float mean, float deviation) {
    return draw_pairs(g, "normal", out, n, mean, deviation);
}
EXPORT int curandGenerateNormalDouble(generator* g, double* out, size_t n, double mean, double deviation) {
    return draw_pairs(g, "normal_double", out, n, mean, deviation);
}
EXPORT int curandGenerateLogNormal(generator* g, float* out, size_t n, float mean, float deviation) {
    return draw_pairs(g, "log_normal", out, n, mean, deviation);
}
EXPORT int curandGenerateLogNormalDouble(generator* g, double* out, size_t n, double mean, double deviation) {
    return draw_pairs(g, "log_normal_double", out, n, mean, deviation);
}
EXPORT int curandGeneratePoisson(generator* g, unsigned* out, size_t n, double rate) {
    if (!g) return not_initialized;
    if (!(rate > 0) || rate > 400000) return out_of_range;
    return draw(g, "poisson", out, n, rate);
}
