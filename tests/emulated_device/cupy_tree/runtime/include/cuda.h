// The types and numbers of the driver's public interface that CuPy's runtime module and our runtime library name. Own declarations:
// layouts and values are those of CUDA 13.0, the text is not NVIDIA's.
#ifndef GRAPHCAP_CUPY_TREE_CUDA_H
#define GRAPHCAP_CUPY_TREE_CUDA_H

#include <stddef.h>
#include <stdint.h>

#define CUDA_VERSION 13000

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st* CUcontext;
typedef struct CUmod_st* CUmodule;
typedef struct CUfunc_st* CUfunction;
typedef struct CUstream_st* CUstream;
typedef struct CUevent_st* CUevent;
typedef struct CUgraph_st* CUgraph;
typedef struct CUgraphNode_st* CUgraphNode;
typedef struct CUgraphExec_st* CUgraphExec;
typedef struct CUmemPoolHandle_st* CUmemoryPool;
typedef struct CUlinkState_st* CUlinkState;
typedef struct CUarray_st* CUarray;
typedef size_t (*CUoccupancyB2DSize)(int block_size);
typedef void (*CUhostFn)(void* user_data);

enum CUresult : int { CUDA_SUCCESS = 0 };
enum CUjit_option : int {};
enum CUjitInputType : int {};
enum CUfunction_attribute : int {};
enum CUarray_format : int {};
enum CUaddress_mode : int {};
enum CUfilter_mode : int {};

typedef struct {
    size_t Width;
    size_t Height;
    CUarray_format Format;
    unsigned int NumChannels;
} CUDA_ARRAY_DESCRIPTOR;

enum CUmemorytype : int { CU_MEMORYTYPE_HOST = 1, CU_MEMORYTYPE_DEVICE = 2, CU_MEMORYTYPE_ARRAY = 3, CU_MEMORYTYPE_UNIFIED = 4 };

// A copy of up to three dimensions; what stays zero does not take part.
typedef struct {
    size_t srcXInBytes, srcY, srcZ, srcLOD;
    CUmemorytype srcMemoryType;
    const void* srcHost;
    CUdeviceptr srcDevice;
    CUarray srcArray;
    void* reserved0;
    size_t srcPitch, srcHeight;
    size_t dstXInBytes, dstY, dstZ, dstLOD;
    CUmemorytype dstMemoryType;
    void* dstHost;
    CUdeviceptr dstDevice;
    CUarray dstArray;
    void* reserved1;
    size_t dstPitch, dstHeight;
    size_t WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D;

typedef struct {
    char bytes[16];
} CUuuid;

#endif
