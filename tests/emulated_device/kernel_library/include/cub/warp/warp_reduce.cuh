/* cub::WarpReduce: the result is that of the first lane of each logical warp. */
#pragma once
#include "../../graphcap_cuda.h"
#include "../../graphcap/lane_set.h"

namespace cub {

template <class T, int LogicalWarp = 32> class WarpReduce {
public:
    struct TempStorage {};

    explicit WarpReduce(TempStorage &) {}

    template <class F> T Reduce(T value, F f, int valid) {
        T values[32];
        unsigned count = graphcap_detail::lane_set::tile(LogicalWarp).collect(value, values);
        if (count > (unsigned)valid) count = (unsigned)valid;
        T result = values[0];
        for (unsigned i = 1; i < count; ++i) result = f(result, values[i]);
        return graphcap_detail::lane() % LogicalWarp == 0 ? result : value;
    }
    template <class F> T Reduce(T value, F f) { return Reduce(value, f, LogicalWarp); }
    T Sum(T value) { return Reduce(value, add); }
    T Sum(T value, int valid) { return Reduce(value, add, valid); }

private:
    static T add(const T &a, const T &b) { return a + b; }
};

}  // namespace cub
