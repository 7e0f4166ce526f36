/* cub::BlockScan. */
#pragma once
#include "../../graphcap_cuda.h"
#include "../../graphcap/collective.h"

namespace cub {

enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };

template <class T, int BlockX, BlockScanAlgorithm = BLOCK_SCAN_RAKING, int BlockY = 1, int BlockZ = 1> class BlockScan {
public:
    typedef graphcap_detail::thread_values<T, BlockX * BlockY * BlockZ> TempStorage;

    BlockScan() : storage(private_storage()) {}
    explicit BlockScan(TempStorage &given) : storage(given) {}

    template <class F> void InclusiveScan(T input, T &output, F f) {
        storage.share(input);
        output = storage.joined(0, graphcap_detail::thread_rank() + 1, f);
    }
    template <class F> void InclusiveScan(T input, T &output, F f, T &aggregate) {
        InclusiveScan(input, output, f);
        aggregate = storage.joined(0, threads, f);
    }
    template <class F> void ExclusiveScan(T input, T &output, T initial, F f) {
        storage.share(input);
        const unsigned rank = graphcap_detail::thread_rank();
        output = rank ? f(initial, storage.joined(0, rank, f)) : initial;
    }
    template <class F> void ExclusiveScan(T input, T &output, T initial, F f, T &aggregate) {
        ExclusiveScan(input, output, initial, f);
        aggregate = storage.joined(0, threads, f);
    }
    void InclusiveSum(T input, T &output) { InclusiveScan(input, output, add); }
    void InclusiveSum(T input, T &output, T &aggregate) { InclusiveScan(input, output, add, aggregate); }
    void ExclusiveSum(T input, T &output) { ExclusiveScan(input, output, T(), add); }
    void ExclusiveSum(T input, T &output, T &aggregate) { ExclusiveScan(input, output, T(), add, aggregate); }

    /* Several items per thread, the thread's own in a row. */
    template <int Items, class F> void InclusiveScan(T (&input)[Items], T (&output)[Items], F f) {
        const T last = graphcap_detail::joined_items(input, f);
        storage.share(last);
        const unsigned rank = graphcap_detail::thread_rank();
        T running = input[0];
        if (rank) running = f(storage.joined(0, rank, f), running);
        output[0] = running;
        for (int i = 1; i < Items; ++i) output[i] = running = f(running, input[i]);
    }
    template <int Items> void InclusiveSum(T (&input)[Items], T (&output)[Items]) { InclusiveScan(input, output, add); }
    template <int Items> void ExclusiveSum(T (&input)[Items], T (&output)[Items]) {
        storage.share(graphcap_detail::joined_items(input, add));
        const unsigned rank = graphcap_detail::thread_rank();
        T running = rank ? storage.joined(0, rank, add) : T();
        for (int i = 0; i < Items; ++i) {
            const T next = running + input[i];
            output[i] = running;
            running = next;
        }
    }

private:
    static constexpr unsigned threads = BlockX * BlockY * BlockZ;
    static T add(const T &a, const T &b) { return a + b; }
    static TempStorage &private_storage() {
        static TempStorage made;
        return made;
    }
    TempStorage &storage;
};

}  // namespace cub
