/* See namespace.h. */
#ifdef GRAPHCAP_CUDACC_FOR_COMPLEX
#undef __CUDACC__
#undef GRAPHCAP_CUDACC_FOR_COMPLEX
#endif
#include_next <cupy/complex/complex_inl.h>
#include "../../graphcap/special_functions_of_complex.h"
