// What CuPy's thrust.pyx is compiled against in place of CuPy's own header of this name.
#pragma once

#include "graphcap_primitives.h"

#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#define THRUST_VERSION 0

// Defined by the extension that thrust.pyx becomes.
extern "C" char* cupy_malloc(void*, size_t);
extern "C" int cupy_free(void*, char*);

namespace graphcap_thrust {

inline graphcap_workspace workspace(void* owner) { return {&cupy_malloc, &cupy_free, owner}; }

inline void check(const char* what, int result) {
    if (!result) return;
    if (result == GRAPHCAP_NO_MEMORY) throw std::bad_alloc();
    if (result == GRAPHCAP_NOT_OFFERED)
        throw std::runtime_error(std::string(what) + ": not offered by the stand-in of the emulated device for this type");
    throw std::runtime_error(std::string(what) + ": the driver returned " + std::to_string(result));
}

}  // namespace graphcap_thrust

inline void thrust_sort(int element, void* data, size_t*, const std::vector<ptrdiff_t>& shape, intptr_t stream, void* owner) {
    graphcap_thrust::check("sort", graphcap_sort(element, data, shape.data(), shape.size(), stream,
                                                 graphcap_thrust::workspace(owner)));
}

inline void thrust_lexsort(int element, size_t* index, void* keys, size_t count, size_t length, intptr_t stream, void* owner) {
    graphcap_thrust::check("lexsort", graphcap_lexsort(element, index, keys, count, length, stream,
                                                       graphcap_thrust::workspace(owner)));
}

inline void thrust_argsort(int element, size_t* index, void* data, void*, const std::vector<ptrdiff_t>& shape, intptr_t stream,
                           void* owner) {
    graphcap_thrust::check("argsort", graphcap_argsort(element, index, data, shape.data(), shape.size(), stream,
                                                       graphcap_thrust::workspace(owner)));
}
