/* The kernels of examples/cuda_kernels.cu for the emulated device: the same text, with CUDA's words defined by the test header. */
#include "graphcap_kernel.h"

struct example_dim3 {
    unsigned x, y, z;
};
#define threadIdx (example_dim3{GRAPHCAP_THREAD_X, GRAPHCAP_THREAD_Y, GRAPHCAP_THREAD_Z})
#define blockIdx (example_dim3{GRAPHCAP_BLOCK_X, GRAPHCAP_BLOCK_Y, GRAPHCAP_BLOCK_Z})
#define blockDim (example_dim3{GRAPHCAP_BLOCK_SIZE_X, GRAPHCAP_BLOCK_SIZE_Y, GRAPHCAP_BLOCK_SIZE_Z})
#define __global__ GRAPHCAP_KERNEL

