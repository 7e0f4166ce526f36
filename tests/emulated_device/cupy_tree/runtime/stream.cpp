// Streams, events, captures, graphs: the runtime's handles are the driver's.
#include "driver.h"

using namespace runtime;

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) FORWARD(cuStreamCreate(stream, 0))
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) FORWARD(cuStreamCreate(stream, flags))
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority)
    FORWARD(cuStreamCreateWithPriority(stream, flags, priority))
cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned int* flags) FORWARD(cuStreamGetFlags(stream, flags))
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) FORWARD(cuStreamGetPriority(stream, priority))
cudaError_t cudaStreamDestroy(cudaStream_t stream) FORWARD(cuStreamDestroy(stream))
cudaError_t cudaStreamSynchronize(cudaStream_t stream) FORWARD(cuStreamSynchronize(stream))
cudaError_t cudaStreamQuery(cudaStream_t stream) FORWARD(cuStreamQuery(stream))
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
    FORWARD(cuStreamWaitEvent(stream, event, flags))
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* user_data, unsigned int flags)
    FORWARD(cuStreamAddCallback(stream, callback, user_data, flags))
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* user_data)
    FORWARD(cuLaunchHostFunc(stream, function, user_data))

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) FORWARD(cuStreamBeginCapture(stream, mode))
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) FORWARD(cuStreamEndCapture(stream, graph))
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status)
    FORWARD(cuStreamIsCapturing(stream, reinterpret_cast<int*>(status)))
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode)
    FORWARD(cuThreadExchangeStreamCaptureMode(reinterpret_cast<int*>(mode)))

cudaError_t cudaEventCreate(cudaEvent_t* event) FORWARD(cuEventCreate(event, 0))
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) FORWARD(cuEventCreate(event, flags))
cudaError_t cudaEventDestroy(cudaEvent_t event) FORWARD(cuEventDestroy(event))
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) FORWARD(cuEventRecord(event, stream))
cudaError_t cudaEventQuery(cudaEvent_t event) FORWARD(cuEventQuery(event))
cudaError_t cudaEventSynchronize(cudaEvent_t event) FORWARD(cuEventSynchronize(event))
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end)
    FORWARD(cuEventElapsedTime(milliseconds, start, end))

cudaError_t cudaGraphDestroy(cudaGraph_t graph) FORWARD(cuGraphDestroy(graph))
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) FORWARD(cuGraphExecDestroy(executable))
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags)
    FORWARD(cuGraphInstantiate(executable, graph, flags))
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) FORWARD(cuGraphLaunch(executable, stream))
cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t stream) FORWARD(cuGraphUpload(executable, stream))
cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path, unsigned int flags)
    FORWARD(cuGraphDebugDotPrint(graph, path, flags))

}  // extern "C"
