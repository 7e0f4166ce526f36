/* cub::BlockStore: the reverse of BlockLoad. */
#pragma once
#include "../../graphcap_cuda.h"

namespace cub {

enum BlockStoreAlgorithm {
    BLOCK_STORE_DIRECT,
    BLOCK_STORE_STRIPED,
    BLOCK_STORE_VECTORIZE,
    BLOCK_STORE_TRANSPOSE,
    BLOCK_STORE_WARP_TRANSPOSE,
    BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED
};

template <class T, int BlockX, int Items, BlockStoreAlgorithm Algorithm = BLOCK_STORE_DIRECT, int BlockY = 1, int BlockZ = 1> class BlockStore {
public:
    struct TempStorage {};

    BlockStore() {}
    explicit BlockStore(TempStorage &) {}

    template <class Iterator> void Store(Iterator to, T (&items)[Items]) { Store(to, items, BlockX * BlockY * BlockZ * Items); }
    template <class Iterator> void Store(Iterator to, T (&items)[Items], int valid) {
        for (int i = 0; i < Items; ++i)
            if (place(i) < valid) to[place(i)] = items[i];
    }

private:
    static int place(int i) {
        const int rank = (int)graphcap_detail::thread_rank();
        return Algorithm == BLOCK_STORE_STRIPED ? rank + i * BlockX * BlockY * BlockZ : rank * Items + i;
    }
};

}  // namespace cub
