/* cub::WarpScan. */
#pragma once
#include "../../graphcap_cuda.h"
#include "../../graphcap/lane_set.h"

namespace cub {

template <class T, int LogicalWarp = 32> class WarpScan {
public:
    struct TempStorage {};

    explicit WarpScan(TempStorage &) {}

    template <class F> void InclusiveScan(T input, T &output, F f) {
        T values[32];
        graphcap_detail::lane_set::tile(LogicalWarp).collect(input, values);
        T result = values[0];
        for (unsigned i = 1; i <= graphcap_detail::lane() % LogicalWarp; ++i) result = f(result, values[i]);
        output = result;
    }
    template <class F> void ExclusiveScan(T input, T &output, T initial, F f) {
        T values[32];
        graphcap_detail::lane_set::tile(LogicalWarp).collect(input, values);
        T result = initial;
        for (unsigned i = 0; i < graphcap_detail::lane() % LogicalWarp; ++i) result = f(result, values[i]);
        output = result;
    }
    void InclusiveSum(T input, T &output) { InclusiveScan(input, output, add); }
    void ExclusiveSum(T input, T &output) { ExclusiveScan(input, output, T(), add); }

private:
    static T add(const T &a, const T &b) { return a + b; }
};

}  // namespace cub
