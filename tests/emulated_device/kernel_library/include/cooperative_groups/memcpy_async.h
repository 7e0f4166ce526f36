/* Copies by a whole group. They are made at once, each thread its share; waiting for them is the group's barrier. */
#ifndef GRAPHCAP_COOPERATIVE_GROUPS_MEMCPY_ASYNC_H
#define GRAPHCAP_COOPERATIVE_GROUPS_MEMCPY_ASYNC_H

#include "../cooperative_groups.h"

namespace cooperative_groups {

namespace details {
template <class Group> GRAPHCAP_FUNCTION void copy_share(const Group &group, void *to, const void *from, size_t bytes) {
    const size_t rank = group.thread_rank(), share = (bytes + group.size() - 1) / group.size(), begin = rank * share;
    if (begin < bytes) memcpy((char *)to + begin, (const char *)from + begin, bytes - begin < share ? bytes - begin : share);
}
}  // namespace details

template <class Group, class T, class Shape> void memcpy_async(const Group &group, T *to, const T *from, const Shape &bytes) {
    details::copy_share(group, to, from, (size_t)bytes);
}
template <class Group, class Shape> void memcpy_async(const Group &group, void *to, const void *from, const Shape &bytes) {
    details::copy_share(group, to, from, (size_t)bytes);
}
/* With counts of elements on both sides: the smaller one counts. */
template <class Group, class T, class ToShape, class FromShape>
void memcpy_async(const Group &group, T *to, const ToShape &to_count, const T *from, const FromShape &from_count) {
    const size_t count = (size_t)to_count < (size_t)from_count ? (size_t)to_count : (size_t)from_count;
    details::copy_share(group, to, from, count * sizeof(T));
}
template <class Group> void wait(const Group &group) { group.sync(); }
template <unsigned Stages, class Group> void wait_prior(const Group &group) { group.sync(); }

}  // namespace cooperative_groups

#endif
