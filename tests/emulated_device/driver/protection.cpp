#include "protection.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <mutex>

#include "control.h"
#include "kernel.h"
#include "memory.h"

namespace emulator {
namespace {

struct Guarded {
    sigjmp_buf back;
    volatile sig_atomic_t active = 0;
};

// Kept trivially initialised: the signal handler reads it.
thread_local Guarded* guarded = nullptr;
thread_local int open_depth = 0;

struct Settings {
    bool on = false;
    bool handler = false;
    int key = -1;          // protection key, where the processor has them: closes memory per thread
    long openers = 0;      // threads that execute now, without keys
    struct sigaction previous_segv {}, previous_bus {}, previous_fpe {};
};

Settings& settings() {
    static auto* instance = new Settings;
    return *instance;
}

void on_fault(int signal, siginfo_t* info, void* context) {
    if (guarded && guarded->active) {
        guarded->active = 0;
        siglongjmp(guarded->back, signal);
    }
    // Not ours: let whoever was there before report it.
    const Settings& s = settings();
    const struct sigaction& previous =
        signal == SIGSEGV ? s.previous_segv : signal == SIGBUS ? s.previous_bus : s.previous_fpe;
    if (previous.sa_flags & SA_SIGINFO) {
        if (previous.sa_sigaction) {
            previous.sa_sigaction(signal, info, context);
            return;
        }
    } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
        previous.sa_handler(signal);
        return;
    }
    ::signal(signal, SIG_DFL);  // the access is repeated and ends the process
    if (info->si_code <= 0) raise(signal);  // sent by somebody: there is no access to repeat
}

void key_rights(int key, unsigned rights) { pkey_set(key, rights); }

}  // namespace

namespace protection {

bool on() { return settings().on; }

void install_handler() {
    Settings& s = settings();
    if (s.handler) return;
    s.handler = true;
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &s.previous_segv);
    sigaction(SIGBUS, &action, &s.previous_bus);
    sigaction(SIGFPE, &action, &s.previous_fpe);
}

Open::Open() {
    Settings& s = settings();
    if (!s.on || open_depth++ > 0) return;
    if (s.key >= 0) {
        key_rights(s.key, 0);
    } else {
        Lock lock(driver_mutex());
        if (s.openers++ == 0) memory::protect_all(true);
    }
}

Open::~Open() {
    Settings& s = settings();
    if (!s.on || --open_depth > 0) return;
    if (s.key >= 0) {
        key_rights(s.key, PKEY_DISABLE_ACCESS);
    } else {
        Lock lock(driver_mutex());
        if (--s.openers == 0) memory::protect_all(false);
    }
}

void apply(void* start, size_t bytes, bool) {
    const Settings& s = settings();
    if (s.key >= 0)
        pkey_mprotect(start, bytes, PROT_READ | PROT_WRITE, s.on ? s.key : 0);
    else if (s.on && s.openers == 0)
        mprotect(start, bytes, PROT_NONE);
}

}  // namespace protection

CUresult run_protected(const Operation& operation, Work& work) {
    if (operation.on_host()) return operation.run(work);
    protection::install_handler();
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
        return result;
    }
    guarded = outer;
    if (kernel) block_executor::abandon();
    if (settings().on && settings().key >= 0) key_rights(settings().key, 0);  // a signal resets the thread's rights
    return fault == SIGFPE ? CUDA_ERROR_LAUNCH_FAILED : CUDA_ERROR_ILLEGAL_ADDRESS;
}

bool protection::try_copy(void* to, const void* from, size_t bytes) {
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

bool protection::set(bool on) {
    Settings& s = settings();
    if (s.key < 0 && on && !std::getenv("GRAPHCAP_EMULATED_NO_KEYS")) s.key = pkey_alloc(0, PKEY_DISABLE_ACCESS);
    const bool was = s.on;
    s.on = on;
    if (was != s.on) memory::reprotect_all();
    return was;
}

extern "C" EXPORT int graphcap_emulator_protection(int on) {
    protection::install_handler();
    Lock lock(driver_mutex());
    return protection::set(on != 0);
}

}  // namespace emulator
