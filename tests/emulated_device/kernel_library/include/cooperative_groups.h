/* Cooperative groups: the block, tiles of a warp, sets of lanes; and the grid, as far as one block makes it up.
 *
 * A group inside a warp is its set of lanes, in the order of their numbers. Blocks run one after the other, so a grid of
 * several blocks cannot wait for itself: its sync() ends the kernel with a message.
 */
#ifndef GRAPHCAP_COOPERATIVE_GROUPS_H
#define GRAPHCAP_COOPERATIVE_GROUPS_H

#include "graphcap_cuda.h"
#include "graphcap/lane_set.h"

namespace cooperative_groups {

namespace details {
typedef graphcap_detail::lane_set lane_set;
enum group_kind { lanes_of_a_warp, whole_block, whole_grid };
}  // namespace details

class thread_group;
class thread_block;
class grid_group;
GRAPHCAP_FUNCTION thread_block this_thread_block();
GRAPHCAP_FUNCTION grid_group this_grid();
GRAPHCAP_FUNCTION thread_group tiled_partition(const thread_group &parent, unsigned size);

/* What every group can be passed as. */
class thread_group {
public:
    unsigned long long size() const { return kind == details::whole_block ? graphcap_detail::thread_count() : lanes.size(); }
    unsigned long long num_threads() const { return size(); }
    unsigned long long thread_rank() const { return kind == details::whole_block ? graphcap_detail::thread_rank() : lanes.rank(); }
    void sync() const {
        if (kind == details::whole_block)
            __syncthreads();
        else
            __syncwarp(lanes.mask);
    }

protected:
    thread_group(details::group_kind k, details::lane_set l) : kind(k), lanes(l) {}
    details::group_kind kind;
    details::lane_set lanes;
    friend thread_group tiled_partition(const thread_group &parent, unsigned size);
};

class thread_block : public thread_group {
public:
    struct arrival_token {};

    static void sync() { __syncthreads(); }
    static unsigned thread_rank() { return graphcap_detail::thread_rank(); }
    static unsigned size() { return graphcap_detail::thread_count(); }
    static unsigned num_threads() { return size(); }
    static dim3 group_index() { return blockIdx; }
    static dim3 thread_index() { return threadIdx; }
    static dim3 group_dim() { return blockDim; }
    static dim3 dim_threads() { return blockDim; }
    /* The threads wait for each other when the second half of the barrier comes. */
    arrival_token barrier_arrive() const { return arrival_token(); }
    void barrier_wait(arrival_token &&) const { __syncthreads(); }

private:
    thread_block() : thread_group(details::whole_block, details::lane_set{~0u}) {}
    friend thread_block this_thread_block();
};
GRAPHCAP_FUNCTION thread_block this_thread_block() { return thread_block(); }

class grid_group {
public:
    struct arrival_token {};

    bool is_valid() const { return true; }
    void sync() const {
        if (num_blocks() != 1)
            graphcap_detail::unsupported("grid-wide sync of more than one block: the emulated device runs blocks one after the other");
        __syncthreads();
    }
    arrival_token barrier_arrive() const { return arrival_token(); }
    void barrier_wait(arrival_token &&) const { sync(); }
    unsigned long long size() const { return num_blocks() * graphcap_detail::thread_count(); }
    unsigned long long num_threads() const { return size(); }
    unsigned long long thread_rank() const { return block_rank() * graphcap_detail::thread_count() + graphcap_detail::thread_rank(); }
    unsigned long long num_blocks() const { return (unsigned long long)gridDim.x * gridDim.y * gridDim.z; }
    unsigned long long block_rank() const { return ((unsigned long long)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x; }
    dim3 dim_blocks() const { return gridDim; }
    dim3 group_dim() const { return gridDim; }
    dim3 block_index() const { return blockIdx; }
    dim3 thread_index() const { return threadIdx; }

private:
    grid_group() {}
    friend grid_group this_grid();
};
GRAPHCAP_FUNCTION grid_group this_grid() { return grid_group(); }

namespace details {

/* What tiles and coalesced groups have in common. Ranks, not lanes, are what the caller counts in. */
class lane_group : public thread_group {
public:
    unsigned size() const { return lanes.size(); }
    unsigned num_threads() const { return size(); }
    unsigned thread_rank() const { return lanes.rank(); }
    unsigned meta_group_rank() const { return meta_rank; }
    unsigned meta_group_size() const { return meta_size; }
    void sync() const { __syncwarp(lanes.mask); }

    /* From a rank outside the group one gets one's own value. */
    template <class T> T shfl(const T &value, int rank) const { return lanes.read(value, rank); }
    template <class T> T shfl_up(const T &value, unsigned delta) const {
        return lanes.read(value, delta > thread_rank() ? -1 : (int)(thread_rank() - delta));
    }
    template <class T> T shfl_down(const T &value, unsigned delta) const {
        return lanes.read(value, delta >= size() ? -1 : (int)(thread_rank() + delta));
    }
    int any(int predicate) const { return __any_sync(lanes.mask, predicate); }
    int all(int predicate) const { return __all_sync(lanes.mask, predicate); }
    unsigned ballot(int predicate) const { return lanes.ranks(__ballot_sync(lanes.mask, predicate)); }
    template <class T> unsigned match_any(T value) const { return lanes.ranks(__match_any_sync(lanes.mask, value)); }
    template <class T> unsigned match_all(T value, int &predicate) const {
        return lanes.ranks(__match_all_sync(lanes.mask, value, &predicate));
    }
    const lane_set &lanes_for_graphcap() const { return lanes; }

protected:
    lane_group(lane_set l, unsigned rank, unsigned count) : thread_group(lanes_of_a_warp, l), meta_rank(rank), meta_size(count) {}
    unsigned meta_rank, meta_size;
};

}  // namespace details

class coalesced_group : public details::lane_group {
public:
    explicit coalesced_group(details::lane_set l, unsigned rank = 0, unsigned count = 1) : lane_group(l, rank, count) {}
};
/* No lane runs in step with another, so each is a group of its own (see __activemask). */
GRAPHCAP_FUNCTION coalesced_group coalesced_threads() { return coalesced_group(details::lane_set{__activemask()}); }

template <unsigned Size, class Parent = void> class thread_block_tile : public details::lane_group {
    static_assert(Size <= 32 && (Size & (Size - 1)) == 0 && Size > 0, "on the emulated device a tile has at most 32 threads, a power of two");

public:
    thread_block_tile(unsigned rank, unsigned count) : lane_group(details::lane_set::tile(Size), rank, count) {}
    template <class Other> thread_block_tile(const thread_block_tile<Size, Other> &other)
        : lane_group(other.lanes_for_graphcap(), other.meta_group_rank(), other.meta_group_size()) {}

    static constexpr unsigned size() { return Size; }
    static constexpr unsigned num_threads() { return Size; }
    static unsigned thread_rank() { return graphcap_detail::lane() & (Size - 1); }
    template <class T> T shfl(const T &value, int rank) const { return lanes.read(value, rank & (int)(Size - 1)); }
    template <class T> T shfl_xor(const T &value, unsigned rank_mask) const { return lanes.read(value, (int)((thread_rank() ^ rank_mask) & 31)); }
};

template <unsigned Size> thread_block_tile<Size, thread_block> tiled_partition(const thread_block &) {
    return thread_block_tile<Size, thread_block>(graphcap_detail::thread_rank() / Size, (graphcap_detail::thread_count() + Size - 1) / Size);
}
template <unsigned Size, unsigned ParentSize, class Parent>
thread_block_tile<Size, thread_block_tile<ParentSize, Parent>> tiled_partition(const thread_block_tile<ParentSize, Parent> &parent) {
    static_assert(Size <= ParentSize, "a tile is part of its parent");
    return thread_block_tile<Size, thread_block_tile<ParentSize, Parent>>(parent.thread_rank() / Size, ParentSize / Size);
}
GRAPHCAP_FUNCTION thread_group tiled_partition(const thread_group &parent, unsigned size) {
    if (parent.kind == details::whole_block) return thread_group(details::lanes_of_a_warp, details::lane_set::tile(size));
    return thread_group(details::lanes_of_a_warp, parent.lanes.part(size));
}
GRAPHCAP_FUNCTION coalesced_group tiled_partition(const coalesced_group &parent, unsigned size) {
    return coalesced_group(parent.lanes_for_graphcap().part(size), parent.thread_rank() / size, (parent.size() + size - 1) / size);
}

/* Splits a group by a label, or by a yes or no. */
template <class Group, class Label> coalesced_group labeled_partition(const Group &group, Label label) {
    const details::lane_set &all = group.lanes_for_graphcap();
    const unsigned mine = __match_any_sync(all.mask, label);
    /* Groups are counted in the order of their first lanes. */
    const unsigned leaders = __ballot_sync(all.mask, graphcap_detail::lane() == (unsigned)__builtin_ctz(mine));
    const unsigned before = leaders & ((1u << __builtin_ctz(mine)) - 1);
    return coalesced_group(details::lane_set{mine}, (unsigned)__builtin_popcount(before), (unsigned)__builtin_popcount(leaders));
}
template <class Group> coalesced_group binary_partition(const Group &group, bool predicate) {
    const details::lane_set &all = group.lanes_for_graphcap();
    const unsigned yes = __ballot_sync(all.mask, predicate);
    return coalesced_group(details::lane_set{predicate ? yes : all.mask & ~yes}, predicate, 2);
}

template <class Group> GRAPHCAP_FUNCTION void sync(const Group &group) { group.sync(); }
template <class Group> GRAPHCAP_FUNCTION auto thread_rank(const Group &group) { return group.thread_rank(); }
template <class Group> GRAPHCAP_FUNCTION auto group_size(const Group &group) { return group.size(); }

template <class Group, class F, class... A> GRAPHCAP_FUNCTION void invoke_one(const Group &group, F &&f, A &&...arguments) {
    if (group.thread_rank() == 0) f(static_cast<A &&>(arguments)...);
}
template <class Group, class F, class... A> GRAPHCAP_FUNCTION auto invoke_one_broadcast(const Group &group, F &&f, A &&...arguments) {
    typename std::remove_reference<decltype(f(static_cast<A &&>(arguments)...))>::type result{};
    if (group.thread_rank() == 0) result = f(static_cast<A &&>(arguments)...);
    return group.shfl(result, 0);
}

}  // namespace cooperative_groups

#endif
