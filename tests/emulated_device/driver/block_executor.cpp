// Runs a grid: the driver's side of the services that a kernel image calls (see block.h for how).
#include "block.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "scheduler.h"
#include "watchdog.h"

namespace emulator::block_executor {
namespace {

void set_condition(graphcap_condition handle, unsigned value) {
    Lock lock(driver_mutex());
    if (grid.launch) {
        auto found = grid.launch->conditions.find(handle);
        if (found != grid.launch->conditions.end()) {
            found->second = value;
            return;
        }
    }
    note("a kernel set a conditional handle that its graph does not have");
    grid.result = CUDA_ERROR_LAUNCH_FAILED;
}

void fault(int code, const char* message) {
    grid.trouble = block::place() + ": " + (message ? message : "fault");
    block::fail(static_cast<CUresult>(code));
}

const graphcap_services services = {block::next_run, block::barrier, set_condition, block::barrier_count, warp::meet, fault};

// Dynamic shared memory ends where a closed page begins, to the alignment.
constexpr size_t shared_bytes = 256 * 1024, shared_alignment = 128;

char* shared_end() {
    static char* const end = [] {
        void* base = mmap(nullptr, shared_bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base == MAP_FAILED) throw std::bad_alloc();
        mprotect(static_cast<char*>(base) + shared_bytes, 4096, PROT_NONE);
        return static_cast<char*>(base) + shared_bytes;
    }();
    return end;
}

void* shared_memory(size_t bytes) {
    char* start = shared_end() - (bytes + shared_alignment - 1) / shared_alignment * shared_alignment;
    if (grid.shuffled) std::memset(start, 0xFF, bytes);  // it is not initialised; NaN, or -1
    return start;
}

std::atomic<bool> seeded{false};
std::atomic<uint64_t> next_seed{0};  // taken over by the next grid, so that setting it needs no lock

// Back to a state in which the next grid can run.
void settle() {
    watchdog::end();
    grid.current = &grid.native;
    grid.idle.clear();
    grid.launch = nullptr;
    grid.run = nullptr;
    if (grid.waits) {
        warp::forget_all();
        grid.waits = false;
        grid.ready_warps = grid.warp = 0;
    }
    grid.waiting = grid.predicates = 0;
    fiber::forget_all();
}

}  // namespace

std::mutex& mutex() {
    static auto* instance = new std::mutex;
    return *instance;
}

void seed(uint64_t value) {
    next_seed = value;
    seeded = true;
}

std::string abandon() {
    std::string where;
    if (grid.current != &grid.native) {
        fiber::back_on(grid.native);
        where = block::place() + ": ";
    }
    settle();
    return where;
}

bool in_kernel(uintptr_t address) {
    if (grid.current == &grid.native) return false;
    const Image& image = *grid.code->image;
    return address >= image.low && address < image.high;
}

bool behind_shared(uintptr_t address) { return address - reinterpret_cast<uintptr_t>(shared_end()) < 4096; }

std::string trouble() { return std::exchange(grid.trouble, {}); }

// The negative control of the tests: grids are taken, ordered and captured, and nothing of them runs.
static bool kernels_left_out() {
    static const bool wanted = [] {
        const char* setting = std::getenv("GRAPHCAP_EMULATED_NO_KERNELS");
        return setting && *setting && std::strcmp(setting, "0");
    }();
    return wanted;
}

CUresult run(const KernelCode& code, const unsigned size[3], const unsigned block[3], size_t shared, void** parameters,
             Work& work) {
    if (kernels_left_out()) return CUDA_SUCCESS;
    if (seeded.load(std::memory_order_relaxed) && seeded.exchange(false)) order::seed(next_seed);
    grid.code = &code;
    grid.state = code.image->table->state;
    *code.image->table->services = &services;
    grid.parameters = parameters;
    grid.launch = work.is_launch() ? static_cast<Launch*>(&work) : nullptr;
    grid.result = CUDA_SUCCESS;
    grid.native.stack = nullptr;  // of this thread, now
    grid.state->shared = shared_memory(shared);
    grid.state->shared_bytes = shared;
    for (int i = 0; i < 3; ++i) grid.size[i] = grid.state->grid[i] = size[i];
    grid.blocks = uint64_t{size[0]} * size[1] * size[2];
    grid.blocks_begun = 0;
    order::arrange(block);
    watchdog::begin();
    block::run_grid();
    const CUresult result = grid.result;
    settle();
    return result;
}

}  // namespace emulator::block_executor
