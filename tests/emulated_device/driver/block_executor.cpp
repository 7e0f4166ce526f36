// Runs a kernel's threads one after the other. A thread that reaches a barrier is set aside with its stack, and another
// stack goes on taking threads; so kernels without barriers cost a plain loop, and need not be known as such beforehand.
//
// The order of blocks, and of threads in a block, is drawn from the seed: a kernel that needs a barrier it does not have,
// or that races between blocks, gives different results under different seeds.
#include <sys/mman.h>
#include <ucontext.h>

#include <atomic>
#include <numeric>

#include "kernel.h"
#include "scheduler.h"

namespace emulator::block_executor {
namespace {

constexpr size_t stack_bytes = 256 * 1024;

struct Fiber {
    ucontext_t context{};
    void* stack = nullptr;
    graphcap_thread_state saved{};
};

struct Run {
    const KernelCode* code = nullptr;
    graphcap_thread_state* state = nullptr;
    void** parameters = nullptr;
    unsigned size[3] = {1, 1, 1};
    unsigned count = 1, taken = 0, finished = 0, waiting = 0;
    unsigned order_start = 0, order_step = 1;
    bool has_current = false;  // a thread is running (not set aside) on the current stack
    std::vector<Fiber*> runnable, parked, spare;
    Fiber native;
    Fiber* current = &native;
    bool native_idle = false;
    Launch* launch = nullptr;
    CUresult result = CUDA_SUCCESS;
    uint64_t random = 1;
};

Run& run_state() {
    static auto* instance = new Run;
    return *instance;
}

uint64_t draw() {
    auto& x = run_state().random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return x;
}

// A permutation of n elements: i -> (start + i * step) mod n.
void draw_order(unsigned n, unsigned& start, unsigned& step) {
    if (n <= 1) {
        start = 0;
        step = 1;
        return;
    }
    start = static_cast<unsigned>(draw() % n);
    do step = 1 + static_cast<unsigned>(draw() % (n - 1 ? n - 1 : 1));
    while (std::gcd(step, n) != 1);
}

void release_barrier() {
    Run& r = run_state();
    r.runnable.insert(r.runnable.end(), r.parked.begin(), r.parked.end());
    r.parked.clear();
    r.waiting = 0;
}

void fiber_main();

Fiber* fresh_fiber() {
    Run& r = run_state();
    Fiber* fiber;
    if (r.spare.empty()) {
        fiber = new Fiber;
        void* base = mmap(nullptr, stack_bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base == MAP_FAILED) throw std::bad_alloc();
        mprotect(base, 4096, PROT_NONE);
        fiber->stack = static_cast<char*>(base) + 4096;
    } else {
        fiber = r.spare.back();
        r.spare.pop_back();
    }
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack;
    fiber->context.uc_stack.ss_size = stack_bytes;
    fiber->context.uc_link = nullptr;
    makecontext(&fiber->context, fiber_main, 0);
    return fiber;
}

void switch_to(Fiber* next) {
    Run& r = run_state();
    Fiber* previous = r.current;
    previous->saved = *r.state;
    r.current = next;
    swapcontext(&previous->context, &next->context);
    *run_state().state = run_state().current->saved;
}

// What runs next when the current stack cannot go on.
Fiber* choose() {
    Run& r = run_state();
    if (!r.runnable.empty()) {
        const size_t pick = draw() % r.runnable.size();
        Fiber* fiber = r.runnable[pick];
        r.runnable[pick] = r.runnable.back();
        r.runnable.pop_back();
        return fiber;
    }
    if (r.taken < r.count) return fresh_fiber();
    return r.native_idle ? &r.native : nullptr;
}

int next_thread() {
    Run& r = run_state();
    if (r.has_current) {
        ++r.finished;
        r.has_current = false;
        if (r.waiting && r.waiting == r.count - r.finished) release_barrier();
    }
    if (r.taken == r.count) return 0;
    const unsigned n = static_cast<unsigned>((r.order_start + static_cast<uint64_t>(r.taken++) * r.order_step) % r.count);
    r.state->thread[0] = n % r.size[0];
    r.state->thread[1] = n / r.size[0] % r.size[1];
    r.state->thread[2] = n / (r.size[0] * r.size[1]);
    r.has_current = true;
    return 1;
}

void barrier() {
    Run& r = run_state();
    ++r.waiting;
    if (r.waiting == r.count - r.finished) {
        release_barrier();
        return;
    }
    r.parked.push_back(r.current);
    r.has_current = false;
    Fiber* next = choose();
    switch_to(next);
    run_state().has_current = true;
}

void set_condition(graphcap_condition handle, unsigned value) {
    Run& r = run_state();
    Lock lock(driver_mutex());
    if (r.launch) {
        auto found = r.launch->conditions.find(handle);
        if (found != r.launch->conditions.end()) {
            found->second = value;
            return;
        }
    }
    note("a kernel set a conditional handle that its graph does not have");
    r.result = CUDA_ERROR_LAUNCH_FAILED;
}

const graphcap_services services = {next_thread, barrier, set_condition, nullptr, nullptr, nullptr};

void fiber_main() {
    Run& r = run_state();
    r.code->entry->run(r.parameters);
    Fiber* self = r.current;
    Fiber* next = choose();
    r.spare.push_back(self);
    r.current = next;
    setcontext(&next->context);
}

void run_block() {
    Run& r = run_state();
    r.taken = r.finished = r.waiting = 0;
    r.has_current = false;
    r.native_idle = false;
    draw_order(r.count, r.order_start, r.order_step);
    r.code->entry->run(r.parameters);
    while (r.finished < r.count) {  // some threads were set aside
        r.native_idle = true;
        switch_to(choose());
        r.native_idle = false;
    }
}

}  // namespace

std::mutex& mutex() {
    static auto* instance = new std::mutex;
    return *instance;
}

namespace {
std::atomic<uint64_t> next_seed{1};  // 0: none; taken over by the next grid, so that setting it needs no lock
}

void seed(uint64_t value) { next_seed = value * 0x9E3779B97F4A7C15u | 1; }

void abandon() {
    Run& r = run_state();
    auto reuse = [&](Fiber* fiber) {
        if (fiber != &r.native) r.spare.push_back(fiber);
    };
    for (Fiber* fiber : r.parked) reuse(fiber);
    for (Fiber* fiber : r.runnable) reuse(fiber);
    reuse(r.current);
    r.parked.clear();
    r.runnable.clear();
    r.current = &r.native;
    r.launch = nullptr;
}

CUresult run(const KernelCode& code, const unsigned grid[3], const unsigned block[3], size_t shared, void** parameters,
             Work& work) {
    Run& r = run_state();
    if (const uint64_t fresh = next_seed.exchange(0)) r.random = fresh;
    r.code = &code;
    r.state = code.image->table->state;
    *code.image->table->services = &services;
    r.parameters = parameters;
    r.launch = work.is_launch() ? static_cast<Launch*>(&work) : nullptr;
    r.result = CUDA_SUCCESS;
    r.current = &r.native;
    r.count = block[0] * block[1] * block[2];
    std::vector<unsigned char> dynamic(shared);
    r.state->shared = dynamic.data();
    r.state->shared_bytes = shared;
    for (int i = 0; i < 3; ++i) {
        r.size[i] = r.state->block_size[i] = block[i];
        r.state->grid[i] = grid[i];
    }
    const uint64_t blocks = static_cast<uint64_t>(grid[0]) * grid[1] * grid[2];
    unsigned start = 0, step = 1;
    if (blocks <= 0xffffffffu) draw_order(static_cast<unsigned>(blocks), start, step);
    for (uint64_t i = 0; i < blocks; ++i) {
        const uint64_t n = (start + i * step) % blocks;
        r.state->block[0] = static_cast<unsigned>(n % grid[0]);
        r.state->block[1] = static_cast<unsigned>(n / grid[0] % grid[1]);
        r.state->block[2] = static_cast<unsigned>(n / (static_cast<uint64_t>(grid[0]) * grid[1]));
        run_block();
    }
    r.launch = nullptr;
    return r.result;
}

}  // namespace emulator::block_executor
