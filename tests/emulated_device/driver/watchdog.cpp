// Ends grids that never end: kernels that spin on memory which no other thread will write, since one thread runs at a time.
//
// A thread of its own looks once a second at what runs. It sends a signal to the thread of a grid that has used too much
// processor time, and the handler leaves the kernel as it does for a fault (faults.cpp), if it interrupted the image's own
// code: that holds no lock.
#include "watchdog.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace emulator::watchdog {
namespace {

enum : uint64_t { idle = 0, looked_at = 1 };  // else: number of the grid, times two; `looked_at` is added meanwhile

std::atomic<uint64_t> running{idle};
std::atomic<pthread_t> runner;
std::atomic<bool> stop{false};
uint64_t grids = 0;

double processor_seconds(pthread_t thread) {
    clockid_t clock;
    timespec now;
    if (pthread_getcpuclockid(thread, &clock) != 0 || clock_gettime(clock, &now) != 0) return 0;
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

[[noreturn]] void watch() {
    uint64_t seen = idle;
    double begun = 0;
    for (;;) {
        std::this_thread::sleep_for(std::chrono::milliseconds(stop ? 10 : 500));
        uint64_t now = running;
        // While it is being looked at, the grid does not end, so its thread is there.
        if (now == idle || !running.compare_exchange_strong(now, now | looked_at)) continue;
        const double used = processor_seconds(runner);
        if (seen != now) {
            seen = now;
            begun = used;
        } else if (used - begun > limit_seconds()) {
            stop = true;
            pthread_kill(runner, SIGURG);
        }
        running = now;
    }
}

}  // namespace

double limit_seconds() {
    static const double seconds = [] {
        constexpr double usual = 300;
        const char* text = std::getenv("GRAPHCAP_EMULATED_TIMEOUT");
        if (!text || !*text) return usual;
        char* end = nullptr;
        const double value = std::strtod(text, &end);
        return *end || !(value >= 0) ? usual : value;
    }();
    return seconds;
}

void begin() {
    if (limit_seconds() == 0) return;
    static const bool started = [] {
        std::thread(watch).detach();
        return true;
    }();
    (void)started;
    runner.store(pthread_self(), std::memory_order_relaxed);
    running.store(grids += 2, std::memory_order_release);
}

void end() {
    if (running.load(std::memory_order_relaxed) == idle) return;
    uint64_t now = grids;
    while (!running.compare_exchange_weak(now, idle)) {
        now = grids;
        std::this_thread::yield();
    }
    stop.store(false, std::memory_order_relaxed);
}

bool wants_to_stop() { return stop; }

}  // namespace emulator::watchdog
