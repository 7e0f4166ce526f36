// What the driver's handles stand for. Every field is guarded by the driver's lock (call.h).
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "api.h"
#include "handles.h"
#include "operation.h"

namespace emulator {

struct Capture;
struct Context;
struct Executable;
struct Graph;
struct Node;
struct Stream;
struct Work;
struct Frame;

enum class Space { device, host, managed };

struct Pool : Counted {
    int device = 0;  // of a pool of host or managed memory: 0
    Space space = Space::device;
    bool is_default = false;
    CUmemPoolProps properties{};
    size_t reserved = 0, used = 0, reserved_high = 0, used_high = 0, threshold = 0;
    int reuse[3] = {1, 1, 1};
    std::map<int, CUmemAccess_flags> access;
};

struct Device {
    int ordinal = 0;
    size_t total = 0;
    size_t limit = 0;  // what an allocation may take together; a test lowers it
    size_t used = 0;
    unsigned primary_flags = 0;
    unsigned primary_retained = 0;
    Ref<Context> primary;
    Ref<Pool> default_pool, current_pool;
    size_t graph_used = 0, graph_used_high = 0, graph_reserved = 0, graph_reserved_high = 0;
};

struct Context : Counted {
    Device* device = nullptr;
    bool primary = false;
    unsigned flags = 0;
    CUresult sticky = CUDA_SUCCESS;
    size_t unfinished = 0;  // work submitted and not finished
    size_t limits[16] = {};
    Ref<Stream> legacy;
    std::map<std::thread::id, Ref<Stream>> per_thread;
    std::unordered_set<Stream*> streams;
    std::vector<Ref<Work>> orphans;  // last work of blocking streams that were destroyed
    std::unordered_set<int> peers;
};

// One dependency of the next node: a node and how it is depended upon.
struct Dependency {
    Node* node = nullptr;
    CUgraphEdgeData data{};
};

struct Stream : Counted {
    Context* context = nullptr;
    unsigned flags = 0;
    int priority = 0;
    uint64_t id = 0;
    bool legacy = false, per_thread = false;
    Ref<Work> tail;
    Ref<Capture> capture;
    std::vector<Dependency> frontier;
    std::vector<CUgraphNode> info_nodes;      // arrays lent by cuStreamGetCaptureInfo
    std::vector<CUgraphEdgeData> info_edges;
    std::map<int, CUstreamAttrValue> attributes;
    bool blocking() const { return !legacy && !(flags & CU_STREAM_NON_BLOCKING); }
    ~Stream() override;
};

struct Event : Counted {
    Context* context = nullptr;
    unsigned flags = 0;
    Ref<Work> work;                    // marker of the last record outside captures
    Ref<Capture> capture;              // of the last record, where that was inside one
    std::vector<Dependency> frontier;  // valid while `capture` is open
    bool timed() const { return !(flags & CU_EVENT_DISABLE_TIMING); }
};

struct Capture : Counted {
    Stream* origin = nullptr;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    std::thread::id thread;
    Ref<Graph> graph;
    bool into_given_graph = false;
    bool invalidated = false;
    bool open = true;
    std::unordered_set<Stream*> streams;
    std::vector<Dependency> orphans;  // frontiers of forked streams that were destroyed before they joined
};

struct UserObject : Counted {
    void* pointer = nullptr;
    CUhostFn destroy = nullptr;
    long count = 0;
};

// References that a graph or an executable holds on user objects; they go back when it dies. The object itself stays
// as long as the map names it, whatever its count (a graph may take over more references than exist, E-33).
struct UserOrder {
    bool operator()(const Ref<UserObject>& a, const Ref<UserObject>& b) const { return a.get() < b.get(); }
};
using UserReferences = std::map<Ref<UserObject>, long, UserOrder>;

struct Node : Counted {
    Graph* graph = nullptr;
    unsigned index = 0;     // creation order in its graph, never used twice
    uint64_t serial = 0;    // unique in the process
    uint64_t original = 0;  // serial of the node this one was cloned from
    Ref<Operation> operation;
    std::vector<Dependency> dependencies;
    std::vector<Node*> dependents;
    bool enabled = true;
};

struct Graph : Counted {
    unsigned number = 0;  // as the DOT text names it
    uint64_t capture_id = 0;
    std::vector<Ref<Node>> nodes;  // in creation order
    unsigned next_index = 0;
    unsigned destroyed_nodes = 0;
    Node* owner = nullptr;         // of a child graph or a conditional body
    Capture* capture = nullptr;    // open capture into it
    uint64_t cloned_from = 0;      // capture_id of the original
    bool moved = false;            // a child graph whose ownership went to its parent
    Context* context = nullptr;
    std::map<CUgraphConditionalHandle, Ref<Conditional>> conditionals;
    UserReferences users;
    unsigned executables = 0;      // alive, instantiated from this graph
    ~Graph() override;
};

struct GlobalState {
    bool initialised = false;
    std::vector<std::unique_ptr<Device>> devices;
    Table<Context> contexts{Kind::context};
    Table<Stream> streams{Kind::stream};
    Table<Event> events{Kind::event};
    Table<Graph> graphs{Kind::graph};
    Table<Executable> executables{Kind::executable};
    Table<Node> nodes{Kind::node};
    Table<Module> modules{Kind::module};
    Table<Library> libraries{Kind::library};
    Table<Kernel> kernels{Kind::kernel};
    Table<Function> functions{Kind::function};
    Table<Pool> pools{Kind::pool};
    Table<UserObject> user_objects{Kind::user_object};
    std::vector<Ref<Capture>> captures;  // open ones
    Ref<Pool> host_pool, managed_pool;   // the default ones
    uint64_t next_serial = 1;
    unsigned next_graph = 1;
};

// Never destroyed: worker threads may outlive static destructors.
GlobalState& state();

Context* current_context();
Device* device_at(CUdevice ordinal);
// 0, 1 and 2 are the legacy and per-thread default streams of the current context.
CUresult resolve_stream(CUstream handle, Stream*& stream);
CUresult resolve_event(CUevent handle, Event*& event);

}  // namespace emulator
