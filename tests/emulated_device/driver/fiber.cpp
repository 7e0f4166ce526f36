#include "fiber.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#ifndef GRAPHCAP_UCONTEXT_FIBERS
// void graphcap_go(void** save, void* to): what a call must preserve goes onto the stack, and the stacks are exchanged.
extern "C" void graphcap_go(void** save, void* to);
asm(R"(
    .text
    .p2align 4
    .globl graphcap_go
    .hidden graphcap_go
    .type graphcap_go, @function
graphcap_go:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size graphcap_go, .-graphcap_go
)");
#endif

namespace emulator::fiber {
namespace {

constexpr size_t page = 4096;

struct Pool {
    std::vector<Fiber*> all;
    size_t taken = 0;  // of them, the first ones: the same stacks are used again and stay in the caches
    size_t bytes = 0;
};

Pool& pool() {
    static auto* instance = new Pool;
    return *instance;
}

size_t wanted_bytes() {
    constexpr size_t usual = 512 * 1024, least = 16 * 1024, most = size_t{1} << 30;
    const char* text = std::getenv("GRAPHCAP_EMULATED_STACK");
    if (!text || !*text) return usual;
    char* end = nullptr;
    errno = 0;
    const unsigned long long value = std::strtoull(text, &end, 0);
    if (errno || *end || value < least || value > most) return usual;
    return (value + page - 1) / page * page;
}

Fiber* make_fiber() {
    Pool& p = pool();
    const size_t bytes = stack_bytes();
    // Where frames start is spread over a page and a half of cache lines: at the same place in all stacks, hundreds of
    // waiting threads would compete for the same few lines of the caches.
    constexpr size_t step = 320, places = 48;
    const size_t usable = bytes + step * places + page;
    const size_t mapped = (usable + page - 1) / page * page;
    void* base = mmap(nullptr, bytes + mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) throw std::bad_alloc();
    char* stack = static_cast<char*>(base) + bytes;
    if (mprotect(stack, mapped, PROT_READ | PROT_WRITE) != 0) {
        munmap(base, bytes + mapped);
        throw std::bad_alloc();
    }
    auto* fiber = new Fiber;
    fiber->stack = stack;
    fiber->bytes = mapped;
    fiber->top = stack + mapped - 64 - p.all.size() % places * step;
    p.all.push_back(fiber);
    return fiber;
}

}  // namespace

size_t stack_bytes() {
    Pool& p = pool();
    if (!p.bytes) p.bytes = wanted_bytes();
    return p.bytes;
}

Fiber* take(void (*main)()) {
    Pool& p = pool();
    Fiber* fiber = p.taken < p.all.size() ? p.all[p.taken] : make_fiber();
    ++p.taken;
#ifdef GRAPHCAP_UCONTEXT_FIBERS
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack;
    fiber->context.uc_stack.ss_size = static_cast<size_t>(fiber->top - fiber->stack) / 16 * 16;
    fiber->context.uc_link = nullptr;
    makecontext(&fiber->context, main, 0);
#else
    // As `graphcap_go` leaves a stack: six registers, then where to return to; above that a null for `main` to return to.
    auto** top = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(fiber->top) / 16 * 16);
    *--top = nullptr;
    *--top = reinterpret_cast<void*>(main);
    for (int i = 0; i < 6; ++i) *--top = nullptr;
    fiber->stack_pointer = top;
#endif
    return fiber;
}

void forget_all() {
    Pool& p = pool();
#ifdef __SANITIZE_ADDRESS__
    for (size_t i = 0; i < p.taken; ++i) __asan_unpoison_memory_region(p.all[i]->stack, p.all[i]->bytes);
#endif
    p.taken = 0;
}

bool overflowed(uintptr_t address) {
    for (const Fiber* fiber : pool().all) {
        const auto stack = reinterpret_cast<uintptr_t>(fiber->stack);
        if (address < stack && stack - address <= stack_bytes()) return true;
    }
    return false;
}

#ifdef __SANITIZE_ADDRESS__
namespace {
Fiber* left = nullptr;  // the stack that was left last; only one grid runs at a time
}
#endif

void go(Fiber& from, Fiber& to) {
#ifdef __SANITIZE_ADDRESS__
    void* fake = nullptr;
    left = &from;
    __sanitizer_start_switch_fiber(&fake, to.stack, to.bytes);
#endif
#ifdef GRAPHCAP_UCONTEXT_FIBERS
    swapcontext(&from.context, &to.context);
#else
    graphcap_go(&from.stack_pointer, to.stack_pointer);
#endif
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

void arrived() {
#ifdef __SANITIZE_ADDRESS__
    const void* bottom = nullptr;
    size_t bytes = 0;
    __sanitizer_finish_switch_fiber(nullptr, &bottom, &bytes);
    if (!left->stack) {
        left->stack = static_cast<char*>(const_cast<void*>(bottom));
        left->bytes = bytes;
    }
#endif
}

void back_on([[maybe_unused]] Fiber& native) {
#ifdef __SANITIZE_ADDRESS__
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, native.stack, native.bytes);
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

}  // namespace emulator::fiber
