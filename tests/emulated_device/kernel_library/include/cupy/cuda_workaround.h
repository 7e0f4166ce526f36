/* CuPy's header of this name gives NVRTC a standard library; here the text gets the host's. CuPy's polyphase channelizer goes
 * on from there and defines std::is_same_v, which the host's has; so in that text, known by what it includes before, the word
 * is another one from here on.
 */
#include <initializer_list>
#include <tuple>
#include <type_traits>
#include <utility>

#include_next <cupy/cuda_workaround.h>
#if defined(GRAPHCAP_COOPERATIVE_GROUPS_REDUCE_H) && !defined(CUPY_JIT_MODE)
#define is_same_v graphcap_is_same_v
#endif
