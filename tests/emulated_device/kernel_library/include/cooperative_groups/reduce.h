/* Reductions over a group inside a warp. */
#ifndef GRAPHCAP_COOPERATIVE_GROUPS_REDUCE_H
#define GRAPHCAP_COOPERATIVE_GROUPS_REDUCE_H

#include "../cooperative_groups.h"

namespace cooperative_groups {

#define GRAPHCAP_OPERATION(name, expression)                                            \
    template <class T = void> struct name {                                             \
        T operator()(T a, T b) const { return expression; }                             \
    };                                                                                  \
    template <> struct name<void> {                                                     \
        template <class T> T operator()(T a, T b) const { return expression; }          \
    };
GRAPHCAP_OPERATION(plus, a + b)
GRAPHCAP_OPERATION(less, b < a ? b : a)
GRAPHCAP_OPERATION(greater, a < b ? b : a)
GRAPHCAP_OPERATION(bit_and, a &b)
GRAPHCAP_OPERATION(bit_or, a | b)
GRAPHCAP_OPERATION(bit_xor, a ^ b)
#undef GRAPHCAP_OPERATION

/* In the order of the ranks, the same for every caller. */
template <class Group, class T, class F> typename std::decay<T>::type reduce(const Group &group, T &&value, F &&f) {
    typedef typename std::decay<T>::type V;
    V values[32];
    const unsigned count = group.lanes_for_graphcap().template collect<V>(value, values);
    V result = values[0];
    for (unsigned i = 1; i < count; ++i) result = f(result, values[i]);
    return result;
}

template <class Group, class Target, class T, class F> void reduce_update_async(const Group &group, Target &target, T &&value, F &&f) {
    auto result = reduce(group, value, f);
    if (group.thread_rank() == 0) target = f(target, result);
}
template <class Group, class Target, class T, class F> void reduce_store_async(const Group &group, Target *target, T &&value, F &&f) {
    auto result = reduce(group, value, f);
    if (group.thread_rank() == 0) *target = result;
}

}  // namespace cooperative_groups

#endif
