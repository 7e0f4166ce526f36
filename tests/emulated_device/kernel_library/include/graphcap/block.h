/* Barriers and fences, clocks, and the ways in which a kernel ends with an error. */
#ifndef GRAPHCAP_BLOCK_H
#define GRAPHCAP_BLOCK_H

GRAPHCAP_FUNCTION void __syncthreads() { graphcap_service->barrier(); }

GRAPHCAP_FUNCTION int __syncthreads_count(int predicate) {
    unsigned arrived;
    return (int)graphcap_service->barrier_count(predicate != 0, &arrived);
}
GRAPHCAP_FUNCTION int __syncthreads_and(int predicate) {
    unsigned arrived;
    const unsigned count = graphcap_service->barrier_count(predicate != 0, &arrived);
    return count == arrived;
}
GRAPHCAP_FUNCTION int __syncthreads_or(int predicate) {
    unsigned arrived;
    return graphcap_service->barrier_count(predicate != 0, &arrived) != 0;
}

/* Threads take turns on one processor, so memory is always in order; the compiler has to be told. */
GRAPHCAP_FUNCTION void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
GRAPHCAP_FUNCTION void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
GRAPHCAP_FUNCTION void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

namespace graphcap_detail {

[[noreturn]] GRAPHCAP_FUNCTION void fault(int code, const char *message) {
    graphcap_service->fault(code, message);
    __builtin_unreachable();
}
[[noreturn]] GRAPHCAP_FUNCTION void unsupported(const char *message) { fault(GRAPHCAP_FAULT_TRAP, message); }

GRAPHCAP_FUNCTION unsigned long long nanoseconds() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}

}  // namespace graphcap_detail

GRAPHCAP_FUNCTION void __trap() { graphcap_detail::fault(GRAPHCAP_FAULT_TRAP, "__trap()"); }
GRAPHCAP_FUNCTION void __brkpt() {}
GRAPHCAP_FUNCTION void __prof_trigger(int) {}

/* assert() of <assert.h> ends here. The linker binds it inside the module (-Bsymbolic), so the process keeps its own. */
extern "C" __attribute__((noreturn)) inline __attribute__((used)) void __assert_fail(const char *assertion, const char *file,
                                                                                     unsigned line, const char *function) noexcept {
    static char text[1024];
    snprintf(text, sizeof text, "%s:%u: %s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%s` failed.", file, line, function,
             graphcap_state.block[0], graphcap_state.block[1], graphcap_state.block[2], graphcap_state.thread[0],
             graphcap_state.thread[1], graphcap_state.thread[2], assertion);
    graphcap_detail::fault(GRAPHCAP_FAULT_ASSERT, text);
}
#define __assertfail(message, file, line, function, size) __assert_fail(message, file, line, function)

/* clock() is the C library's. One tick of clock64() is a nanosecond. */
GRAPHCAP_FUNCTION long long clock64() { return (long long)graphcap_detail::nanoseconds(); }
GRAPHCAP_FUNCTION unsigned long long __globaltimer() { return graphcap_detail::nanoseconds(); }
GRAPHCAP_FUNCTION void __nanosleep(unsigned) {}

#endif
