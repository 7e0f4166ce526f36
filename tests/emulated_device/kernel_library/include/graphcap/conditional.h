/* What a kernel in a graph does to the graph's conditional nodes. Programs declare the function themselves, with this linkage. */
#ifndef GRAPHCAP_CONDITIONAL_H
#define GRAPHCAP_CONDITIONAL_H

typedef unsigned long long cudaGraphConditionalHandle;

extern "C" inline __attribute__((visibility("hidden"))) void cudaGraphSetConditional(cudaGraphConditionalHandle handle, unsigned int value) {
    graphcap_service->set_condition(handle, value);
}

#endif
