// What a node or a piece of stream work does. An operation never changes once made: setting a node's parameters replaces
// it, so launches that are still queued keep what they were given.
#pragma once

#include <string>
#include <vector>

#include "api.h"
#include "handles.h"

namespace emulator {

struct Context;
struct Event;
struct Graph;
struct GraphAllocation;
struct Pool;
struct KernelCode;
struct Image;
struct Module;
struct Library;
struct Kernel;
struct Function;
struct Work;

struct Operation : Counted {
    CUgraphNodeType type;
    explicit Operation(CUgraphNodeType kind) : type(kind) {}
    // Called without the driver's lock, by a thread that has opened device memory.
    virtual CUresult run(Work&) const { return CUDA_SUCCESS; }
    virtual std::string name() const = 0;
    virtual bool trivial() const { return false; }  // run() does nothing
    bool on_host() const { return type == CU_GRAPH_NODE_TYPE_HOST; }
};

struct EmptyOperation : Operation {
    EmptyOperation() : Operation(CU_GRAPH_NODE_TYPE_EMPTY) {}
    std::string name() const override { return "EMPTY"; }
    bool trivial() const override { return true; }
};

// Attributes that a launch or a kernel node carries; absent ones keep the driver's defaults.
struct KernelAttributes {
    int cooperative = 0;
    int priority = 0;
    CUaccessPolicyWindow window{};
    unsigned cluster[3] = {0, 0, 0};
    unsigned preferred_cluster[3] = {0, 0, 0};
    CUclusterSchedulingPolicy cluster_policy = CU_CLUSTER_SCHEDULING_POLICY_SPREAD;
    CUlaunchMemSyncDomain domain = CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT;
    CUlaunchMemSyncDomainMap domain_map{0, 1};
    unsigned carveout = static_cast<unsigned>(-1);
    int device_updatable = 0;
    bool programmatic = false;  // may start before its predecessor in the stream ends
};

struct KernelOperation : Operation {
    KernelOperation() : Operation(CU_GRAPH_NODE_TYPE_KERNEL) {}
    CUresult run(Work&) const override;
    std::string name() const override;
    Ref<KernelCode> code;
    Context* context = nullptr;
    CUfunction function = nullptr;  // the handle given
    unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
    unsigned shared = 0;
    std::vector<unsigned char> storage;  // parameters, laid out by the image's table
    std::vector<void*> parameters;       // into storage
    KernelAttributes attributes;
};

struct CopyOperation : Operation {
    CopyOperation() : Operation(CU_GRAPH_NODE_TYPE_MEMCPY) {}
    CUresult run(Work&) const override;
    std::string name() const override { return "MEMCPY"; }
    CUDA_MEMCPY3D parameters{};
    Context* context = nullptr;
    Context* peer = nullptr;            // source context of a peer copy
    std::vector<unsigned char> staged;  // pageable source, taken at the call as the driver does
    int flags = 0;
};

struct FillOperation : Operation {
    FillOperation() : Operation(CU_GRAPH_NODE_TYPE_MEMSET) {}
    CUresult run(Work&) const override;
    std::string name() const override { return "MEMSET"; }
    CUDA_MEMSET_NODE_PARAMS parameters{};
    Context* context = nullptr;
};

struct HostOperation : Operation {
    HostOperation(CUhostFn function, void* data) : Operation(CU_GRAPH_NODE_TYPE_HOST), fn(function), user_data(data) {}
    CUresult run(Work&) const override;
    std::string name() const override { return "HOST"; }
    CUhostFn fn;
    void* user_data;
};

// AddCallback, which hands over the stream's status too; never a node.
struct CallbackOperation : Operation {
    CallbackOperation() : Operation(CU_GRAPH_NODE_TYPE_HOST) {}
    CUresult run(Work&) const override;
    std::string name() const override { return "CALLBACK"; }
    CUstreamCallback callback = nullptr;
    CUstream stream = nullptr;
    void* user_data = nullptr;
};

struct EventOperation : Operation {
    EventOperation(CUgraphNodeType kind, Ref<Event> target);
    ~EventOperation() override;
    std::string name() const override { return type == CU_GRAPH_NODE_TYPE_EVENT_RECORD ? "EVENT_RECORD" : "EVENT_WAIT"; }
    bool trivial() const override { return true; }
    Ref<Event> event;
};

struct ChildOperation : Operation {
    explicit ChildOperation(Ref<Graph> graph);
    ~ChildOperation() override;
    std::string name() const override { return "GRAPH"; }
    bool trivial() const override { return true; }
    Ref<Graph> body;
};

struct AllocOperation : Operation {
    explicit AllocOperation(Ref<GraphAllocation> target);
    ~AllocOperation() override;
    CUresult run(Work&) const override;
    std::string name() const override { return "MEM_ALLOC"; }
    Ref<GraphAllocation> allocation;
    CUmemPoolProps properties{};
    std::vector<CUmemAccessDesc> access;
    size_t bytes = 0;
};

struct FreeOperation : Operation {
    FreeOperation() : Operation(CU_GRAPH_NODE_TYPE_MEM_FREE) {}
    explicit FreeOperation(Ref<GraphAllocation> target);  // of a node: an allocation has one at most (S-D31)
    ~FreeOperation() override;
    CUresult run(Work&) const override;
    std::string name() const override { return "MEM_FREE"; }
    CUdeviceptr pointer = 0;
    Ref<GraphAllocation> allocation;
};

// The value that decides a conditional node, and its rules.
struct Conditional : Counted {
    CUgraphConditionalHandle id = 0;
    unsigned default_value = 0;
    unsigned flags = 0;
    bool used = false;
    Context* context = nullptr;
};

struct ConditionalOperation : Operation {
    ConditionalOperation() : Operation(CU_GRAPH_NODE_TYPE_CONDITIONAL) {}
    ~ConditionalOperation() override;
    std::string name() const override { return "CONDITIONAL"; }
    CUgraphConditionalHandle condition = 0;
    CUgraphConditionalNodeType kind = CU_GRAPH_COND_TYPE_IF;
    Context* context = nullptr;
    std::vector<Ref<Graph>> bodies;
    std::vector<CUgraph> body_handles;  // lent to the caller as an array
};

}  // namespace emulator
