// Stacks that kernels run on, and going from one to another.
//
// A stack has closed memory below it, so that a kernel which needs too much of it faults there and not in somebody else's
// memory. That is larger than any frame of a kernel that a GPU could run (local memory ends at 512 KiB).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#if !defined(__x86_64__) || defined(GRAPHCAP_PORTABLE_FIBERS)
#define GRAPHCAP_UCONTEXT_FIBERS
#include <ucontext.h>
#endif

namespace emulator {

struct Fiber {
    void* stack_pointer = nullptr;  // where it goes on, while it does not run
    char* stack = nullptr;          // lowest usable address; of the driver's own thread: null, or what the sanitizer found
    size_t bytes = 0;
    char* top = nullptr;  // where frames start; not the same in all stacks, see fiber.cpp
    void (*main)() = nullptr;      // what it begins with; null: it has begun
    Fiber* home = nullptr;         // what goes on when that returns
#ifdef GRAPHCAP_UCONTEXT_FIBERS
    ucontext_t context{};
#endif
};

namespace fiber {

// A stack from the pool, which will begin with `main`; `home` goes on when that has called `leaving` and returned.
Fiber* take(void (*main)(), Fiber& home);
// All stacks go back to the pool, whatever runs on them is forgotten. Called on the driver's own stack.
void forget_all();
// Whether the address is one just below a stack.
bool overflowed(uintptr_t address);
// Bytes of one stack.
size_t stack_bytes();

// Goes on with `to`; returns when something goes on with `from`.
void go(Fiber& from, Fiber& to);
// The first and the last thing to call in `main`.
void arrived();
void leaving(Fiber& self);
// After a jump out of a fault: the thread is on its own stack again.
void back_on(Fiber& native);

}  // namespace fiber
}  // namespace emulator
