/* CUDA C++ kernel text, for the host compiler: this header is included before the text (`-include graphcap_cuda.h`).
 *
 * It declares what a CUDA compiler knows without any #include: keywords, built-in variables, vector types, device functions.
 * The rest (half, cooperative groups, ...) lies beside it under the names that kernel text includes.
 *
 * Words that only a rewriter can handle are left alone and must be gone when the text is compiled:
 * __global__ __shared__ __constant__ __grid_constant__ __noinline__ __managed__.
 *
 * Neither __CUDACC__ nor __CUDACC_RTC__ is defined: libraries would then leave the ordinary standard library for a
 * replacement that only NVIDIA's compilers can build. __CUDA_ARCH__ comes from the command line.
 */
#ifndef GRAPHCAP_CUDA_H
#define GRAPHCAP_CUDA_H

/* Kernel text may use these names without an #include; and names that glibc declares become macros further down, so glibc's
   own headers have to be read first. */
#include "graphcap/host_names_aside.h"
#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "graphcap/host_names_back.h"

#include <cmath>
#include <complex>
#include <limits>
#include <new>
#include <type_traits>

#include "../../kernels/graphcap_kernel.h"
#include "graphcap/no_math_macros.h"

#include "graphcap/keywords.h"
#include "graphcap/vectors.h"
#include "graphcap/builtins.h"
#include "graphcap/block.h"
#include "graphcap/conditional.h"
#include "graphcap/bits.h"
#include "graphcap/rounding.h"
#include "graphcap/conversions.h"
#include "graphcap/minmax.h"
#include "graphcap/math.h"
#include "graphcap/fast_math.h"
#include "graphcap/atomics.h"
#include "graphcap/warp.h"
#include "graphcap/memory.h"

#endif
