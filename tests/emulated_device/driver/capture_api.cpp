// The driver's capture functions.
#include <cstring>

#include "capture.h"
#include "graph.h"

namespace emulator {
namespace {

bool known_mode(CUstreamCaptureMode mode) { return static_cast<unsigned>(mode) <= CU_STREAM_CAPTURE_MODE_RELAXED; }

CUresult resolve_for_query(CUstream handle, Stream*& stream) {
    if (const CUresult error = resolve_stream(handle, stream)) return error;
    return stream->legacy ? capture::legacy_use(*stream->context, capture::Use::query) : CUDA_SUCCESS;
}

CUstreamCaptureStatus status_of(const Stream& stream) {
    if (!stream.capture) return CU_STREAM_CAPTURE_STATUS_NONE;
    return stream.capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

CUresult info(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph, const CUgraphNode** nodes,
              const CUgraphEdgeData** edges, size_t* count, bool edges_may_be_lost) {
    if (!status) return CUDA_ERROR_INVALID_VALUE;
    Stream* stream;
    if (const CUresult error = resolve_for_query(handle, stream)) return error;
    *status = status_of(*stream);
    if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
    bool lossy = false;
    stream->info_nodes.clear();
    stream->info_edges.clear();
    for (const Dependency& dependency : stream->frontier) {
        stream->info_nodes.push_back(handle_of<CUgraphNode>(dependency.node));
        stream->info_edges.push_back(dependency.data);
        lossy = lossy || !graph::plain(dependency.data);
    }
    if (nodes && lossy && (!edges || edges_may_be_lost)) return CUDA_ERROR_LOSSY_QUERY;
    // Clients read the arrays even when they are empty, so they are never null.
    stream->info_nodes.push_back(nullptr);
    stream->info_edges.push_back({});
    if (id) *id = stream->capture->graph->capture_id;
    if (graph) *graph = handle_of<CUgraph>(stream->capture->graph.get());
    if (nodes) *nodes = stream->info_nodes.data();
    if (edges) *edges = stream->info_edges.data();
    if (count) *count = stream->frontier.size();
    return CUDA_SUCCESS;
}

CUresult update(CUstream handle, const CUgraphNode* nodes, const CUgraphEdgeData* data, size_t count, unsigned flags) {
    Stream* stream;
    if (const CUresult error = resolve_stream(handle, stream)) return error;
    if (!stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
    if (stream->capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES) return CUDA_ERROR_INVALID_VALUE;
    std::vector<Dependency> given;
    if (const CUresult error = graph::resolve_dependencies(*stream->capture->graph, nodes, data, count, given)) return error;
    if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) {
        stream->frontier = given;
        return CUDA_SUCCESS;
    }
    for (const Dependency& extra : given) {
        bool known = false;
        for (const Dependency& have : stream->frontier) known = known || have.node == extra.node;
        if (!known) stream->frontier.push_back(extra);
    }
    return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) CALL(cuStreamBeginCapture, context, handle) {
    Stream* stream;
    if (!known_mode(mode)) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult error = resolve_stream(handle, stream)) return error;
    return capture::begin(*stream, nullptr, {}, mode);
} END_CALL

// The form of CUDA 10.0, which had no mode: global.
EXPORT CUresult CUDAAPI graphcap_cuStreamBeginCapture_v10000(CUstream handle) CALL(cuStreamBeginCapture, context, handle) {
    Stream* stream;
    if (const CUresult error = resolve_stream(handle, stream)) return error;
    return capture::begin(*stream, nullptr, {}, CU_STREAM_CAPTURE_MODE_GLOBAL);
} END_CALL

CUresult CUDAAPI cuStreamBeginCaptureToGraph(CUstream handle, CUgraph graph_handle, const CUgraphNode* nodes,
                                             const CUgraphEdgeData* data, size_t count, CUstreamCaptureMode mode)
CALL(cuStreamBeginCaptureToGraph, context, handle) {
    Stream* stream;
    Graph* graph = graph::find(graph_handle);
    if (!graph || !known_mode(mode)) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult error = resolve_stream(handle, stream)) return error;
    if (stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
    if (graph->capture) return CUDA_ERROR_INVALID_VALUE;  // already being captured into (code not confirmed)
    std::vector<Dependency> first;
    if (const CUresult error = graph::resolve_dependencies(*graph, nodes, data, count, first)) return error;
    return capture::begin(*stream, graph, std::move(first), mode);
} END_CALL

CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode)
CALL(cuThreadExchangeStreamCaptureMode, initialised, nullptr) {
    if (!mode || !known_mode(*mode)) return CUDA_ERROR_INVALID_VALUE;
    *mode = capture::exchange_mode(*mode);
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuStreamEndCapture(CUstream handle, CUgraph* out) CALL(cuStreamEndCapture, context, handle) {
    Stream* stream;
    if (const CUresult error = resolve_stream(handle, stream)) return error;
    return capture::end(*stream, out);
} END_CALL

CUresult CUDAAPI cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status)
CALL(cuStreamIsCapturing, context, handle) {
    if (!status) return CUDA_ERROR_INVALID_VALUE;
    Stream* stream;
    if (const CUresult error = resolve_for_query(handle, stream)) return error;
    *status = status_of(*stream);
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                           const CUgraphNode** nodes, const CUgraphEdgeData** edges, size_t* count)
CALL(cuStreamGetCaptureInfo, context, handle) {
    return info(handle, status, id, graph, nodes, edges, count, false);
} END_CALL

EXPORT CUresult CUDAAPI cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                                  const CUgraphNode** nodes, size_t* count)
CALL(cuStreamGetCaptureInfo, context, handle) {
    return info(handle, status, id, graph, nodes, nullptr, count, true);
} END_CALL

EXPORT CUresult CUDAAPI graphcap_cuStreamGetCaptureInfo_v10010(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id)
CALL(cuStreamGetCaptureInfo, context, handle) {
    return info(handle, status, id, nullptr, nullptr, nullptr, nullptr, true);
} END_CALL

CUresult CUDAAPI cuStreamUpdateCaptureDependencies_v2(CUstream handle, CUgraphNode* nodes, const CUgraphEdgeData* data,
                                                      size_t count, unsigned int flags)
CALL(cuStreamUpdateCaptureDependencies, context, handle) {
    return update(handle, nodes, data, count, flags);
} END_CALL

EXPORT CUresult CUDAAPI graphcap_cuStreamUpdateCaptureDependencies_v11030(CUstream handle, CUgraphNode* nodes, size_t count,
                                                                          unsigned int flags)
CALL(cuStreamUpdateCaptureDependencies, context, handle) {
    return update(handle, nodes, nullptr, count, flags);
} END_CALL

}  // extern "C"
}  // namespace emulator
