// libgraphcap_primitives.so: sort, scan and reduce for CuPy's Thrust and CUB modules (cupy_headers/).
#include "../cupy_headers/graphcap_primitives.h"
#include "device.h"
#include "primitive_calls.h"

#include <algorithm>

using namespace standins;

namespace {

constexpr int64_t most_blocks = 1024;

std::string kernel(const char* name, int element) { return std::string(name) + '_' + std::to_string(element); }
bool unknown(int element) { return element < 0 || element >= element_count; }
CUstream stream_of(intptr_t stream) { return reinterpret_cast<CUstream>(stream); }

// The rows and their length: all but the last dimension, and the last.
void take_shape(const ptrdiff_t* shape, size_t dimensions, sort_call& call) {
    call.rows = dimensions ? 1 : 0;
    for (size_t i = 0; i + 1 < dimensions; ++i) call.rows *= shape[i];
    call.length = dimensions ? shape[dimensions - 1] : 0;
}

int sort_with(const char* name, int element, sort_call call, size_t scratch, intptr_t stream, const graphcap_workspace& work) {
    if (!call.rows || !call.length) return 0;
    char* memory = work.allocate(work.owner, scratch);
    if (!memory) return GRAPHCAP_NO_MEMORY;
    call.scratch = memory;
    const CUresult error = launch(kernel(name, element).c_str(), std::min(call.rows, most_blocks), stream_of(stream), call);
    // As Thrust does: given back at once, and in order with the stream, for the allocator keeps it for that stream.
    work.release(work.owner, memory);
    return static_cast<int>(error);
}

}  // namespace

EXPORT int graphcap_sort(int element, void* data, const ptrdiff_t* shape, size_t dimensions, intptr_t stream, graphcap_workspace work) {
    if (unknown(element)) return GRAPHCAP_NOT_OFFERED;
    sort_call call = {};
    call.data = data;
    take_shape(shape, dimensions, call);
    return sort_with("sort", element, call, static_cast<size_t>(call.rows * call.length * element_bytes[element]), stream, work);
}

EXPORT int graphcap_argsort(int element, size_t* index, const void* data, const ptrdiff_t* shape, size_t dimensions,
                            intptr_t stream, graphcap_workspace work) {
    if (unknown(element)) return GRAPHCAP_NOT_OFFERED;
    sort_call call = {};
    call.data = const_cast<void*>(data);
    call.index = reinterpret_cast<uint64_t*>(index);
    take_shape(shape, dimensions, call);
    return sort_with("argsort", element, call, static_cast<size_t>(call.rows * call.length) * 8, stream, work);
}

EXPORT int graphcap_lexsort(int element, size_t* index, const void* keys, size_t count, size_t length, intptr_t stream,
                            graphcap_workspace work) {
    if (unknown(element)) return GRAPHCAP_NOT_OFFERED;
    sort_call call = {};
    call.data = const_cast<void*>(keys);
    call.index = reinterpret_cast<uint64_t*>(index);
    call.rows = 1;
    call.length = static_cast<int64_t>(length);
    call.keys = static_cast<int64_t>(count);
    return sort_with("lexsort", element, call, length * 8, stream, work);
}

EXPORT int graphcap_reduce(int element, int operation, const void* data, void* out, int64_t segments, int64_t length,
                           intptr_t stream) {
    const bool known = operation == product || (operation >= sum && operation <= argmax);
    if (unknown(element) || !known) return GRAPHCAP_NOT_OFFERED;
    if (!length && operation != sum && operation != product) return CUDA_ERROR_INVALID_VALUE;
    const reduce_call call = {data, out, segments, length, operation};
    return static_cast<int>(launch(kernel("reduce", element).c_str(), std::min(segments, most_blocks), stream_of(stream), call));
}

EXPORT int graphcap_scan(int element, int operation, void* data, int64_t length, intptr_t stream) {
    if (unknown(element) || (operation != cumsum && operation != cumprod)) return GRAPHCAP_NOT_OFFERED;
    const reduce_call call = {data, data, 1, length, operation};
    return static_cast<int>(launch(kernel("scan", element).c_str(), 1, stream_of(stream), call));
}

EXPORT int graphcap_histogram(int element, const void* data, int64_t samples, const void* edges, int64_t lowest, int64_t* counts,
                              int64_t bins, intptr_t stream) {
    if (unknown(element) || element == c64 || element == c128) return GRAPHCAP_NOT_OFFERED;
    const histogram_call call = {data, edges, counts, samples, bins, lowest};
    return static_cast<int>(launch(kernel("histogram", element).c_str(), 1, stream_of(stream), call));
}
