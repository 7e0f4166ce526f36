#ifndef GRAPHCAP_CUPY_TREE_CUDA_PROFILER_API_H
#define GRAPHCAP_CUPY_TREE_CUDA_PROFILER_API_H

#include "cuda_runtime.h"

extern "C" {
cudaError_t cudaProfilerStart(void);
cudaError_t cudaProfilerStop(void);
}

#endif
