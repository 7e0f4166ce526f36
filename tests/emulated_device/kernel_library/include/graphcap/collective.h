/* What the block-wide algorithms of CUB are made of here: every thread leaves its value in shared memory, the block meets, and
 * whoever needs a result goes through the values in the order of the threads. So results do not depend on the algorithm that
 * the caller chose, and operations need not be commutative.
 */
#ifndef GRAPHCAP_COLLECTIVE_H
#define GRAPHCAP_COLLECTIVE_H

#include "../cuda/functional"

namespace graphcap_detail {

/* One value per thread of a block; raw memory, as shared arrays run no constructors. */
template <class T, int Threads> struct thread_values {
    alignas(T) unsigned char bytes[sizeof(T) * Threads];

    T &operator[](unsigned i) { return reinterpret_cast<T *>(bytes)[i]; }
    /* Leaves the caller's value; afterwards all values are there. */
    void share(const T &value) {
        new (&(*this)[thread_rank()]) T(value);
        __syncthreads();
    }
    template <class F> T joined(unsigned first, unsigned last, F f) {
        T result = (*this)[first];
        for (unsigned i = first + 1; i < last; ++i) result = f(result, (*this)[i]);
        return result;
    }
};

template <int Items, class T, class F> GRAPHCAP_FUNCTION T joined_items(const T (&items)[Items], F f) {
    T result = items[0];
    for (int i = 1; i < Items; ++i) result = f(result, items[i]);
    return result;
}

}  // namespace graphcap_detail

#endif
