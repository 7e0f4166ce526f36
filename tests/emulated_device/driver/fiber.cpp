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
// What a call must preserve goes onto the stack, and the stacks are exchanged:
//   void graphcap_go(void** save, void* to)                                      goes on with a stack that was left
//   void graphcap_begin(void** save, void* top, void (*main)(), void** home)     calls `main` on a new one, then goes home
// A kernel that never waits is so a call and a return, which the processor's prediction of returns follows.
extern "C" void graphcap_go(void** save, void* to);
extern "C" void graphcap_begin(void** save, void* top, void (*main)(), void** home);
asm(R"(
    .macro graphcap_save
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    .endm
    .macro graphcap_restore
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .endm

    .text
    .p2align 4
    .globl graphcap_go
    .hidden graphcap_go
    .type graphcap_go, @function
graphcap_go:
    graphcap_save
    movq %rsi, %rsp
    graphcap_restore
    .size graphcap_go, .-graphcap_go

    .p2align 4
    .globl graphcap_begin
    .hidden graphcap_begin
    .type graphcap_begin, @function
graphcap_begin:
    graphcap_save
    movq %rsi, %rsp
    movq %rcx, %rbx
    xorl %ebp, %ebp
    call *%rdx
    movq (%rbx), %rsp
    graphcap_restore
    .size graphcap_begin, .-graphcap_begin
)");
#endif

namespace emulator::fiber {
namespace {

constexpr size_t page = 4096, closed_bytes = size_t{4} << 20;

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
    // Where frames start is spread over a page and a half of cache lines: at the same place in all stacks, hundreds of
    // waiting threads would compete for the same few lines of the caches.
    constexpr size_t step = 320, places = 48;
    const size_t usable = stack_bytes() + step * places + page;
    const size_t mapped = (usable + page - 1) / page * page;
    void* base = mmap(nullptr, closed_bytes + mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) throw std::bad_alloc();
    char* stack = static_cast<char*>(base) + closed_bytes;
    if (mprotect(stack, mapped, PROT_READ | PROT_WRITE) != 0) {
        munmap(base, closed_bytes + mapped);
        throw std::bad_alloc();
    }
    auto* fiber = new Fiber;
    fiber->stack = stack;
    fiber->bytes = mapped;
    fiber->top = stack + mapped - 64 - p.all.size() % places * step;  // a multiple of 16
    p.all.push_back(fiber);
    return fiber;
}

}  // namespace

size_t stack_bytes() {
    Pool& p = pool();
    if (!p.bytes) p.bytes = wanted_bytes();
    return p.bytes;
}

Fiber* take(void (*main)(), Fiber& home) {
    Pool& p = pool();
    Fiber* fiber = p.taken < p.all.size() ? p.all[p.taken] : make_fiber();
    ++p.taken;
    fiber->main = main;
    fiber->home = &home;
#ifdef GRAPHCAP_UCONTEXT_FIBERS
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack;
    fiber->context.uc_stack.ss_size = static_cast<size_t>(fiber->top - fiber->stack) / 16 * 16;
    fiber->context.uc_link = nullptr;
    makecontext(&fiber->context, main, 0);
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
        if (address < stack && stack - address <= closed_bytes) return true;
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
    if (to.main) {
        void (*const main)() = to.main;
        to.main = nullptr;
        graphcap_begin(&from.stack_pointer, to.top, main, &to.home->stack_pointer);
    } else {
        graphcap_go(&from.stack_pointer, to.stack_pointer);
    }
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

void leaving([[maybe_unused]] Fiber& self) {
#ifdef __SANITIZE_ADDRESS__
    left = &self;
    __sanitizer_start_switch_fiber(nullptr, self.home->stack, self.home->bytes);
#endif
#ifdef GRAPHCAP_UCONTEXT_FIBERS
    setcontext(&self.home->context);
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
