/* Atomic operations. Threads take turns and give way only at barriers and warp operations, so plain code is atomic.
 *
 * The types are those of CUDA, no more: kernel text (CuPy's own, for one) defines overloads for others by itself.
 */
#ifndef GRAPHCAP_ATOMICS_H
#define GRAPHCAP_ATOMICS_H

namespace graphcap_detail {

/* Stores what f makes of the old value, and gives the old value. */
template <class T, class F> GRAPHCAP_FUNCTION T exchange(T *address, F f) {
    T old = *address;
    *address = f(old);
    __asm__ volatile("" ::: "memory"); /* other threads see it although nothing here is volatile */
    return old;
}

}  // namespace graphcap_detail

#define GRAPHCAP_ATOMIC_SCOPED(name, T, expression)                                       \
    GRAPHCAP_FUNCTION T name(T *address, T value) {                                       \
        return graphcap_detail::exchange(address, [=](T old) -> T { return expression; }); \
    }
#define GRAPHCAP_ATOMIC(name, T, expression)             \
    GRAPHCAP_ATOMIC_SCOPED(name, T, expression)          \
    GRAPHCAP_ATOMIC_SCOPED(name##_block, T, expression)  \
    GRAPHCAP_ATOMIC_SCOPED(name##_system, T, expression)

/* Signed sums wrap, as unsigned ones do. */
GRAPHCAP_ATOMIC(atomicAdd, int, (int)((unsigned)old + (unsigned)value))
GRAPHCAP_ATOMIC(atomicAdd, unsigned int, old + value)
GRAPHCAP_ATOMIC(atomicAdd, unsigned long long, old + value)
GRAPHCAP_ATOMIC(atomicAdd, float, old + value)
GRAPHCAP_ATOMIC(atomicAdd, double, old + value)
GRAPHCAP_ATOMIC(atomicAdd, float2, (float2{old.x + value.x, old.y + value.y}))
GRAPHCAP_ATOMIC(atomicAdd, float4, (float4{old.x + value.x, old.y + value.y, old.z + value.z, old.w + value.w}))
GRAPHCAP_ATOMIC(atomicSub, int, (int)((unsigned)old - (unsigned)value))
GRAPHCAP_ATOMIC(atomicSub, unsigned int, old - value)

#define GRAPHCAP_ATOMIC_LOGIC(T)                            \
    GRAPHCAP_ATOMIC(atomicMin, T, old < value ? old : value) \
    GRAPHCAP_ATOMIC(atomicMax, T, old > value ? old : value) \
    GRAPHCAP_ATOMIC(atomicAnd, T, old & value)               \
    GRAPHCAP_ATOMIC(atomicOr, T, old | value)                \
    GRAPHCAP_ATOMIC(atomicXor, T, old ^ value)               \
    GRAPHCAP_ATOMIC(atomicExch, T, ((void)old, value))
GRAPHCAP_ATOMIC_LOGIC(int)
GRAPHCAP_ATOMIC_LOGIC(unsigned int)
GRAPHCAP_ATOMIC_LOGIC(unsigned long long)
#undef GRAPHCAP_ATOMIC_LOGIC
GRAPHCAP_ATOMIC(atomicExch, float, ((void)old, value))
GRAPHCAP_ATOMIC(atomicMin, long long, old < value ? old : value)
GRAPHCAP_ATOMIC(atomicMax, long long, old > value ? old : value)
GRAPHCAP_ATOMIC(atomicAnd, long long, old & value)
GRAPHCAP_ATOMIC(atomicOr, long long, old | value)
GRAPHCAP_ATOMIC(atomicXor, long long, old ^ value)

/* Counts up to value and begins again at 0; counts down to 0 and begins again at value. */
GRAPHCAP_ATOMIC(atomicInc, unsigned int, old >= value ? 0 : old + 1)
GRAPHCAP_ATOMIC(atomicDec, unsigned int, old == 0 || old > value ? value : old - 1)

#undef GRAPHCAP_ATOMIC
#undef GRAPHCAP_ATOMIC_SCOPED

#define GRAPHCAP_CAS_SCOPED(name, T)                                                                       \
    GRAPHCAP_FUNCTION T name(T *address, T compare, T value) {                                             \
        return graphcap_detail::exchange(address, [=](T old) -> T { return old == compare ? value : old; }); \
    }
#define GRAPHCAP_CAS(T)                     \
    GRAPHCAP_CAS_SCOPED(atomicCAS, T)        \
    GRAPHCAP_CAS_SCOPED(atomicCAS_block, T)  \
    GRAPHCAP_CAS_SCOPED(atomicCAS_system, T)
GRAPHCAP_CAS(unsigned short)
GRAPHCAP_CAS(int)
GRAPHCAP_CAS(unsigned int)
GRAPHCAP_CAS(unsigned long long)
#undef GRAPHCAP_CAS
#undef GRAPHCAP_CAS_SCOPED

/* Any type of 16 bytes, by its bits. */
#define GRAPHCAP_ATOMIC_WIDE(scope)                                                                                       \
    template <class T> GRAPHCAP_FUNCTION typename std::enable_if<sizeof(T) == 16 && alignof(T) >= 16, T>::type             \
        atomicExch##scope(T *address, T value) {                                                                           \
        return graphcap_detail::exchange(address, [=](T) { return value; });                                               \
    }                                                                                                                      \
    template <class T> GRAPHCAP_FUNCTION typename std::enable_if<sizeof(T) == 16 && alignof(T) >= 16, T>::type             \
        atomicCAS##scope(T *address, T compare, T value) {                                                                 \
        return graphcap_detail::exchange(                                                                                  \
            address, [=](T old) { return __builtin_memcmp(&old, &compare, sizeof old) ? old : value; });                   \
    }
GRAPHCAP_ATOMIC_WIDE()
GRAPHCAP_ATOMIC_WIDE(_block)
GRAPHCAP_ATOMIC_WIDE(_system)
#undef GRAPHCAP_ATOMIC_WIDE

#endif
