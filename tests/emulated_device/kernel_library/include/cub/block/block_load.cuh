/* cub::BlockLoad: each thread takes the items that lie in a row from its place on (striped: a block apart). */
#pragma once
#include "../../graphcap_cuda.h"

namespace cub {

enum BlockLoadAlgorithm {
    BLOCK_LOAD_DIRECT,
    BLOCK_LOAD_STRIPED,
    BLOCK_LOAD_VECTORIZE,
    BLOCK_LOAD_TRANSPOSE,
    BLOCK_LOAD_WARP_TRANSPOSE,
    BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED
};

template <class T, int BlockX, int Items, BlockLoadAlgorithm Algorithm = BLOCK_LOAD_DIRECT, int BlockY = 1, int BlockZ = 1> class BlockLoad {
public:
    struct TempStorage {};

    BlockLoad() {}
    explicit BlockLoad(TempStorage &) {}

    template <class Iterator> void Load(Iterator from, T (&items)[Items]) {
        for (int i = 0; i < Items; ++i) items[i] = from[place(i)];
    }
    /* Items beyond the valid ones are left as they are, or set to the default. */
    template <class Iterator> void Load(Iterator from, T (&items)[Items], int valid) {
        for (int i = 0; i < Items; ++i)
            if (place(i) < valid) items[i] = from[place(i)];
    }
    template <class Iterator, class Default> void Load(Iterator from, T (&items)[Items], int valid, Default otherwise) {
        for (int i = 0; i < Items; ++i) items[i] = otherwise;
        Load(from, items, valid);
    }

private:
    static int place(int i) {
        const int rank = (int)graphcap_detail::thread_rank();
        return Algorithm == BLOCK_LOAD_STRIPED ? rank + i * BlockX * BlockY * BlockZ : rank * Items + i;
    }
};

}  // namespace cub
