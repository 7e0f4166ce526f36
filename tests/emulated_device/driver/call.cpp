#include "call.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <thread>

#include "control.h"

namespace emulator {

namespace {

struct Log {
    std::deque<graphcap_call> calls;
    std::deque<std::string> notes;
    uint64_t first = 0;  // serial number of calls.front()
};

Log& log() {
    static Log* instance = new Log;
    return *instance;
}

constexpr size_t log_capacity = 200000;

std::vector<Entry*>& entries() {
    static auto* all = new std::vector<Entry*>;
    return *all;
}

// Faults armed for functions that were not called yet, so have no entry.
struct Armed {
    long nth, latency_us;
    int code;
};
std::unordered_map<std::string, Armed>& armed() {
    static auto* all = new std::unordered_map<std::string, Armed>;
    return *all;
}

std::mutex& entries_mutex() {
    static auto* mutex = new std::mutex;
    return *mutex;
}

thread_local bool tls_per_thread = false;
thread_local bool tls_callback = false;
thread_local std::vector<std::function<void()>> tls_actions;

}  // namespace

std::mutex& driver_mutex() {
    static auto* mutex = new std::mutex;
    return *mutex;
}

GlobalState& state() {
    static auto* instance = new GlobalState;
    return *instance;
}

bool& null_stream_is_per_thread() { return tls_per_thread; }
bool& inside_callback() { return tls_callback; }

Entry::Entry(const char* function_name) : name(function_name) {
    std::lock_guard<std::mutex> guard(entries_mutex());
    entries().push_back(this);
    auto found = armed().find(function_name);
    if (found != armed().end()) {
        fail_code = found->second.code;
        fail_in = found->second.nth;
        latency_us = found->second.latency_us;
    }
}

void note(const std::string& message) {
    log().notes.push_back(message);
    if (log().notes.size() > 1000) log().notes.pop_front();
}

void after_unlock(std::function<void()> action) { tls_actions.push_back(std::move(action)); }

void run_after_unlock() {
    while (!tls_actions.empty()) {
        auto actions = std::move(tls_actions);
        tls_actions.clear();
        const bool outer = std::exchange(tls_callback, true);
        for (auto& action : actions) action();
        tls_callback = outer;
    }
}

namespace detail {

std::atomic<bool> logging{true};

CUresult before(const Entry& constant, Needs needs) {
    auto& entry = const_cast<Entry&>(constant);
    if (const long delay = entry.latency_us.load(std::memory_order_relaxed); delay > 0) {
        driver_mutex().unlock();
        std::this_thread::sleep_for(std::chrono::microseconds(delay));
        driver_mutex().lock();
    }
    if (entry.fail_in.load(std::memory_order_relaxed) > 0 && --entry.fail_in == 0)
        return static_cast<CUresult>(entry.fail_code.load());
    if (needs == Needs::nothing) return CUDA_SUCCESS;
    if (!state().initialised) return CUDA_ERROR_NOT_INITIALIZED;
    if (needs == Needs::context) {
        if (tls_callback) return CUDA_ERROR_NOT_PERMITTED;
        if (!current_context()) return CUDA_ERROR_INVALID_CONTEXT;
    }
    return CUDA_SUCCESS;
}

CUresult sticky_error() {
    const Context* context = current_context();
    return context ? context->sticky : CUDA_SUCCESS;
}

void log_call(const Entry& entry, const void* stream, CUresult result) {
    thread_local const auto thread = static_cast<uint64_t>(syscall(SYS_gettid));
    auto& calls = log().calls;
    calls.push_back({entry.name, thread, reinterpret_cast<uint64_t>(stream), static_cast<int>(result)});
    if (calls.size() > log_capacity) {
        calls.pop_front();
        ++log().first;
    }
}

void leave() {
    if (!tls_actions.empty()) run_after_unlock();
}

}  // namespace detail

namespace {
void arm(const char* name, const std::function<void(Entry&)>& present, const std::function<void(Armed&)>& absent) {
    std::lock_guard<std::mutex> guard(entries_mutex());
    for (Entry* entry : entries())
        if (!std::strcmp(entry->name, name)) present(*entry);
    auto& later = armed().emplace(name, Armed{0, 0, 0}).first->second;
    absent(later);
}
}  // namespace

extern "C" {

EXPORT void graphcap_emulator_fail(const char* name, long nth, int code) {
    arm(
        name,
        [&](Entry& entry) {
            entry.fail_code = code;
            entry.fail_in = nth;
        },
        [&](Armed& later) {
            later.code = code;
            later.nth = nth;
        });
}

EXPORT void graphcap_emulator_latency(const char* name, long microseconds) {
    arm(
        name, [&](Entry& entry) { entry.latency_us = microseconds; },
        [&](Armed& later) { later.latency_us = microseconds; });
}

EXPORT void graphcap_emulator_reset_faults(void) {
    {
        std::lock_guard<std::mutex> guard(entries_mutex());
        armed().clear();
        for (Entry* entry : entries()) {
            entry->fail_in = 0;
            entry->latency_us = 0;
        }
    }
    Lock lock(driver_mutex());
    state().contexts.each([](Context& context) { context.sticky = CUDA_SUCCESS; });
}

EXPORT uint64_t graphcap_emulator_calls(graphcap_call* out, uint64_t capacity) {
    Lock lock(driver_mutex());
    const auto& calls = log().calls;
    const size_t count = calls.size();
    if (out)
        for (size_t i = 0; i < count && i < capacity; ++i) out[i] = calls[i];
    return count;
}

EXPORT void graphcap_emulator_clear_calls(void) {
    Lock lock(driver_mutex());
    log().calls.clear();
    log().notes.clear();
}

EXPORT void graphcap_emulator_logging(int on) { detail::logging = on != 0; }

EXPORT uint64_t graphcap_emulator_note(uint64_t index, char* out, uint64_t capacity) {
    Lock lock(driver_mutex());
    const auto& notes = log().notes;
    if (index < notes.size() && out && capacity) {
        const auto& text = notes[index];
        const size_t length = std::min<size_t>(text.size(), capacity - 1);
        std::memcpy(out, text.data(), length);
        out[length] = 0;
    }
    return notes.size();
}

}  // extern "C"
}  // namespace emulator
