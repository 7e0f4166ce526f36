/* Loads and stores with a cache hint, which is ignored, and questions about addresses. */
#ifndef GRAPHCAP_MEMORY_H
#define GRAPHCAP_MEMORY_H

#define GRAPHCAP_LOAD(name) \
    template <class T> GRAPHCAP_FUNCTION T name(const T *address) { return *address; }
GRAPHCAP_LOAD(__ldg)
GRAPHCAP_LOAD(__ldcg)
GRAPHCAP_LOAD(__ldca)
GRAPHCAP_LOAD(__ldcs)
GRAPHCAP_LOAD(__ldlu)
GRAPHCAP_LOAD(__ldcv)
#undef GRAPHCAP_LOAD
#define GRAPHCAP_STORE(name) \
    template <class T> GRAPHCAP_FUNCTION void name(T *address, T value) { *address = value; }
GRAPHCAP_STORE(__stwb)
GRAPHCAP_STORE(__stcg)
GRAPHCAP_STORE(__stcs)
GRAPHCAP_STORE(__stwt)
#undef GRAPHCAP_STORE

namespace graphcap_detail {
GRAPHCAP_FUNCTION bool in_dynamic_shared(const void *address) {
    const char *at = (const char *)address, *base = (const char *)graphcap_state.shared;
    return at >= base && at < base + graphcap_state.shared_bytes;
}
}  // namespace graphcap_detail

/* Static shared arrays are ordinary variables here, which no address tells apart from __constant__ ones. */
GRAPHCAP_FUNCTION unsigned __isShared(const void *address) { return graphcap_detail::in_dynamic_shared(address); }
GRAPHCAP_FUNCTION unsigned __isGlobal(const void *address) { return !graphcap_detail::in_dynamic_shared(address); }
GRAPHCAP_FUNCTION size_t __cvta_generic_to_shared(const void *address) { return (size_t)address; }
GRAPHCAP_FUNCTION size_t __cvta_generic_to_global(const void *address) { return (size_t)address; }
GRAPHCAP_FUNCTION void *__cvta_shared_to_generic(size_t address) { return (void *)address; }
GRAPHCAP_FUNCTION void *__cvta_global_to_generic(size_t address) { return (void *)address; }

#endif
