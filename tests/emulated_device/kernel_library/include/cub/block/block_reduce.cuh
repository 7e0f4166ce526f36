/* cub::BlockReduce: the result is the first thread's; the others get their own value back. */
#pragma once
#include "../../graphcap_cuda.h"
#include "../../graphcap/collective.h"
#include "../warp/warp_reduce.cuh"

namespace cub {

enum BlockReduceAlgorithm { BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY, BLOCK_REDUCE_RAKING, BLOCK_REDUCE_WARP_REDUCTIONS };

template <class T, int BlockX, BlockReduceAlgorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int BlockY = 1, int BlockZ = 1> class BlockReduce {
public:
    typedef graphcap_detail::thread_values<T, BlockX * BlockY * BlockZ> TempStorage;

    BlockReduce() : storage(private_storage()) {}
    explicit BlockReduce(TempStorage &given) : storage(given) {}

    template <class F> T Reduce(T value, F f, int valid) {
        storage.share(value);
        return graphcap_detail::thread_rank() == 0 && valid > 0 ? storage.joined(0, (unsigned)valid, f) : value;
    }
    template <class F> T Reduce(T value, F f) { return Reduce(value, f, BlockX * BlockY * BlockZ); }
    template <int Items, class F> T Reduce(T (&values)[Items], F f) { return Reduce(graphcap_detail::joined_items(values, f), f); }
    T Sum(T value) { return Reduce(value, add); }
    T Sum(T value, int valid) { return Reduce(value, add, valid); }
    template <int Items> T Sum(T (&values)[Items]) { return Reduce(values, add); }

private:
    static T add(const T &a, const T &b) { return a + b; }
    static TempStorage &private_storage() {
        static TempStorage made;
        return made;
    }
    TempStorage &storage;
};

}  // namespace cub
