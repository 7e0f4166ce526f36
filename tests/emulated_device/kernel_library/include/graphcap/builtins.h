/* Built-in variables: views of the state that the driver's block executor keeps. */
#ifndef GRAPHCAP_BUILTINS_H
#define GRAPHCAP_BUILTINS_H

static const uint3 &threadIdx = reinterpret_cast<const uint3 &>(graphcap_state.thread);
static const uint3 &blockIdx = reinterpret_cast<const uint3 &>(graphcap_state.block);
static const dim3 &blockDim = reinterpret_cast<const dim3 &>(graphcap_state.block_size);
static const dim3 &gridDim = reinterpret_cast<const dim3 &>(graphcap_state.grid);
static constexpr int warpSize = 32;

namespace graphcap_detail {

/* The thread's number in its block, x running fastest: warps are made of 32 neighbours in this order. */
GRAPHCAP_FUNCTION unsigned thread_rank() { return graphcap_state.linear; }
GRAPHCAP_FUNCTION unsigned thread_count() {
    const graphcap_thread_state &s = graphcap_state;
    return s.block_size[0] * s.block_size[1] * s.block_size[2];
}
GRAPHCAP_FUNCTION unsigned lane() { return thread_rank() % 32u; }

/* Bits of one type as another of the same size. */
template <class To, class From> GRAPHCAP_FUNCTION To bits_as(const From &from) {
    static_assert(sizeof(To) == sizeof(From), "bits_as keeps the size");
    To to;
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}

}  // namespace graphcap_detail

#endif
