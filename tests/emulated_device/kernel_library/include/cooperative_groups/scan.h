/* Prefix sums, and what is like them, over a group inside a warp. */
#ifndef GRAPHCAP_COOPERATIVE_GROUPS_SCAN_H
#define GRAPHCAP_COOPERATIVE_GROUPS_SCAN_H

#include "reduce.h"

namespace cooperative_groups {

template <class Group, class T, class F> typename std::decay<T>::type inclusive_scan(const Group &group, T &&value, F &&f) {
    typedef typename std::decay<T>::type V;
    V values[32];
    group.lanes_for_graphcap().template collect<V>(value, values);
    V result = values[0];
    for (unsigned i = 1; i <= group.thread_rank(); ++i) result = f(result, values[i]);
    return result;
}
template <class Group, class T> typename std::decay<T>::type inclusive_scan(const Group &group, T &&value) {
    return inclusive_scan(group, value, plus<typename std::decay<T>::type>());
}
/* The first rank gets a value-initialized T. */
template <class Group, class T, class F> typename std::decay<T>::type exclusive_scan(const Group &group, T &&value, F &&f) {
    typedef typename std::decay<T>::type V;
    V values[32];
    group.lanes_for_graphcap().template collect<V>(value, values);
    if (group.thread_rank() == 0) return V();
    V result = values[0];
    for (unsigned i = 1; i < group.thread_rank(); ++i) result = f(result, values[i]);
    return result;
}
template <class Group, class T> typename std::decay<T>::type exclusive_scan(const Group &group, T &&value) {
    return exclusive_scan(group, value, plus<typename std::decay<T>::type>());
}

}  // namespace cooperative_groups

#endif
