// Which function answers a request for (name, version). Each row is checked against the driver's own typedef of that ABI.
#include "abi_table.h"

#include "api.h"

// Forms that older clients ask for, and which the current header does not declare under these names.
extern "C" {
CUresult CUDAAPI graphcap_cuGraphExecUpdate_v10020(CUgraphExec exec, CUgraph graph, CUgraphNode* error_node, CUgraphExecUpdateResult* out);
CUresult CUDAAPI graphcap_cuGraphExecKernelNodeSetParams_v10010(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* p);
CUresult CUDAAPI graphcap_cuGraphGetEdges_v10000(CUgraph handle, CUgraphNode* from, CUgraphNode* to, size_t* count);
CUresult CUDAAPI graphcap_cuGraphNodeGetDependencies_v10000(CUgraphNode handle, CUgraphNode* out, size_t* count);
CUresult CUDAAPI graphcap_cuGraphNodeGetDependentNodes_v10000(CUgraphNode handle, CUgraphNode* out, size_t* count);
CUresult CUDAAPI graphcap_cuGraphAddDependencies_v10000(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to, size_t count);
CUresult CUDAAPI graphcap_cuGraphRemoveDependencies_v10000(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to, size_t count);
CUresult CUDAAPI graphcap_cuStreamBeginCapture_v10000(CUstream handle);
CUresult CUDAAPI cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph, const CUgraphNode** nodes, size_t* count);
CUresult CUDAAPI graphcap_cuStreamGetCaptureInfo_v10010(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id);
CUresult CUDAAPI graphcap_cuStreamUpdateCaptureDependencies_v11030(CUstream handle, CUgraphNode* nodes, size_t count, unsigned int flags);
CUresult CUDAAPI graphcap_cuGraphAddNode_v12020(CUgraphNode* out, CUgraph graph, const CUgraphNode* nodes, size_t count, CUgraphNodeParams* p);
CUresult CUDAAPI graphcap_cuGraphAddKernelNode_v10000(CUgraphNode* out, CUgraph graph, const CUgraphNode* nodes, size_t count, const CUDA_KERNEL_NODE_PARAMS_v1* p);
CUresult CUDAAPI graphcap_cuGraphInstantiate_v11000(CUgraphExec* out, CUgraph graph, CUgraphNode* error_node, char* log, size_t log_bytes);
CUresult CUDAAPI cuCtxCreate_v3(CUcontext* out, CUexecAffinityParam*, int count, unsigned int flags, CUdevice dev);
CUresult CUDAAPI cuCtxCreate_v2(CUcontext* out, unsigned int flags, CUdevice dev);
}

namespace emulator {
namespace {

// A twin of each function for requests with the per-thread default stream flag: its null stream is the thread's own.
template <auto function>
struct PerThread;
template <class... A, CUresult (*function)(A...)>
struct PerThread<function> {
    static CUresult call(A... arguments) {
        NullStreamIsPerThread scope;
        return function(arguments...);
    }
};

template <class Typedef, auto function>
AbiRow row(const char* name, int version) {
    static_assert(std::is_same_v<Typedef, decltype(function)>, "the implementation has another signature than the ABI it claims");
    return {name, version, reinterpret_cast<void*>(function), reinterpret_cast<void*>(&PerThread<function>::call)};
}

}  // namespace

// Two old ABIs have no typedef in the current header.
#define OLD_ROW(name, version, function) row<decltype(&function), &function>(#name, version)
#define ROW(name, version, function) row<PFN_##name##_v##version, &function>(#name, version)

const std::vector<AbiRow>& abi_table() {
    static const std::vector<AbiRow> rows = {
        ROW(cuCtxCreate, 3020, cuCtxCreate_v2),
        ROW(cuCtxCreate, 11040, cuCtxCreate_v3),
        ROW(cuCtxCreate, 12050, cuCtxCreate_v4),
        ROW(cuCtxDestroy, 4000, cuCtxDestroy),
        ROW(cuCtxDisablePeerAccess, 4000, cuCtxDisablePeerAccess),
        ROW(cuCtxEnablePeerAccess, 4000, cuCtxEnablePeerAccess),
        ROW(cuCtxGetApiVersion, 3020, cuCtxGetApiVersion),
        ROW(cuCtxGetCurrent, 4000, cuCtxGetCurrent),
        ROW(cuCtxGetDevice, 2000, cuCtxGetDevice),
        ROW(cuCtxGetDevice, 13000, cuCtxGetDevice_v2),
        ROW(cuCtxGetFlags, 7000, cuCtxGetFlags),
        ROW(cuCtxGetId, 12000, cuCtxGetId),
        ROW(cuCtxGetLimit, 3010, cuCtxGetLimit),
        ROW(cuCtxGetStreamPriorityRange, 5050, cuCtxGetStreamPriorityRange),
        ROW(cuCtxPopCurrent, 4000, cuCtxPopCurrent),
        ROW(cuCtxPushCurrent, 4000, cuCtxPushCurrent),
        ROW(cuCtxRecordEvent, 12050, cuCtxRecordEvent),
        ROW(cuCtxSetCurrent, 4000, cuCtxSetCurrent),
        ROW(cuCtxSetLimit, 3010, cuCtxSetLimit),
        ROW(cuCtxWaitEvent, 12050, cuCtxWaitEvent),
        ROW(cuCtxSynchronize, 2000, cuCtxSynchronize),
        ROW(cuCtxSynchronize, 13000, cuCtxSynchronize_v2),
        ROW(cuDeviceCanAccessPeer, 4000, cuDeviceCanAccessPeer),
        ROW(cuDeviceComputeCapability, 2000, cuDeviceComputeCapability),
        ROW(cuDeviceGet, 2000, cuDeviceGet),
        ROW(cuDeviceGetAttribute, 2000, cuDeviceGetAttribute),
        ROW(cuDeviceGetCount, 2000, cuDeviceGetCount),
        ROW(cuDeviceGetDefaultMemPool, 11020, cuDeviceGetDefaultMemPool),
        ROW(cuDeviceGetGraphMemAttribute, 11040, cuDeviceGetGraphMemAttribute),
        ROW(cuDeviceGetMemPool, 11020, cuDeviceGetMemPool),
        ROW(cuDeviceGetName, 2000, cuDeviceGetName),
        ROW(cuDeviceGetP2PAttribute, 8000, cuDeviceGetP2PAttribute),
        ROW(cuDeviceGetPCIBusId, 4010, cuDeviceGetPCIBusId),
        ROW(cuDeviceGetUuid, 11040, cuDeviceGetUuid_v2),
        ROW(cuDeviceGraphMemTrim, 11040, cuDeviceGraphMemTrim),
        ROW(cuDevicePrimaryCtxGetState, 7000, cuDevicePrimaryCtxGetState),
        ROW(cuDevicePrimaryCtxRelease, 11000, cuDevicePrimaryCtxRelease),
        ROW(cuDevicePrimaryCtxReset, 11000, cuDevicePrimaryCtxReset),
        ROW(cuDevicePrimaryCtxRetain, 7000, cuDevicePrimaryCtxRetain),
        ROW(cuDevicePrimaryCtxSetFlags, 11000, cuDevicePrimaryCtxSetFlags),
        ROW(cuDeviceSetGraphMemAttribute, 11040, cuDeviceSetGraphMemAttribute),
        ROW(cuDeviceSetMemPool, 11020, cuDeviceSetMemPool),
        ROW(cuDeviceTotalMem, 3020, cuDeviceTotalMem),
        ROW(cuDriverGetVersion, 2020, cuDriverGetVersion),
        ROW(cuEventCreate, 2000, cuEventCreate),
        ROW(cuEventDestroy, 4000, cuEventDestroy),
        ROW(cuEventElapsedTime, 2000, cuEventElapsedTime),
        ROW(cuEventElapsedTime, 12080, cuEventElapsedTime),
        ROW(cuEventQuery, 2000, cuEventQuery),
        ROW(cuEventRecord, 2000, cuEventRecord),
        ROW(cuEventRecordWithFlags, 11010, cuEventRecordWithFlags),
        ROW(cuEventSynchronize, 2000, cuEventSynchronize),
        ROW(cuFuncGetAttribute, 2020, cuFuncGetAttribute),
        ROW(cuFuncGetModule, 11000, cuFuncGetModule),
        ROW(cuFuncGetName, 12030, cuFuncGetName),
        ROW(cuFuncGetParamInfo, 12040, cuFuncGetParamInfo),
        ROW(cuFuncIsLoaded, 12040, cuFuncIsLoaded),
        ROW(cuFuncLoad, 12040, cuFuncLoad),
        ROW(cuFuncSetAttribute, 9000, cuFuncSetAttribute),
        ROW(cuFuncSetCacheConfig, 3000, cuFuncSetCacheConfig),
        ROW(cuGetErrorName, 6000, cuGetErrorName),
        ROW(cuGetErrorString, 6000, cuGetErrorString),
        ROW(cuGraphAddChildGraphNode, 10000, cuGraphAddChildGraphNode),
        ROW(cuGraphAddDependencies, 10000, graphcap_cuGraphAddDependencies_v10000),
        ROW(cuGraphAddDependencies, 12030, cuGraphAddDependencies_v2),
        ROW(cuGraphAddEmptyNode, 10000, cuGraphAddEmptyNode),
        ROW(cuGraphAddEventRecordNode, 11010, cuGraphAddEventRecordNode),
        ROW(cuGraphAddEventWaitNode, 11010, cuGraphAddEventWaitNode),
        ROW(cuGraphAddHostNode, 10000, cuGraphAddHostNode),
        ROW(cuGraphAddKernelNode, 10000, graphcap_cuGraphAddKernelNode_v10000),
        ROW(cuGraphAddKernelNode, 12000, cuGraphAddKernelNode),
        ROW(cuGraphAddMemAllocNode, 11040, cuGraphAddMemAllocNode),
        ROW(cuGraphAddMemFreeNode, 11040, cuGraphAddMemFreeNode),
        ROW(cuGraphAddMemcpyNode, 10000, cuGraphAddMemcpyNode),
        ROW(cuGraphAddMemsetNode, 10000, cuGraphAddMemsetNode),
        ROW(cuGraphAddNode, 12020, graphcap_cuGraphAddNode_v12020),
        ROW(cuGraphAddNode, 12030, cuGraphAddNode_v2),
#if CUDA_VERSION >= 13040
        ROW(cuGraphAddNode, 13040, cuGraphAddNode_v3),
#endif
        ROW(cuGraphChildGraphNodeGetGraph, 10000, cuGraphChildGraphNodeGetGraph),
        ROW(cuGraphClone, 10000, cuGraphClone),
        ROW(cuGraphConditionalHandleCreate, 12030, cuGraphConditionalHandleCreate),
        ROW(cuGraphCreate, 10000, cuGraphCreate),
        ROW(cuGraphDebugDotPrint, 11030, cuGraphDebugDotPrint),
        ROW(cuGraphDestroy, 10000, cuGraphDestroy),
        ROW(cuGraphDestroyNode, 10000, cuGraphDestroyNode),
        ROW(cuGraphEventRecordNodeGetEvent, 11010, cuGraphEventRecordNodeGetEvent),
        ROW(cuGraphEventRecordNodeSetEvent, 11010, cuGraphEventRecordNodeSetEvent),
        ROW(cuGraphEventWaitNodeGetEvent, 11010, cuGraphEventWaitNodeGetEvent),
        ROW(cuGraphEventWaitNodeSetEvent, 11010, cuGraphEventWaitNodeSetEvent),
        ROW(cuGraphExecChildGraphNodeSetParams, 11010, cuGraphExecChildGraphNodeSetParams),
        ROW(cuGraphExecDestroy, 10000, cuGraphExecDestroy),
        ROW(cuGraphExecEventRecordNodeSetEvent, 11010, cuGraphExecEventRecordNodeSetEvent),
        ROW(cuGraphExecEventWaitNodeSetEvent, 11010, cuGraphExecEventWaitNodeSetEvent),
        ROW(cuGraphExecGetFlags, 12000, cuGraphExecGetFlags),
#if CUDA_VERSION >= 13010
        ROW(cuGraphExecGetId, 13010, cuGraphExecGetId),
#endif
        ROW(cuGraphExecHostNodeSetParams, 10020, cuGraphExecHostNodeSetParams),
        ROW(cuGraphExecKernelNodeSetParams, 10010, graphcap_cuGraphExecKernelNodeSetParams_v10010),
        ROW(cuGraphExecKernelNodeSetParams, 12000, cuGraphExecKernelNodeSetParams),
        ROW(cuGraphExecMemcpyNodeSetParams, 10020, cuGraphExecMemcpyNodeSetParams),
        ROW(cuGraphExecMemsetNodeSetParams, 10020, cuGraphExecMemsetNodeSetParams),
        ROW(cuGraphExecNodeSetParams, 12020, cuGraphExecNodeSetParams),
        ROW(cuGraphExecUpdate, 10020, graphcap_cuGraphExecUpdate_v10020),
        ROW(cuGraphExecUpdate, 12000, cuGraphExecUpdate),
        ROW(cuGraphGetEdges, 10000, graphcap_cuGraphGetEdges_v10000),
        ROW(cuGraphGetEdges, 12030, cuGraphGetEdges_v2),
#if CUDA_VERSION >= 13010
        ROW(cuGraphGetId, 13010, cuGraphGetId),
#endif
        ROW(cuGraphGetNodes, 10000, cuGraphGetNodes),
        ROW(cuGraphGetRootNodes, 10000, cuGraphGetRootNodes),
        ROW(cuGraphHostNodeGetParams, 10000, cuGraphHostNodeGetParams),
        ROW(cuGraphHostNodeSetParams, 10000, cuGraphHostNodeSetParams),
        OLD_ROW(cuGraphInstantiate, 10000, graphcap_cuGraphInstantiate_v11000),
        ROW(cuGraphInstantiateWithFlags, 11040, cuGraphInstantiateWithFlags),
        ROW(cuGraphInstantiateWithParams, 12000, cuGraphInstantiateWithParams),
        ROW(cuGraphKernelNodeCopyAttributes, 11000, cuGraphKernelNodeCopyAttributes),
        ROW(cuGraphKernelNodeGetAttribute, 11000, cuGraphKernelNodeGetAttribute),
        ROW(cuGraphKernelNodeGetParams, 12000, cuGraphKernelNodeGetParams),
        ROW(cuGraphKernelNodeSetAttribute, 11000, cuGraphKernelNodeSetAttribute),
        ROW(cuGraphKernelNodeSetParams, 12000, cuGraphKernelNodeSetParams),
        ROW(cuGraphLaunch, 10000, cuGraphLaunch),
        ROW(cuGraphMemAllocNodeGetParams, 11040, cuGraphMemAllocNodeGetParams),
        ROW(cuGraphMemFreeNodeGetParams, 11040, cuGraphMemFreeNodeGetParams),
        ROW(cuGraphMemcpyNodeGetParams, 10000, cuGraphMemcpyNodeGetParams),
        ROW(cuGraphMemcpyNodeSetParams, 10000, cuGraphMemcpyNodeSetParams),
        ROW(cuGraphMemsetNodeGetParams, 10000, cuGraphMemsetNodeGetParams),
        ROW(cuGraphMemsetNodeSetParams, 10000, cuGraphMemsetNodeSetParams),
        ROW(cuGraphNodeFindInClone, 10000, cuGraphNodeFindInClone),
#if CUDA_VERSION >= 13010
        ROW(cuGraphNodeGetContainingGraph, 13010, cuGraphNodeGetContainingGraph),
#endif
        ROW(cuGraphNodeGetDependencies, 10000, graphcap_cuGraphNodeGetDependencies_v10000),
        ROW(cuGraphNodeGetDependencies, 12030, cuGraphNodeGetDependencies_v2),
        ROW(cuGraphNodeGetDependentNodes, 10000, graphcap_cuGraphNodeGetDependentNodes_v10000),
        ROW(cuGraphNodeGetDependentNodes, 12030, cuGraphNodeGetDependentNodes_v2),
        ROW(cuGraphNodeGetEnabled, 11060, cuGraphNodeGetEnabled),
#if CUDA_VERSION >= 13010
        ROW(cuGraphNodeGetLocalId, 13010, cuGraphNodeGetLocalId),
#endif
#if CUDA_VERSION >= 13020
        ROW(cuGraphNodeGetParams, 13020, cuGraphNodeGetParams),
#endif
#if CUDA_VERSION >= 13010
        ROW(cuGraphNodeGetToolsId, 13010, cuGraphNodeGetToolsId),
#endif
        ROW(cuGraphNodeGetType, 10000, cuGraphNodeGetType),
        ROW(cuGraphNodeSetEnabled, 11060, cuGraphNodeSetEnabled),
        ROW(cuGraphNodeSetParams, 12020, cuGraphNodeSetParams),
#if CUDA_VERSION >= 13040
        ROW(cuGraphNodeSetParams, 13040, cuGraphNodeSetParams_v2),
#endif
        ROW(cuGraphReleaseUserObject, 11030, cuGraphReleaseUserObject),
        ROW(cuGraphRemoveDependencies, 10000, graphcap_cuGraphRemoveDependencies_v10000),
        ROW(cuGraphRemoveDependencies, 12030, cuGraphRemoveDependencies_v2),
        ROW(cuGraphRetainUserObject, 11030, cuGraphRetainUserObject),
        ROW(cuGraphUpload, 11010, cuGraphUpload),
        ROW(cuInit, 2000, cuInit),
        ROW(cuKernelGetAttribute, 12000, cuKernelGetAttribute),
        ROW(cuKernelGetFunction, 12000, cuKernelGetFunction),
        ROW(cuKernelGetLibrary, 12050, cuKernelGetLibrary),
        ROW(cuKernelGetName, 12030, cuKernelGetName),
        ROW(cuKernelGetParamInfo, 12040, cuKernelGetParamInfo),
        ROW(cuKernelSetAttribute, 12000, cuKernelSetAttribute),
        ROW(cuLaunchCooperativeKernel, 9000, cuLaunchCooperativeKernel),
        ROW(cuLaunchHostFunc, 10000, cuLaunchHostFunc),
#if CUDA_VERSION >= 13010
        ROW(cuLaunchHostFunc, 13010, cuLaunchHostFunc_v2),
#endif
        ROW(cuLaunchKernel, 4000, cuLaunchKernel),
        ROW(cuLaunchKernelEx, 11060, cuLaunchKernelEx),
        ROW(cuLibraryEnumerateKernels, 12040, cuLibraryEnumerateKernels),
        ROW(cuLibraryGetGlobal, 12000, cuLibraryGetGlobal),
        ROW(cuLibraryGetKernel, 12000, cuLibraryGetKernel),
        ROW(cuLibraryGetKernelCount, 12040, cuLibraryGetKernelCount),
        ROW(cuLibraryGetModule, 12000, cuLibraryGetModule),
        ROW(cuLibraryLoadData, 12000, cuLibraryLoadData),
        ROW(cuLibraryLoadFromFile, 12000, cuLibraryLoadFromFile),
        ROW(cuLibraryUnload, 12000, cuLibraryUnload),
        ROW(cuMemAlloc, 3020, cuMemAlloc),
        ROW(cuMemAllocAsync, 11020, cuMemAllocAsync),
        ROW(cuMemAllocFromPoolAsync, 11020, cuMemAllocFromPoolAsync),
        ROW(cuMemAllocHost, 3020, cuMemAllocHost),
        ROW(cuMemAllocManaged, 6000, cuMemAllocManaged),
        ROW(cuMemAllocPitch, 3020, cuMemAllocPitch),
        ROW(cuMemFree, 3020, cuMemFree),
        ROW(cuMemFreeAsync, 11020, cuMemFreeAsync),
        ROW(cuMemFreeHost, 2000, cuMemFreeHost),
        ROW(cuMemGetAddressRange, 3020, cuMemGetAddressRange),
        ROW(cuMemGetDefaultMemPool, 13000, cuMemGetDefaultMemPool),
        ROW(cuMemGetInfo, 3020, cuMemGetInfo),
        ROW(cuMemGetMemPool, 13000, cuMemGetMemPool),
        ROW(cuMemHostAlloc, 2020, cuMemHostAlloc),
        ROW(cuMemHostGetDevicePointer, 3020, cuMemHostGetDevicePointer),
        ROW(cuMemHostGetFlags, 2030, cuMemHostGetFlags),
        ROW(cuMemHostRegister, 6050, cuMemHostRegister),
        ROW(cuMemHostUnregister, 4000, cuMemHostUnregister),
        ROW(cuMemPoolCreate, 11020, cuMemPoolCreate),
        ROW(cuMemPoolDestroy, 11020, cuMemPoolDestroy),
        ROW(cuMemPoolExportPointer, 11020, cuMemPoolExportPointer),
        ROW(cuMemPoolGetAccess, 11020, cuMemPoolGetAccess),
        ROW(cuMemPoolGetAttribute, 11020, cuMemPoolGetAttribute),
        ROW(cuMemPoolSetAccess, 11020, cuMemPoolSetAccess),
        ROW(cuMemPoolSetAttribute, 11020, cuMemPoolSetAttribute),
        ROW(cuMemPoolTrimTo, 11020, cuMemPoolTrimTo),
        ROW(cuMemcpy, 4000, cuMemcpy),
        ROW(cuMemcpy2D, 3020, cuMemcpy2D),
        ROW(cuMemcpy2DAsync, 3020, cuMemcpy2DAsync),
        ROW(cuMemcpy2DUnaligned, 3020, cuMemcpy2DUnaligned),
        ROW(cuMemcpy3D, 3020, cuMemcpy3D),
        ROW(cuMemcpy3DAsync, 3020, cuMemcpy3DAsync),
        ROW(cuMemcpyAsync, 4000, cuMemcpyAsync),
        ROW(cuMemcpyDtoD, 3020, cuMemcpyDtoD),
        ROW(cuMemcpyDtoDAsync, 3020, cuMemcpyDtoDAsync),
        ROW(cuMemcpyDtoH, 3020, cuMemcpyDtoH),
        ROW(cuMemcpyDtoHAsync, 3020, cuMemcpyDtoHAsync),
        ROW(cuMemcpyHtoD, 3020, cuMemcpyHtoD),
        ROW(cuMemcpyHtoDAsync, 3020, cuMemcpyHtoDAsync),
        ROW(cuMemcpyPeer, 4000, cuMemcpyPeer),
        ROW(cuMemcpyPeerAsync, 4000, cuMemcpyPeerAsync),
        ROW(cuMemsetD16, 3020, cuMemsetD16),
        ROW(cuMemsetD16Async, 3020, cuMemsetD16Async),
        ROW(cuMemsetD2D16, 3020, cuMemsetD2D16),
        ROW(cuMemsetD2D16Async, 3020, cuMemsetD2D16Async),
        ROW(cuMemsetD2D32, 3020, cuMemsetD2D32),
        ROW(cuMemsetD2D32Async, 3020, cuMemsetD2D32Async),
        ROW(cuMemsetD2D8, 3020, cuMemsetD2D8),
        ROW(cuMemsetD2D8Async, 3020, cuMemsetD2D8Async),
        ROW(cuMemsetD32, 3020, cuMemsetD32),
        ROW(cuMemsetD32Async, 3020, cuMemsetD32Async),
        ROW(cuMemsetD8, 3020, cuMemsetD8),
        ROW(cuMemsetD8Async, 3020, cuMemsetD8Async),
        ROW(cuModuleGetFunction, 2000, cuModuleGetFunction),
        ROW(cuModuleGetFunctionCount, 12040, cuModuleGetFunctionCount),
        ROW(cuModuleGetGlobal, 3020, cuModuleGetGlobal),
        ROW(cuModuleGetLoadingMode, 11070, cuModuleGetLoadingMode),
        ROW(cuModuleLoad, 2000, cuModuleLoad),
        ROW(cuModuleLoadData, 2000, cuModuleLoadData),
        ROW(cuModuleLoadDataEx, 2010, cuModuleLoadDataEx),
        ROW(cuModuleLoadFatBinary, 2000, cuModuleLoadFatBinary),
        ROW(cuModuleUnload, 2000, cuModuleUnload),
        ROW(cuOccupancyAvailableDynamicSMemPerBlock, 10020, cuOccupancyAvailableDynamicSMemPerBlock),
        ROW(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050, cuOccupancyMaxActiveBlocksPerMultiprocessor),
        ROW(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, 7000, cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags),
        ROW(cuOccupancyMaxPotentialBlockSize, 6050, cuOccupancyMaxPotentialBlockSize),
        ROW(cuPointerGetAttribute, 4000, cuPointerGetAttribute),
        ROW(cuPointerGetAttributes, 7000, cuPointerGetAttributes),
        ROW(cuPointerSetAttribute, 6000, cuPointerSetAttribute),
        ROW(cuStreamAddCallback, 5000, cuStreamAddCallback),
        ROW(cuStreamAttachMemAsync, 6000, cuStreamAttachMemAsync),
        OLD_ROW(cuStreamBeginCapture, 10000, graphcap_cuStreamBeginCapture_v10000),
        ROW(cuStreamBeginCapture, 10010, cuStreamBeginCapture),
        ROW(cuStreamBeginCaptureToGraph, 12030, cuStreamBeginCaptureToGraph),
        ROW(cuStreamCopyAttributes, 11000, cuStreamCopyAttributes),
        ROW(cuStreamCreate, 2000, cuStreamCreate),
        ROW(cuStreamCreateWithPriority, 5050, cuStreamCreateWithPriority),
        ROW(cuStreamDestroy, 4000, cuStreamDestroy),
        ROW(cuStreamEndCapture, 10000, cuStreamEndCapture),
        ROW(cuStreamGetAttribute, 11000, cuStreamGetAttribute),
        ROW(cuStreamGetCaptureInfo, 10010, graphcap_cuStreamGetCaptureInfo_v10010),
        ROW(cuStreamGetCaptureInfo, 11030, cuStreamGetCaptureInfo_v2),
        ROW(cuStreamGetCaptureInfo, 12030, cuStreamGetCaptureInfo_v3),
        ROW(cuStreamGetCtx, 9020, cuStreamGetCtx),
        ROW(cuStreamGetCtx, 12050, cuStreamGetCtx_v2),
        ROW(cuStreamGetDevice, 12080, cuStreamGetDevice),
        ROW(cuStreamGetFlags, 5050, cuStreamGetFlags),
        ROW(cuStreamGetId, 12000, cuStreamGetId),
        ROW(cuStreamGetPriority, 5050, cuStreamGetPriority),
        ROW(cuStreamIsCapturing, 10000, cuStreamIsCapturing),
        ROW(cuStreamQuery, 2000, cuStreamQuery),
        ROW(cuStreamSetAttribute, 11000, cuStreamSetAttribute),
        ROW(cuStreamSynchronize, 2000, cuStreamSynchronize),
        ROW(cuStreamUpdateCaptureDependencies, 11030, graphcap_cuStreamUpdateCaptureDependencies_v11030),
        ROW(cuStreamUpdateCaptureDependencies, 12030, cuStreamUpdateCaptureDependencies_v2),
        ROW(cuStreamWaitEvent, 3020, cuStreamWaitEvent),
        ROW(cuThreadExchangeStreamCaptureMode, 10010, cuThreadExchangeStreamCaptureMode),
        ROW(cuUserObjectCreate, 11030, cuUserObjectCreate),
        ROW(cuUserObjectRelease, 11030, cuUserObjectRelease),
        ROW(cuUserObjectRetain, 11030, cuUserObjectRetain),
        // the plain name stands for the form with flags since CUDA 12
        row<PFN_cuGraphInstantiateWithFlags_v11040, &cuGraphInstantiateWithFlags>("cuGraphInstantiate", 12000),
    };
    return rows;
}

}  // namespace emulator
