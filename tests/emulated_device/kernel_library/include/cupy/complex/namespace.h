/* Read by CuPy's complex.h just before it defines its class, which it aligns as a GPU does only for NVIDIA's compiler. The word
   is taken back in complex_inl.h, the next header that it reads. */
#include_next <cupy/complex/namespace.h>
#ifndef GRAPHCAP_COMPLEX_DEFINED
#define GRAPHCAP_COMPLEX_DEFINED
#define __CUDACC__
#define GRAPHCAP_CUDACC_FOR_COMPLEX
#endif
