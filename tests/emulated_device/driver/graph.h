// Graphs as templates: nodes, edges, clones.
#pragma once

#include "call.h"

namespace emulator::graph {

Ref<Graph> create();  // entered in the table
void destroy(Graph& graph);
Node* add_node(Graph& graph, const Ref<Operation>& operation, std::vector<Dependency> dependencies);
void remove_node(Node& node);
// Refuses what may not stand in this graph (a conditional body takes only some kinds, S-D50).
CUresult check_placement(const Graph& graph, const Operation& operation);
Graph* find(CUgraph handle);
Node* find(CUgraphNode handle);
// Dependencies of a new node; refuses nulls, foreign nodes, duplicates.
CUresult resolve_dependencies(const Graph& graph, const CUgraphNode* nodes, const CUgraphEdgeData* data, size_t count,
                              std::vector<Dependency>& out);
bool has_memory_nodes(const Graph& graph);
bool has_conditionals(const Graph& graph);
bool captured_into(const Graph& graph);  // it, or a child or body in it
bool cyclic(const Graph& graph);  // children and bodies included
// A deep copy: children and bodies too. `share_handles`: the copy is internal and gets no handles.
Ref<Graph> clone(const Graph& graph, bool with_handles);
std::vector<const Node*> order(const Graph& graph);  // follows edges; shorter than the graph when that is cyclic
void release_users(UserReferences& users);
bool same_data(const CUgraphEdgeData& a, const CUgraphEdgeData& b);
bool plain(const CUgraphEdgeData& data);  // carries nothing that an older interface would lose

// An allocation node's operation, with its address; a free node's.
CUresult make_allocation(Device& device, size_t bytes, const CUmemPoolProps& properties, Ref<Operation>& out);
CUresult make_free(CUdeviceptr pointer, Ref<Operation>& out);

}  // namespace emulator::graph

namespace emulator::capture {
CUstreamCaptureMode exchange_mode(CUstreamCaptureMode mode);
CUresult begin(Stream& stream, Graph* into, std::vector<Dependency> first, CUstreamCaptureMode mode);
CUresult end(Stream& stream, CUgraph* out);
}  // namespace emulator::capture
