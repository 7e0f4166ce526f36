// The frame around every function of the driver: lock, fault injection, sticky errors, refusal inside callbacks, log.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>

#include "objects.h"

namespace emulator {

using Lock = std::unique_lock<std::mutex>;

std::mutex& driver_mutex();

// One per function; found by name when a test arms a fault.
struct Entry {
    explicit Entry(const char* function_name);
    const char* name;
    std::atomic<long> fail_in{0};  // the call that fails, counted from now; 0: none
    std::atomic<int> fail_code{0};
    std::atomic<long> latency_us{0};
};

enum class Needs {
    nothing,
    initialised,  // cuInit was called
    context,      // and a context is current, and no earlier fault is pending, and this is no callback
    release,      // destroys something: done in callbacks too, and in spite of an earlier fault, which it then returns
};

namespace detail {
CUresult before(const Entry& entry, Needs needs);
void log_call(const Entry& entry, const void* stream, CUresult result);
CUresult sticky_error();
void leave();
extern std::atomic<bool> logging;
}  // namespace detail

// Thread-local switch: the null stream of this call is the per-thread default stream.
bool& null_stream_is_per_thread();
bool& inside_callback();

// A message for the test's log, and the one behind the last failure.
void note(const std::string& message);
// Run when the lock has been released, on this thread: callbacks into client code.
void after_unlock(std::function<void()> action);
void run_after_unlock();

template <class F>
CUresult run_call(Entry& entry, Needs needs, const void* stream, F&& body) noexcept {
    CUresult result;
    {
        Lock lock(driver_mutex());
        result = detail::before(entry, needs);
        if (result == CUDA_SUCCESS) {
            const CUresult earlier =
                needs == Needs::context || needs == Needs::release ? detail::sticky_error() : CUDA_SUCCESS;
            if (earlier != CUDA_SUCCESS && needs != Needs::release) {
                result = earlier;
            } else {
                try {
                    result = body(lock);
                } catch (const std::bad_alloc&) {
                    result = CUDA_ERROR_OUT_OF_MEMORY;
                } catch (const std::exception& error) {
                    note(std::string(entry.name) + ": " + error.what());
                    result = CUDA_ERROR_UNKNOWN;
                }
                if (result == CUDA_SUCCESS && earlier != CUDA_SUCCESS) result = earlier;
            }
        }
        if (detail::logging.load(std::memory_order_relaxed)) detail::log_call(entry, stream, result);
    }
    detail::leave();
    return result;
}

}  // namespace emulator

// CUresult f(...) CALL(f, needs, stream) { body } END_CALL
#define CALL(function, needs, stream)                                 \
    {                                                                 \
        static ::emulator::Entry entry_{#function};                   \
        return ::emulator::run_call(entry_, ::emulator::Needs::needs, \
                                    static_cast<const void*>(stream), [&]([[maybe_unused]] ::emulator::Lock& lock) -> CUresult
#define END_CALL \
    );           \
    }
