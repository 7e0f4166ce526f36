// What the emulated device does not have: arrays, textures, surfaces, memory shared between processes.
#include "driver.h"

extern "C" {

cudaError_t cudaMallocArray(cudaArray_t*, const cudaChannelFormatDesc*, size_t, size_t, unsigned int) NOT_OFFERED
cudaError_t cudaMalloc3DArray(cudaArray_t*, const cudaChannelFormatDesc*, cudaExtent, unsigned int) NOT_OFFERED
cudaError_t cudaFreeArray(cudaArray_t) NOT_OFFERED
cudaError_t cudaGetChannelDesc(cudaChannelFormatDesc*, cudaArray_t) NOT_OFFERED
cudaError_t cudaMemcpy2DFromArray(void*, size_t, cudaArray_t, size_t, size_t, size_t, size_t, cudaMemcpyKind) NOT_OFFERED
cudaError_t cudaMemcpy2DFromArrayAsync(void*, size_t, cudaArray_t, size_t, size_t, size_t, size_t, cudaMemcpyKind, cudaStream_t)
    NOT_OFFERED
cudaError_t cudaMemcpy2DToArray(cudaArray_t, size_t, size_t, const void*, size_t, size_t, size_t, cudaMemcpyKind) NOT_OFFERED
cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t, size_t, size_t, const void*, size_t, size_t, size_t, cudaMemcpyKind, cudaStream_t)
    NOT_OFFERED

cudaError_t cudaCreateTextureObject(cudaTextureObject_t*, const cudaResourceDesc*, const cudaTextureDesc*, const cudaResourceViewDesc*)
    NOT_OFFERED
cudaError_t cudaDestroyTextureObject(cudaTextureObject_t) NOT_OFFERED
cudaError_t cudaGetTextureObjectResourceDesc(cudaResourceDesc*, cudaTextureObject_t) NOT_OFFERED
cudaError_t cudaGetTextureObjectTextureDesc(cudaTextureDesc*, cudaTextureObject_t) NOT_OFFERED
cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t*, const cudaResourceDesc*) NOT_OFFERED
cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t) NOT_OFFERED

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t*, void*) NOT_OFFERED
cudaError_t cudaIpcOpenMemHandle(void**, cudaIpcMemHandle_t, unsigned int) NOT_OFFERED
cudaError_t cudaIpcCloseMemHandle(void*) NOT_OFFERED
cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t*, cudaEvent_t) NOT_OFFERED
cudaError_t cudaIpcOpenEventHandle(cudaEvent_t*, cudaIpcEventHandle_t) NOT_OFFERED

}  // extern "C"
