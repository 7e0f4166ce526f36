/* A set of lanes of the caller's warp, counted by rank: the group inside a warp that cooperative groups are made of. */
#ifndef GRAPHCAP_LANE_SET_H
#define GRAPHCAP_LANE_SET_H

namespace graphcap_detail {

struct lane_set {
    unsigned mask;

    /* The caller's tile of `size` lanes, without the lanes that a last, partial warp lacks. */
    static lane_set tile(unsigned size) {
        const unsigned first = lane() / size * size, left = thread_count() - (thread_rank() - lane());
        const unsigned all = size >= 32 ? ~0u : ((1u << size) - 1) << first;
        return lane_set{left >= 32 ? all : all & ((1u << left) - 1)};
    }
    unsigned size() const { return (unsigned)__builtin_popcount(mask); }
    unsigned rank() const { return (unsigned)__builtin_popcount(mask & ((1u << lane()) - 1)); }
    int lane_of(unsigned wanted) const {
        unsigned rest = mask;
        while (wanted--) rest &= rest - 1;
        return rest ? __builtin_ctz(rest) : (int)lane();
    }
    /* The part of `count` neighbouring ranks that holds the caller. */
    lane_set part(unsigned count) const {
        unsigned result = 0;
        const unsigned first = rank() / count * count;
        for (unsigned i = first; i < first + count && i < size(); ++i) result |= 1u << lane_of(i);
        return lane_set{result};
    }
    /* Bits by lane to bits by rank. */
    unsigned ranks(unsigned bits) const {
        unsigned result = 0, at = 0;
        for (unsigned rest = mask; rest; rest &= rest - 1, ++at) result |= (bits >> __builtin_ctz(rest) & 1) << at;
        return result;
    }
    template <class T> T read(const T &value, int wanted) const {
        const bool inside = wanted >= 0 && wanted < (int)size();
        return shuffled(mask, value, inside ? lane_of((unsigned)wanted) : (int)lane());
    }
    /* Everybody's values, in the order of the ranks; gives how many there are. */
    template <class T> unsigned collect(const T &value, T (&values)[32]) const {
        unsigned count = 0;
        for (size_t at = 0; at < sizeof(T); at += 8) {
            const size_t bytes = sizeof(T) - at < 8 ? sizeof(T) - at : 8;
            unsigned long long word = 0;
            __builtin_memcpy(&word, (const char *)&value + at, bytes);
            const graphcap_lanes &lanes = meet(mask, word);
            count = 0;
            for (unsigned rest = lanes.present; rest; rest &= rest - 1)
                __builtin_memcpy((char *)&values[count++] + at, &lanes.values[__builtin_ctz(rest)], bytes);
        }
        return count;
    }
};

}  // namespace graphcap_detail

#endif
