// The allocation table: every byte that the emulated devices, pinned and managed memory own.
#pragma once

#include <map>

#include "call.h"

namespace emulator {

// Memory of an allocation node: its address belongs to the graph, its bytes to whoever launched it last.
struct GraphAllocation : Counted {
    uintptr_t address = 0;
    size_t bytes = 0;
    Device* device = nullptr;
    bool promised = false;  // allocated by a launch that was submitted, and not freed by anything submitted since
    bool live = false;      // in the table now
    bool freed_by_node = false;
    ~GraphAllocation() override;
};

namespace memory {

using emulator::Space;

struct Allocation {
    uintptr_t start = 0;
    size_t bytes = 0;
    Space space = Space::device;
    Device* device = nullptr;
    Context* context = nullptr;
    Ref<Pool> pool;
    bool registered = false;      // host memory that the program owns
    bool global = false;          // a variable of a kernel image, which owns it
    bool freeing = false;         // a stream-ordered free was submitted
    unsigned host_flags = 0;
    uint64_t id = 0;
    Ref<GraphAllocation> graph;   // owns the address
};

constexpr size_t alignment = 256;

CUresult allocate(Device& device, size_t bytes, Space space, Allocation*& out);
void release(uintptr_t start);
Allocation* containing(uintptr_t address);
Allocation* at(uintptr_t start);
bool covered(uintptr_t start, size_t bytes);
// As `containing` and `covered`, but what an allocation node will give counts too: good enough to build a node with.
bool planned(uintptr_t address);
bool planned(uintptr_t start, size_t bytes);
bool overlaps(uintptr_t start, size_t bytes);
bool in_arena(uintptr_t address);
size_t live_count(Space space);
void release_context(Context& context);  // everything allocated in it, except what pools own
void register_range(uintptr_t start, size_t bytes, Context* context);
// A variable of a kernel image counts as device memory, as long as the image is loaded.
void register_global(uintptr_t start, size_t bytes, Context* context);
void forget_global(uintptr_t start);
// Where an address lies that something ran into: "16 bytes behind the allocation of …".
std::string describe(uintptr_t address);

// Addresses without memory behind them, for allocation nodes.
uintptr_t reserve_address(Device& device, size_t bytes);
void return_address(Device& device, uintptr_t start, size_t bytes);
CUresult graph_commit(GraphAllocation& allocation);
void graph_release(CUdeviceptr pointer);
GraphAllocation* graph_allocation(CUdeviceptr pointer);  // live or not
void remember_graph_allocation(GraphAllocation& allocation);
void forget_graph_allocation(uintptr_t address);

// Opens or closes all device memory by page protection, where the processor has no protection keys.
void protect_all(bool open);
// Applies a changed setting to what is allocated.
void reprotect_all();

}  // namespace memory
}  // namespace emulator
