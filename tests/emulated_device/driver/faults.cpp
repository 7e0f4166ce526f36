#include "faults.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cstdio>
#include <cstring>
#include <mutex>

#include "fiber.h"
#include "kernel.h"
#include "memory.h"
#include "protection.h"
#include "watchdog.h"

namespace emulator {
namespace {

struct Guarded {
    sigjmp_buf back;
    volatile sig_atomic_t active = 0;
    uintptr_t address = 0;
    bool write = false;
};

// Kept trivially initialised: the signal handler reads it.
thread_local Guarded* guarded = nullptr;

constexpr int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGURG};  // the last one is the watchdog's
constexpr int signal_count = 5;
struct sigaction previous_actions[signal_count];

uintptr_t interrupted_at([[maybe_unused]] const void* context) {
#if defined(__x86_64__)
    return static_cast<uintptr_t>(static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
    return static_cast<uintptr_t>(static_cast<const ucontext_t*>(context)->uc_mcontext.pc);
#else
    return 0;
#endif
}

bool is_write([[maybe_unused]] const void* context) {
#if defined(__x86_64__)
    return static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & 2;
#else
    return false;
#endif
}

void on_fault(int signal, siginfo_t* info, void* context) {
    if (signal == SIGURG && guarded && guarded->active && watchdog::wants_to_stop()) {
        if (!block_executor::in_kernel(interrupted_at(context))) return;  // the watchdog comes again
        guarded->active = 0;
        siglongjmp(guarded->back, signal);
    }
    if (guarded && guarded->active && info->si_code > 0 && signal != SIGURG) {  // not one that somebody sent
        if (signal == SIGFPE) {
            protection::reopen();  // the divisor may lie in device memory; going back restores what was
            if (division::settle(context)) return;
        }
        guarded->active = 0;
        guarded->address = reinterpret_cast<uintptr_t>(info->si_addr);
        guarded->write = is_write(context);
        siglongjmp(guarded->back, signal);
    }
    // Not ours: let whoever was there before report it.
    struct sigaction previous {};
    for (int i = 0; i < signal_count; ++i)
        if (signals[i] == signal) previous = previous_actions[i];
    if (previous.sa_flags & SA_SIGINFO) {
        if (previous.sa_sigaction) {
            previous.sa_sigaction(signal, info, context);
            return;
        }
    } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
        previous.sa_handler(signal);
        return;
    }
    if (signal == SIGURG) return;  // ignored by default
    ::signal(signal, SIG_DFL);  // the access is repeated and ends the process
    if (info->si_code <= 0) raise(signal);  // sent by somebody: there is no access to repeat
}

// A stack for the handler, so that a kernel that has used up its own can still be told of. Threads that have one keep it.
class HandlerStack {
  public:
    HandlerStack() {
        stack_t now{};
        if (sigaltstack(nullptr, &now) != 0 || !(now.ss_flags & SS_DISABLE)) return;
        void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base == MAP_FAILED) return;
        own_.ss_sp = base;
        own_.ss_size = bytes;
        sigaltstack(&own_, nullptr);
    }
    ~HandlerStack() {
        if (!own_.ss_sp) return;
        stack_t now{};
        if (sigaltstack(nullptr, &now) != 0 || now.ss_sp != own_.ss_sp) return;  // somebody else's by now: ours stays mapped
        stack_t off{};
        off.ss_flags = SS_DISABLE;
        sigaltstack(&off, nullptr);
        munmap(own_.ss_sp, bytes);
    }

  private:
    static constexpr size_t bytes = 128 * 1024;
    stack_t own_{};
};

void prepare_thread() {
    thread_local HandlerStack stack;
    (void)stack;
}

std::string explain(int signal, const Guarded& guard) {
    if (signal == SIGFPE) return "an arithmetic fault";
    if (signal == SIGILL) return "a trap";
    char text[64];
    std::snprintf(text, sizeof text, "%s 0x%llx, ", guard.write ? "write to" : "access to",
                  static_cast<unsigned long long>(guard.address));
    if (block_executor::behind_shared(guard.address)) return text + std::string("behind the dynamic shared memory of the block");
    Lock lock(driver_mutex());
    return text + memory::describe(guard.address);
}

}  // namespace

namespace faults {

void install_handler() {
    static const bool installed = [] {
        struct sigaction action {};
        action.sa_sigaction = on_fault;
        action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
        sigemptyset(&action.sa_mask);
        for (int i = 0; i < signal_count; ++i) {
            if (signals[i] == SIGURG) action.sa_flags |= SA_RESTART;
            sigaction(signals[i], &action, &previous_actions[i]);
        }
        return true;
    }();
    (void)installed;
}

bool try_copy(void* to, const void* from, size_t bytes) {
    install_handler();
    Guarded guard;
    Guarded* const outer = guarded;
    if (sigsetjmp(guard.back, 0) != 0) {
        guarded = outer;
        return false;
    }
    guard.active = 1;
    guarded = &guard;
    std::memcpy(to, from, bytes);
    guard.active = 0;
    guarded = outer;
    return true;
}

}  // namespace faults

CUresult run_protected(const Operation& operation, Work& work, std::string& trouble) {
    if (operation.on_host()) return operation.run(work);
    faults::install_handler();
    prepare_thread();
    protection::Open open;
    std::unique_lock<std::mutex> one_grid(block_executor::mutex(), std::defer_lock);
    const bool kernel = operation.type == CU_GRAPH_NODE_TYPE_KERNEL;
    if (kernel) one_grid.lock();
    Guarded guard;
    Guarded* const outer = guarded;
    const int fault = sigsetjmp(guard.back, 0);
    if (fault == 0) {
        guard.active = 1;
        guarded = &guard;
        const CUresult result = operation.run(work);
        guard.active = 0;
        guarded = outer;
        if (result != CUDA_SUCCESS && kernel) trouble = block_executor::trouble();
        return result;
    }
    guarded = outer;
    protection::reopen();
    std::string where;
    if (kernel) where = block_executor::abandon();
    if (kernel && (fault == SIGSEGV || fault == SIGBUS) && fiber::overflowed(guard.address)) {
        trouble = where + "stack overflow (" + std::to_string(fiber::stack_bytes()) +
                  " bytes, see GRAPHCAP_EMULATED_STACK)";
        return CUDA_ERROR_HARDWARE_STACK_ERROR;
    }
    if (fault == SIGURG) {
        trouble = where + "it does not end; threads that spin on memory wait for ever here (see GRAPHCAP_EMULATED_TIMEOUT)";
        return CUDA_ERROR_LAUNCH_TIMEOUT;
    }
    trouble = where + explain(fault, guard);
    return fault == SIGFPE || fault == SIGILL ? CUDA_ERROR_LAUNCH_FAILED : CUDA_ERROR_ILLEGAL_ADDRESS;
}

}  // namespace emulator
