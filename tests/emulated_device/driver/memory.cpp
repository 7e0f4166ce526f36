#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "protection.h"

namespace emulator {
namespace memory {
namespace {

constexpr size_t page = 4096;
constexpr size_t arena_bytes = size_t{64} << 30;  // addresses only; memory is taken as it is touched

struct Arena {
    uintptr_t start = 0;
    std::map<uintptr_t, size_t> free;  // page ranges
};

struct Tables {
    std::map<uintptr_t, Allocation> allocations;
    std::map<int, Arena> arenas;
    std::map<uintptr_t, GraphAllocation*> graph;
    uint64_t next_id = 1;
    struct Freed {
        uintptr_t start = 0;
        size_t bytes = 0;
    };
    Freed freed[256];  // the last ones, in a ring
    uint64_t freed_count = 0;
    size_t live[3] = {0, 0, 0};
};

Tables& tables() {
    static auto* instance = new Tables;
    return *instance;
}

size_t pages(size_t bytes) { return (bytes + page - 1) / page * page; }

Arena& arena(Device& device) {
    Arena& result = tables().arenas[device.ordinal];
    if (!result.start) {
        void* base = mmap(nullptr, arena_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base == MAP_FAILED) throw std::bad_alloc();
        result.start = reinterpret_cast<uintptr_t>(base);
        result.free[result.start] = arena_bytes;
    }
    return result;
}

// A range of whole pages with a closed page before it (the next range's, or the arena's end, is the one behind).
uintptr_t take(Arena& from, size_t bytes) {
    const size_t wanted = pages(bytes) + page;
    for (auto it = from.free.begin(); it != from.free.end(); ++it) {
        if (it->second < wanted + page) continue;
        const uintptr_t start = it->first;
        const size_t rest = it->second - wanted;
        from.free.erase(it);
        from.free[start + wanted] = rest;
        return start + page;
    }
    return 0;
}

void give_back(Arena& to, uintptr_t start, size_t bytes) {
    start -= page;
    bytes = pages(bytes) + page;
    auto next = to.free.lower_bound(start);
    if (next != to.free.end() && start + bytes == next->first) {
        bytes += next->second;
        next = to.free.erase(next);
    }
    if (next != to.free.begin()) {
        auto before = std::prev(next);
        if (before->first + before->second == start) {
            before->second += bytes;
            return;
        }
    }
    to.free[start] = bytes;
}

bool map_pages(uintptr_t start, size_t bytes) {
    if (mprotect(reinterpret_cast<void*>(start), pages(bytes), PROT_READ | PROT_WRITE) != 0) return false;
    protection::apply(reinterpret_cast<void*>(start), pages(bytes), false);
    return true;
}

void unmap_pages(uintptr_t start, size_t bytes) {
    mmap(reinterpret_cast<void*>(start), pages(bytes), PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

// Under protection an allocation ends where its last page ends (to the alignment), so that running past it is noticed.
uintptr_t place(uintptr_t first_page, size_t bytes) {
    if (!protection::on()) return first_page;
    return first_page + pages(bytes) - (bytes + alignment - 1) / alignment * alignment;
}

size_t accounted(size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

uintptr_t first_page_of(uintptr_t start) { return start / page * page; }

Allocation& enter(uintptr_t start, size_t bytes, Space space, Device* device) {
    Allocation allocation;
    allocation.start = start;
    allocation.bytes = bytes;
    allocation.space = space;
    allocation.device = device;
    allocation.context = current_context();
    allocation.id = tables().next_id++;
    ++tables().live[static_cast<int>(space)];
    return tables().allocations[start] = allocation;
}

}  // namespace

CUresult allocate(Device& device, size_t bytes, Space space, Allocation*& out) {
    if (space != Space::host && (bytes > device.limit || device.used + accounted(bytes) > device.limit))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (bytes > arena_bytes / 4) return CUDA_ERROR_OUT_OF_MEMORY;
    uintptr_t start;
    if (space == Space::device) {
        const uintptr_t first = take(arena(device), bytes);
        if (!first) return CUDA_ERROR_OUT_OF_MEMORY;
        if (!map_pages(first, bytes)) {
            give_back(arena(device), first, bytes);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        start = place(first, bytes);
    } else {
        void* base = mmap(nullptr, pages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
        start = reinterpret_cast<uintptr_t>(base);
    }
    if (space != Space::host) device.used += accounted(bytes);
    out = &enter(start, bytes, space, &device);
    return CUDA_SUCCESS;
}

void release(uintptr_t start) {
    auto found = tables().allocations.find(start);
    if (found == tables().allocations.end()) return;
    const Allocation allocation = found->second;
    if (allocation.global) return;
    tables().allocations.erase(found);
    if (!allocation.registered) tables().freed[tables().freed_count++ % 256] = {start, allocation.bytes};
    --tables().live[static_cast<int>(allocation.space)];
    Device& device = *allocation.device;
    if (allocation.space != Space::host) device.used -= accounted(allocation.bytes);
    if (allocation.pool) {
        allocation.pool->used -= accounted(allocation.bytes);
        allocation.pool->reserved -= accounted(allocation.bytes);
    }
    if (allocation.registered) return;
    if (allocation.space == Space::device) {
        const uintptr_t first = first_page_of(start);
        unmap_pages(first, allocation.bytes);
        if (allocation.graph) {
            allocation.graph->live = false;
            device.graph_used -= accounted(allocation.bytes);
            device.graph_reserved -= accounted(allocation.bytes);
        } else {
            give_back(arena(device), first, allocation.bytes);
        }
    } else {
        munmap(reinterpret_cast<void*>(start), pages(allocation.bytes));
    }
}

Allocation* containing(uintptr_t address) {
    auto& all = tables().allocations;
    auto next = all.upper_bound(address);
    if (next == all.begin()) return nullptr;
    Allocation& candidate = std::prev(next)->second;
    return address - candidate.start < candidate.bytes || (address == candidate.start) ? &candidate : nullptr;
}

Allocation* at(uintptr_t start) {
    auto found = tables().allocations.find(start);
    return found == tables().allocations.end() ? nullptr : &found->second;
}

bool covered(uintptr_t start, size_t bytes) {
    const Allocation* allocation = containing(start);
    return allocation && bytes <= allocation->bytes - (start - allocation->start);
}

namespace {
const GraphAllocation* graph_range(uintptr_t address) {
    auto next = tables().graph.upper_bound(address);
    if (next == tables().graph.begin()) return nullptr;
    const GraphAllocation* candidate = std::prev(next)->second;
    return address - candidate->address < candidate->bytes ? candidate : nullptr;
}
}  // namespace

bool planned(uintptr_t address) { return containing(address) || graph_range(address); }

bool planned(uintptr_t start, size_t bytes) {
    if (containing(start)) return covered(start, bytes);
    const GraphAllocation* range = graph_range(start);
    return range && bytes <= range->bytes - (start - range->address);
}

bool overlaps(uintptr_t start, size_t bytes) {
    const auto next = tables().allocations.lower_bound(start);
    return containing(start) || (next != tables().allocations.end() && next->first < start + bytes);
}

bool in_arena(uintptr_t address) {
    for (const auto& entry : tables().arenas)
        if (address - entry.second.start < arena_bytes) return true;
    return false;
}

size_t live_count(Space space) { return tables().live[static_cast<int>(space)]; }

void release_context(Context& context) {
    std::vector<uintptr_t> doomed;
    for (const auto& entry : tables().allocations)
        if (entry.second.context == &context && !entry.second.pool && !entry.second.graph && !entry.second.global) doomed.push_back(entry.first);
    for (uintptr_t start : doomed) release(start);
}

void register_range(uintptr_t start, size_t bytes, Context* context) {
    Allocation& allocation = enter(start, bytes, Space::host, context->device);
    allocation.registered = true;
    allocation.context = context;
}

void register_global(uintptr_t start, size_t bytes, Context* context) {
    Allocation allocation;
    allocation.start = start;
    allocation.bytes = bytes;
    allocation.device = context->device;
    allocation.context = context;
    allocation.global = true;
    allocation.id = tables().next_id++;
    tables().allocations[start] = allocation;
}

void forget_global(uintptr_t start) { tables().allocations.erase(start); }

std::string describe(uintptr_t address) {
    auto hex = [](uintptr_t value) {
        char text[24];
        std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
        return std::string(text);
    };
    auto range = [&](uintptr_t start, size_t bytes) { return std::to_string(bytes) + " bytes at " + hex(start); };
    if (const Allocation* inside = containing(address))
        return "inside the allocation of " + range(inside->start, inside->bytes) + " of device " +
               std::to_string(inside->device->ordinal);
    const Tables& t = tables();
    auto next = t.allocations.upper_bound(address);
    if (next != t.allocations.begin()) {
        const Allocation& before = std::prev(next)->second;
        const size_t past = address - before.start - before.bytes;
        if (past < page)  // the closed page that follows each allocation
            return std::to_string(past) + " bytes behind the end of the allocation of " + range(before.start, before.bytes);
    }
    for (uint64_t i = 0; i < std::min<uint64_t>(t.freed_count, 256); ++i) {
        const auto& freed = t.freed[(t.freed_count - 1 - i) % 256];
        if (address - freed.start < freed.bytes) return "inside an allocation that was freed, of " + range(freed.start, freed.bytes);
    }
    constexpr size_t near = 65536;
    if (next != t.allocations.end() && next->first - address < near)
        return std::to_string(next->first - address) + " bytes before the allocation of " + range(next->first, next->second.bytes);
    if (address < near) return "near address 0";
    return in_arena(address) ? "in no allocation" : "not memory of a device";
}

uintptr_t reserve_address(Device& device, size_t bytes) {
    if (bytes > arena_bytes / 4) return 0;
    const uintptr_t first = take(arena(device), bytes);
    return first ? place(first, bytes) : 0;
}

void return_address(Device& device, uintptr_t start, size_t bytes) {
    give_back(arena(device), first_page_of(start), bytes);
}

CUresult graph_commit(GraphAllocation& allocation) {
    Device& device = *allocation.device;
    if (allocation.live) release(allocation.address);
    const size_t size = accounted(allocation.bytes);
    if (device.used + size > device.limit) return CUDA_ERROR_OUT_OF_MEMORY;
    if (!map_pages(first_page_of(allocation.address), allocation.bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    device.used += size;
    device.graph_used += size;
    device.graph_reserved += size;
    device.graph_used_high = std::max(device.graph_used_high, device.graph_used);
    device.graph_reserved_high = std::max(device.graph_reserved_high, device.graph_reserved);
    Allocation& entry = enter(allocation.address, allocation.bytes, Space::device, &device);
    entry.graph = Ref<GraphAllocation>(&allocation);
    allocation.live = true;
    return CUDA_SUCCESS;
}

void graph_release(CUdeviceptr pointer) {
    Allocation* allocation = at(pointer);
    if (allocation && allocation->graph) release(pointer);
}

GraphAllocation* graph_allocation(CUdeviceptr pointer) {
    auto found = tables().graph.find(pointer);
    return found == tables().graph.end() ? nullptr : found->second;
}

void remember_graph_allocation(GraphAllocation& allocation) { tables().graph[allocation.address] = &allocation; }
void forget_graph_allocation(uintptr_t address) { tables().graph.erase(address); }

void protect_all(bool open) {
    for (auto& entry : tables().allocations) {
        const Allocation& allocation = entry.second;
        if (allocation.space != Space::device || allocation.global) continue;
        const uintptr_t first = first_page_of(allocation.start);
        mprotect(reinterpret_cast<void*>(first), pages(allocation.bytes), open ? PROT_READ | PROT_WRITE : PROT_NONE);
    }
}

void reprotect_all() {
    for (auto& entry : tables().allocations) {
        const Allocation& allocation = entry.second;
        if (allocation.space != Space::device || allocation.global) continue;
        void* first = reinterpret_cast<void*>(first_page_of(allocation.start));
        mprotect(first, pages(allocation.bytes), PROT_READ | PROT_WRITE);
        protection::apply(first, pages(allocation.bytes), false);
    }
}

}  // namespace memory

GraphAllocation::~GraphAllocation() {
    memory::forget_graph_allocation(address);
    memory::return_address(*device, address, bytes);
}

}  // namespace emulator
