/* CuPy's header of this name gives NVRTC a standard library. Its polyphase channelizer goes on from there and defines
 * std::is_same_v, which the host's standard library has; so in that text, known by what it includes before, the word is
 * another one from here on.
 */
#include_next <cupy/cuda_workaround.h>
#if defined(GRAPHCAP_COOPERATIVE_GROUPS_REDUCE_H) && !defined(CUPY_JIT_MODE)
#define is_same_v graphcap_is_same_v
#endif
