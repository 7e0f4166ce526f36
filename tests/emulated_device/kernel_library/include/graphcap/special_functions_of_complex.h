/* CuPy's special functions (its folder xsf) compute with std::complex where the compiler is not NVIDIA's, while its kernels
 * bring thrust::complex. Inside their namespace the name std means the one below: the host's, but for complex numbers.
 */
#ifndef GRAPHCAP_SPECIAL_FUNCTIONS_OF_COMPLEX_H
#define GRAPHCAP_SPECIAL_FUNCTIONS_OF_COMPLEX_H

/* <complex> is known: graphcap_cuda.h includes it, before it takes the names of math_macros.h back. */
namespace xsf {
namespace std {

using namespace ::std;

template <class T> using complex = ::thrust::complex<T>;

#define GRAPHCAP_BOTH(name) \
    using ::std::name;      \
    using ::thrust::name;
GRAPHCAP_BOTH(abs)
GRAPHCAP_BOTH(arg)
GRAPHCAP_BOTH(norm)
GRAPHCAP_BOTH(conj)
GRAPHCAP_BOTH(polar)
GRAPHCAP_BOTH(exp)
GRAPHCAP_BOTH(log)
GRAPHCAP_BOTH(log10)
GRAPHCAP_BOTH(pow)
GRAPHCAP_BOTH(sqrt)
GRAPHCAP_BOTH(cos)
GRAPHCAP_BOTH(sin)
GRAPHCAP_BOTH(tan)
GRAPHCAP_BOTH(cosh)
GRAPHCAP_BOTH(sinh)
GRAPHCAP_BOTH(tanh)
GRAPHCAP_BOTH(acos)
GRAPHCAP_BOTH(asin)
GRAPHCAP_BOTH(atan)
GRAPHCAP_BOTH(acosh)
GRAPHCAP_BOTH(asinh)
GRAPHCAP_BOTH(atanh)
GRAPHCAP_BOTH(real)
GRAPHCAP_BOTH(imag)
#undef GRAPHCAP_BOTH

}  // namespace std
}  // namespace xsf

#endif
