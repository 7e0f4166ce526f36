/* Where CuPy's complex numbers learn the name of their namespace. */
#pragma once
#define THRUST_NAMESPACE_BEGIN namespace thrust {
#define THRUST_NAMESPACE_END }
#define THRUST_NS_QUALIFIER ::thrust
