/* cuda::std is the host's own std: each header cuda/std/X is the host's X and this. */
#ifndef GRAPHCAP_STD_NAMESPACE_H
#define GRAPHCAP_STD_NAMESPACE_H

namespace cuda {
namespace std {
using namespace ::std;
}
}  // namespace cuda

#endif
