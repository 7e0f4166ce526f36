/* Warp operations: all are made of meetings, at which every lane of the mask sees what the others brought. */
#ifndef GRAPHCAP_WARP_H
#define GRAPHCAP_WARP_H

namespace graphcap_detail {

enum shuffle { from_index, from_above, from_below, from_xor };

/* The lane to read from, as PTX defines shfl.sync: a lane outside the reader's own part of the warp (of `width` lanes)
   means the reader itself, except that an index wraps within the part. Distances count modulo 32. */
GRAPHCAP_FUNCTION int source_lane(shuffle how, unsigned by, int width) {
    const int self = (int)lane(), segment = 32 - width, distance = (int)(by & 31);
    const int first = self & segment, last = first | (31 & ~segment);
    int source;
    switch (how) {
        case from_index: source = first | (distance & ~segment); break;
        case from_above: source = self + distance; break; /* shfl_down */
        case from_below: source = self - distance; break; /* shfl_up */
        default: source = self ^ distance;
    }
    /* An earlier part may be read by xor, a later one may not. */
    return how == from_below ? (source < first ? self : source) : (source > last ? self : source);
}

GRAPHCAP_FUNCTION const graphcap_lanes &meet(unsigned mask, unsigned long long value) {
    return *graphcap_service->meet_lanes(mask, value);
}

/* Any trivially copyable type, in pieces of 8 bytes. From a lane that is not there one gets one's own value (on a GPU the
   result is undefined). */
template <class T> GRAPHCAP_FUNCTION T shuffled(unsigned mask, const T &value, int source) {
    T result = value;
    for (size_t at = 0; at < sizeof(T); at += 8) {
        const size_t size = sizeof(T) - at < 8 ? sizeof(T) - at : 8;
        unsigned long long word = 0;
        __builtin_memcpy(&word, (const char *)&value + at, size);
        const graphcap_lanes &lanes = meet(mask, word);
        if (lanes.present >> source & 1) __builtin_memcpy((char *)&result + at, &lanes.values[source], size);
    }
    return result;
}

template <class F> GRAPHCAP_FUNCTION unsigned lanes_where(const graphcap_lanes &lanes, F f) {
    unsigned result = 0;
    for (unsigned rest = lanes.present; rest; rest &= rest - 1) {
        const int i = __builtin_ctz(rest);
        if (f(lanes.values[i])) result |= 1u << i;
    }
    return result;
}
GRAPHCAP_FUNCTION unsigned ballot(unsigned mask, bool predicate) { return meet(mask, predicate).nonzero; }
template <class T> GRAPHCAP_FUNCTION unsigned long long word_of(const T &value) {
    unsigned long long word = 0;
    __builtin_memcpy(&word, &value, sizeof value);
    return word;
}
template <class T> GRAPHCAP_FUNCTION unsigned lanes_equal(unsigned mask, const T &value) {
    const unsigned long long word = word_of(value);
    return lanes_where(meet(mask, word), [=](unsigned long long v) { return v == word; });
}
template <class T> GRAPHCAP_FUNCTION unsigned all_lanes_equal(unsigned mask, const T &value, int *equal) {
    const unsigned long long word = word_of(value);
    const graphcap_lanes &lanes = meet(mask, word);
    *equal = lanes_where(lanes, [=](unsigned long long v) { return v == word; }) == lanes.present;
    return *equal ? lanes.present : 0;
}
/* Joins the values from the lowest lane up. */
template <class T, class F> GRAPHCAP_FUNCTION T joined(unsigned mask, T value, F f) {
    const graphcap_lanes &lanes = meet(mask, word_of(value));
    unsigned rest = lanes.present;
    T result = (T)lanes.values[__builtin_ctz(rest)];
    for (rest &= rest - 1; rest; rest &= rest - 1) result = f(result, (T)lanes.values[__builtin_ctz(rest)]);
    return result;
}

}  // namespace graphcap_detail

#define GRAPHCAP_SHUFFLES(T)                                                                                     \
    GRAPHCAP_FUNCTION T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {                          \
        using namespace graphcap_detail;                                                                         \
        return shuffled(mask, value, source_lane(from_index, (unsigned)lane, width));                            \
    }                                                                                                            \
    GRAPHCAP_FUNCTION T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {                 \
        using namespace graphcap_detail;                                                                         \
        return shuffled(mask, value, source_lane(from_below, delta, width));                                     \
    }                                                                                                            \
    GRAPHCAP_FUNCTION T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {               \
        using namespace graphcap_detail;                                                                         \
        return shuffled(mask, value, source_lane(from_above, delta, width));                                     \
    }                                                                                                            \
    GRAPHCAP_FUNCTION T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32) {                     \
        using namespace graphcap_detail;                                                                         \
        return shuffled(mask, value, source_lane(from_xor, (unsigned)lanes, width));                             \
    }
#define GRAPHCAP_MATCHES(T)                                                                                      \
    GRAPHCAP_FUNCTION unsigned __match_any_sync(unsigned mask, T value) { return graphcap_detail::lanes_equal(mask, value); } \
    GRAPHCAP_FUNCTION unsigned __match_all_sync(unsigned mask, T value, int *predicate) {                        \
        return graphcap_detail::all_lanes_equal(mask, value, predicate);                                         \
    }
#define GRAPHCAP_FOR_WARP_TYPES(use) \
    use(int) use(unsigned int) use(long) use(unsigned long) use(long long) use(unsigned long long) use(float) use(double)
GRAPHCAP_FOR_WARP_TYPES(GRAPHCAP_SHUFFLES)
GRAPHCAP_FOR_WARP_TYPES(GRAPHCAP_MATCHES)
#undef GRAPHCAP_MATCHES
#undef GRAPHCAP_FOR_WARP_TYPES
/* GRAPHCAP_SHUFFLES is used again by the headers of half and bfloat16. */

GRAPHCAP_FUNCTION void __syncwarp(unsigned mask = 0xffffffffu) { graphcap_detail::meet(mask, 0); }
GRAPHCAP_FUNCTION unsigned __ballot_sync(unsigned mask, int predicate) { return graphcap_detail::ballot(mask, predicate != 0); }
GRAPHCAP_FUNCTION int __any_sync(unsigned mask, int predicate) { return graphcap_detail::ballot(mask, predicate != 0) != 0; }
GRAPHCAP_FUNCTION int __all_sync(unsigned mask, int predicate) { return graphcap_detail::ballot(mask, predicate == 0) == 0; }

/* Lanes run one after the other and never in step, so the active ones are the caller alone. CUDA promises no more to
   kernels: only a mask that the algorithm itself knows tells who will come to a meeting. */
GRAPHCAP_FUNCTION unsigned __activemask() { return 1u << graphcap_detail::lane(); }

#define GRAPHCAP_REDUCE(name, T, expression) \
    GRAPHCAP_FUNCTION T name(unsigned mask, T value) { return graphcap_detail::joined(mask, value, [](T a, T b) -> T { return expression; }); }
GRAPHCAP_REDUCE(__reduce_add_sync, unsigned int, a + b)
GRAPHCAP_REDUCE(__reduce_min_sync, unsigned int, a < b ? a : b)
GRAPHCAP_REDUCE(__reduce_max_sync, unsigned int, a > b ? a : b)
GRAPHCAP_REDUCE(__reduce_add_sync, int, (int)((unsigned)a + (unsigned)b))
GRAPHCAP_REDUCE(__reduce_min_sync, int, a < b ? a : b)
GRAPHCAP_REDUCE(__reduce_max_sync, int, a > b ? a : b)
GRAPHCAP_REDUCE(__reduce_and_sync, unsigned int, a & b)
GRAPHCAP_REDUCE(__reduce_or_sync, unsigned int, a | b)
GRAPHCAP_REDUCE(__reduce_xor_sync, unsigned int, a ^ b)
#undef GRAPHCAP_REDUCE

#endif
