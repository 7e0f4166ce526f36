/* Kernels of the CUDA tests; see tests/emulated_device/kernels/graphcap_kernel.h. */
#include "graphcap_kernel.h"

GRAPHCAP_KERNEL void axpy_to(float *out, float a, const float *x, const float *y, int n)
{
    int i = GRAPHCAP_GLOBAL_X;
    if (i < n) out[i] = a * x[i] + y[i];
}
GRAPHCAP_EXPORT(axpy_to)

GRAPHCAP_KERNEL void scale(float *out, const float *in, float factor, int n)
{
    int i = GRAPHCAP_GLOBAL_X;
    if (i < n) out[i] = factor * in[i];
}
GRAPHCAP_EXPORT(scale)

GRAPHCAP_KERNEL void empty(void) {}
GRAPHCAP_EXPORT(empty)

/* One argument of each size. */
GRAPHCAP_KERNEL void store_all(double *out, char a, short b, int c, long long d, float e, double f)
{
    if (GRAPHCAP_GLOBAL_X == 0) {
        out[0] = a;
        out[1] = b;
        out[2] = c;
        out[3] = (double)d;
        out[4] = e;
        out[5] = f;
    }
}
GRAPHCAP_EXPORT(store_all)

GRAPHCAP_KERNEL void set_condition(graphcap_condition handle, unsigned int value)
{
    if (GRAPHCAP_GLOBAL_X == 0) GRAPHCAP_SET_CONDITION(handle, value);
}
GRAPHCAP_EXPORT(set_condition)

/* Sets a condition from device memory. */
GRAPHCAP_KERNEL void condition_from(graphcap_condition handle, const int *value)
{
    if (GRAPHCAP_GLOBAL_X == 0) GRAPHCAP_SET_CONDITION(handle, (unsigned int)*value);
}
GRAPHCAP_EXPORT(condition_from)

/* A loop's body: counts up, counts the rest down, and says whether to go on. */
GRAPHCAP_KERNEL void count_down(graphcap_condition handle, int *rest, int *done)
{
    if (GRAPHCAP_GLOBAL_X == 0) {
        *done += 1;
        *rest -= 1;
        GRAPHCAP_SET_CONDITION(handle, *rest > 0 ? 1u : 0u);
    }
}
GRAPHCAP_EXPORT(count_down)

/* Named as a C++ compiler would name `void my::doubled<float>(float*, int)`. */
GRAPHCAP_KERNEL void _ZN2my7doubledIfEEvPfi(float *data, int n)
{
    int i = GRAPHCAP_GLOBAL_X;
    if (i < n) data[i] *= 2.0f;
}
GRAPHCAP_EXPORT(_ZN2my7doubledIfEEvPfi)

/* Pointers inside a struct passed by value. */
struct ends {
    int n;
    const float *in;
    float *out;
};
GRAPHCAP_KERNEL void copy_ends(struct ends ends)
{
    int i = GRAPHCAP_GLOBAL_X;
    if (i < ends.n) ends.out[i] = ends.in[i];
}
GRAPHCAP_EXPORT(copy_ends)
