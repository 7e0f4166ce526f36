// The C interface of libgraphcap_primitives.so, which stands in for what CuPy compiles from Thrust and CUB.
#pragma once

#include <stddef.h>
#include <stdint.h>

extern "C" {

// Memory for the time of the call, from CuPy's allocator; null: there is none.
typedef char* (*graphcap_allocate)(void* owner, size_t bytes);
typedef int (*graphcap_release)(void* owner, char* memory);

typedef struct graphcap_workspace {
    graphcap_allocate allocate;
    graphcap_release release;
    void* owner;
} graphcap_workspace;

// All return 0, GRAPHCAP_NO_MEMORY, GRAPHCAP_NOT_OFFERED, or the driver's error.
enum { GRAPHCAP_NO_MEMORY = -1, GRAPHCAP_NOT_OFFERED = -2 };

int graphcap_sort(int element, void* data, const ptrdiff_t* shape, size_t dimensions, intptr_t stream, graphcap_workspace work);
int graphcap_argsort(int element, size_t* index, const void* data, const ptrdiff_t* shape, size_t dimensions, intptr_t stream,
                     graphcap_workspace work);
int graphcap_lexsort(int element, size_t* index, const void* keys, size_t count, size_t length, intptr_t stream,
                     graphcap_workspace work);
int graphcap_reduce(int element, int operation, const void* data, void* out, int64_t segments, int64_t length, intptr_t stream);
int graphcap_scan(int element, int operation, void* data, int64_t length, intptr_t stream);
int graphcap_histogram(int element, const void* data, int64_t samples, const void* edges, int64_t lowest, int64_t* counts,
                       int64_t bins, intptr_t stream);
}
