/* Test kernels are written once, in the common subset of C and CUDA C, and include this header.
 *
 * On a GPU the text is compiled by NVRTC (or nvcc) as it stands. For the emulated device the host compiler builds a shared
 * object that exports a table of its kernels: names, parameter layouts, entry points. The driver loads that object.
 *
 * A kernel file looks like this:
 *
 *     #include "graphcap_kernel.h"
 *
 *     GRAPHCAP_KERNEL void fill(float *out, float value, int n)
 *     {
 *         int i = GRAPHCAP_GLOBAL_X;
 *         if (i < n) out[i] = value;
 *     }
 *     GRAPHCAP_EXPORT(fill)
 *
 * Every block runs alone, so block-shared arrays are ordinary static arrays here.
 */
#ifndef GRAPHCAP_KERNEL_H
#define GRAPHCAP_KERNEL_H

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

typedef unsigned long long graphcap_condition;

extern "C" __device__ __cudart_builtin__ void CUDARTAPI cudaGraphSetConditional(graphcap_condition handle, unsigned int value);

#define GRAPHCAP_KERNEL extern "C" __global__
#define GRAPHCAP_DEVICE __device__
#define GRAPHCAP_EXPORT(name)
#define GRAPHCAP_SHARED __shared__
#define GRAPHCAP_DYNAMIC_SHARED(type, name) extern __shared__ type name[]
#define GRAPHCAP_THREAD_X threadIdx.x
#define GRAPHCAP_THREAD_Y threadIdx.y
#define GRAPHCAP_THREAD_Z threadIdx.z
#define GRAPHCAP_BLOCK_X blockIdx.x
#define GRAPHCAP_BLOCK_Y blockIdx.y
#define GRAPHCAP_BLOCK_Z blockIdx.z
#define GRAPHCAP_BLOCK_SIZE_X blockDim.x
#define GRAPHCAP_BLOCK_SIZE_Y blockDim.y
#define GRAPHCAP_BLOCK_SIZE_Z blockDim.z
#define GRAPHCAP_GRID_X gridDim.x
#define GRAPHCAP_GRID_Y gridDim.y
#define GRAPHCAP_GRID_Z gridDim.z
#define GRAPHCAP_BARRIER() __syncthreads()
#define GRAPHCAP_BARRIER_COUNT(predicate) __syncthreads_count(predicate)
#define GRAPHCAP_BARRIER_AND(predicate) __syncthreads_and(predicate)
#define GRAPHCAP_BARRIER_OR(predicate) __syncthreads_or(predicate)
#define GRAPHCAP_WARP_BARRIER(mask) __syncwarp(mask)
#define GRAPHCAP_SHUFFLE(mask, value, lane) __shfl_sync((mask), (value), (lane))
#define GRAPHCAP_SHUFFLE_XOR(mask, value, bits) __shfl_xor_sync((mask), (value), (bits))
#define GRAPHCAP_SHUFFLE_UP(mask, value, by) __shfl_up_sync((mask), (value), (by))
#define GRAPHCAP_SHUFFLE_DOWN(mask, value, by) __shfl_down_sync((mask), (value), (by))
#define GRAPHCAP_BALLOT(mask, predicate) __ballot_sync((mask), (predicate))
#define GRAPHCAP_TRAP() __trap()
#define GRAPHCAP_ASSERT(condition) assert(condition)
#define GRAPHCAP_VARIABLE __device__
#define GRAPHCAP_CONSTANT __constant__
#define GRAPHCAP_SET_CONDITION(handle, value) cudaGraphSetConditional((handle), (value))

#else /* the host compiler */

#include <stddef.h>

#define GRAPHCAP_IMAGE_MAGIC 0x67637031u /* "gcp1" */
#define GRAPHCAP_IMAGE_VERSION 3u

typedef unsigned long long graphcap_condition;

/* One thread of a block. */
typedef struct graphcap_thread_index {
    unsigned thread[3];
    unsigned linear; /* its number in the block: x first, then y, then z */
} graphcap_thread_index;

/* Where the running thread is; the driver's block executor and the loop below write it. */
typedef struct graphcap_thread_state {
    unsigned thread[3], linear, block[3], block_size[3], grid[3];
    void *shared;
    size_t shared_bytes; /* of dynamic shared memory */
    /* The threads that the loop works through. One that has to wait takes the rest out of the loop's hands, by moving `end`
       to just behind itself. */
    const graphcap_thread_index *current, *end;
} graphcap_thread_state;

/* What the lanes of a warp gave at a meeting. */
typedef struct graphcap_lanes {
    unsigned long long values[32];
    unsigned present; /* one bit per lane that took part; the values of the others are undefined */
    unsigned nonzero; /* one bit per lane that took part with a value that is not 0 */
} graphcap_lanes;

enum { GRAPHCAP_FAULT_ASSERT = 710, GRAPHCAP_FAULT_TRAP = 719, GRAPHCAP_FAULT_ADDRESS = 700 }; /* as CUresult counts them */

/* What the driver does for a running kernel. */
typedef struct graphcap_services {
    int (*next_run)(void); /* gives threads to run, from `current` to `end`; 0 when the whole grid has been given out */
    void (*barrier)(void);
    void (*set_condition)(graphcap_condition handle, unsigned value);
    /* A barrier that tells how many of the threads that came brought a predicate that is not 0, and how many came. */
    unsigned (*barrier_count)(unsigned predicate, unsigned *arrived);
    /* Lanes of the caller's warp meet: those of the mask that have not returned. What is given back is the caller's until its
       next meeting. A lane that is not in its own mask, or a meeting that can never be complete, is a fault. */
    const graphcap_lanes *(*meet_lanes)(unsigned mask, unsigned long long value);
    void (*fault)(int code, const char *message); /* ends the grid with that error; does not return */
} graphcap_services;

typedef struct graphcap_kernel_entry {
    const char *name;
    void (*run)(void **parameters); /* runs threads as long as next_run() gives some */
    unsigned parameter_count;
    const size_t *sizes;
    const size_t *alignments;
    const void *function; /* the kernel itself; a compiled name expression is found by it */
    unsigned most_threads; /* per block, by the kernel's launch bounds; 0: as many as the device takes */
    unsigned static_shared; /* bytes of block-shared arrays, as far as known */
    struct graphcap_kernel_entry *next;
} graphcap_kernel_entry;

typedef struct graphcap_image_table {
    unsigned magic, version;
    graphcap_thread_state *state;
    const graphcap_services **services; /* filled in by the driver */
    graphcap_kernel_entry **kernels;
} graphcap_image_table;

#if defined(__cplusplus) && !defined(GRAPHCAP_TABLE_ONLY) /* the driver wants the layouts alone */

namespace {
graphcap_thread_state graphcap_state;
const graphcap_services *graphcap_service;
graphcap_kernel_entry *graphcap_kernels;
}  // namespace

extern "C" __attribute__((visibility("default"))) graphcap_image_table graphcap_image;
graphcap_image_table graphcap_image = {GRAPHCAP_IMAGE_MAGIC, GRAPHCAP_IMAGE_VERSION, &graphcap_state, &graphcap_service,
                                       &graphcap_kernels};

namespace graphcap_detail {

template <int... I> struct indices {};
template <int N, int... I> struct make_indices : make_indices<N - 1, N - 1, I...> {};
template <int... I> struct make_indices<0, I...> { typedef indices<I...> type; };
template <class T> struct stored { typedef T type; };
template <class T> struct stored<const T> { typedef T type; };

template <class F> struct entry;
template <class... A> struct entry<void (*)(A...)> {
    template <void (*kernel)(A...)> struct of : graphcap_kernel_entry {
        explicit of(const char *kernel_name, unsigned bound = 0, unsigned shared = 0) {
            static const size_t kernel_sizes[sizeof...(A) + 1] = {sizeof(A)..., 0};
            static const size_t kernel_alignments[sizeof...(A) + 1] = {alignof(A)..., 0};
            name = kernel_name;
            run = &loop;
            parameter_count = sizeof...(A);
            sizes = kernel_sizes;
            alignments = kernel_alignments;
            function = (const void *)kernel;
            most_threads = bound;
            static_shared = shared;
            next = graphcap_kernels;
            graphcap_kernels = this;
        }
        /* The parameters are locals here, so that the compiler need not read them again for each thread. */
        static void threads(typename stored<A>::type... a) {
            while (graphcap_service->next_run()) {
                const graphcap_thread_index *at = graphcap_state.current;
                do {
                    graphcap_state.current = at;
                    graphcap_state.thread[0] = at->thread[0];
                    graphcap_state.thread[1] = at->thread[1];
                    graphcap_state.thread[2] = at->thread[2];
                    graphcap_state.linear = at->linear;
                    kernel(a...);
                } while (++at < graphcap_state.end);
            }
        }
        template <int... I> static void call(void **p, indices<I...>) {
            (void)p;
            threads(*(typename stored<A>::type *)p[I]...);
        }
        static void loop(void **p) { call(p, typename make_indices<sizeof...(A)>::type()); }
    };
};

}  // namespace graphcap_detail

/* What the macros below are made of. */
namespace graphcap_macros {

static inline unsigned lane() { return graphcap_state.linear & 31u; }

/* What the lane `from` gave; the caller's own value where that lane took no part. */
template <class T> static inline T shuffle(unsigned mask, T value, int from) {
    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    unsigned long long bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    const graphcap_lanes *met = graphcap_service->meet_lanes(mask, bits);
    if (from >= 0 && from < 32 && (met->present >> from & 1u)) __builtin_memcpy(&value, &met->values[from], sizeof(T));
    return value;
}

static inline unsigned ballot(unsigned mask, bool predicate) {
    return graphcap_service->meet_lanes(mask, predicate)->nonzero;
}

enum class Vote { count, all, any };
static inline int vote(Vote kind, int predicate) {
    unsigned came = 0;
    const unsigned yes = graphcap_service->barrier_count(predicate != 0, &came);
    return kind == Vote::count ? (int)yes : kind == Vote::all ? yes == came : yes != 0;
}

}  // namespace graphcap_macros

#define GRAPHCAP_KERNEL static
#define GRAPHCAP_DEVICE static
#define GRAPHCAP_EXPORT(kernel) \
    static graphcap_detail::entry<decltype(&kernel)>::of<&kernel> graphcap_entry_##kernel(#kernel);
#define GRAPHCAP_SHARED static
#define GRAPHCAP_DYNAMIC_SHARED(type, name) type *name = (type *)graphcap_state.shared
#define GRAPHCAP_THREAD_X (graphcap_state.thread[0])
#define GRAPHCAP_THREAD_Y (graphcap_state.thread[1])
#define GRAPHCAP_THREAD_Z (graphcap_state.thread[2])
#define GRAPHCAP_BLOCK_X (graphcap_state.block[0])
#define GRAPHCAP_BLOCK_Y (graphcap_state.block[1])
#define GRAPHCAP_BLOCK_Z (graphcap_state.block[2])
#define GRAPHCAP_BLOCK_SIZE_X (graphcap_state.block_size[0])
#define GRAPHCAP_BLOCK_SIZE_Y (graphcap_state.block_size[1])
#define GRAPHCAP_BLOCK_SIZE_Z (graphcap_state.block_size[2])
#define GRAPHCAP_GRID_X (graphcap_state.grid[0])
#define GRAPHCAP_GRID_Y (graphcap_state.grid[1])
#define GRAPHCAP_GRID_Z (graphcap_state.grid[2])
#define GRAPHCAP_BARRIER() graphcap_service->barrier()
#define GRAPHCAP_BARRIER_COUNT(predicate) graphcap_macros::vote(graphcap_macros::Vote::count, (predicate))
#define GRAPHCAP_BARRIER_AND(predicate) graphcap_macros::vote(graphcap_macros::Vote::all, (predicate))
#define GRAPHCAP_BARRIER_OR(predicate) graphcap_macros::vote(graphcap_macros::Vote::any, (predicate))
#define GRAPHCAP_WARP_BARRIER(mask) ((void)graphcap_service->meet_lanes((mask), 0))
#define GRAPHCAP_SHUFFLE(mask, value, from) graphcap_macros::shuffle((mask), (value), (int)(from) & 31)
#define GRAPHCAP_SHUFFLE_XOR(mask, value, bits) graphcap_macros::shuffle((mask), (value), (int)(graphcap_macros::lane() ^ (bits)))
#define GRAPHCAP_SHUFFLE_UP(mask, value, by) graphcap_macros::shuffle((mask), (value), (int)graphcap_macros::lane() - (int)(by))
#define GRAPHCAP_SHUFFLE_DOWN(mask, value, by) graphcap_macros::shuffle((mask), (value), (int)graphcap_macros::lane() + (int)(by))
#define GRAPHCAP_BALLOT(mask, predicate) graphcap_macros::ballot((mask), (predicate) != 0)
#define GRAPHCAP_TRAP() __builtin_trap()
#define GRAPHCAP_ASSERT(condition) \
    ((condition) ? (void)0 : graphcap_service->fault(GRAPHCAP_FAULT_ASSERT, __FILE__ ": assertion failed: " #condition))
#define GRAPHCAP_VARIABLE __attribute__((visibility("default")))
#define GRAPHCAP_CONSTANT __attribute__((visibility("default")))
#define GRAPHCAP_SET_CONDITION(handle, value) graphcap_service->set_condition((handle), (value))

#endif /* __cplusplus */
#endif /* host compiler */

#define GRAPHCAP_GLOBAL_X ((int)(GRAPHCAP_BLOCK_X * GRAPHCAP_BLOCK_SIZE_X + GRAPHCAP_THREAD_X))

#endif
