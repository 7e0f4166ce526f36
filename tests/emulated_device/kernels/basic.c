/* Kernels that the tests use; see graphcap_kernel.h. */
#include "graphcap_kernel.h"

GRAPHCAP_KERNEL void empty(void) {}
GRAPHCAP_EXPORT(empty)

GRAPHCAP_KERNEL void axpy(int n, float a, const float *x, float *y)
{
    int i = GRAPHCAP_GLOBAL_X;
    if (i < n) y[i] = a * x[i] + y[i];
}
GRAPHCAP_EXPORT(axpy)

GRAPHCAP_KERNEL void fill(float *out, float value, int n)
{
    int i = GRAPHCAP_GLOBAL_X;
    if (i < n) out[i] = value;
}
GRAPHCAP_EXPORT(fill)

GRAPHCAP_KERNEL void scale(float *out, const float *in, float factor, int n)
{
    int i = GRAPHCAP_GLOBAL_X;
    if (i < n) out[i] = factor * in[i];
}
GRAPHCAP_EXPORT(scale)

GRAPHCAP_KERNEL void add(float *out, const float *a, const float *b, int n)
{
    int i = GRAPHCAP_GLOBAL_X;
    if (i < n) out[i] = a[i] + b[i];
}
GRAPHCAP_EXPORT(add)

GRAPHCAP_KERNEL void copy(float *out, const float *in, int n)
{
    int i = GRAPHCAP_GLOBAL_X;
    if (i < n) out[i] = in[i];
}
GRAPHCAP_EXPORT(copy)

/* The sum of each block's 256 elements, through block-shared memory. */
GRAPHCAP_KERNEL void block_sum(float *out, const float *in, int n)
{
    GRAPHCAP_SHARED float part[256];
    int lane = (int)GRAPHCAP_THREAD_X;
    int i = GRAPHCAP_GLOBAL_X;
    part[lane] = i < n ? in[i] : 0.0f;
    GRAPHCAP_BARRIER();
    for (int step = (int)GRAPHCAP_BLOCK_SIZE_X / 2; step > 0; step /= 2) {
        if (lane < step) part[lane] += part[lane + step];
        GRAPHCAP_BARRIER();
    }
    if (lane == 0) out[GRAPHCAP_BLOCK_X] = part[0];
}
GRAPHCAP_EXPORT(block_sum)

/* Reverses each block through dynamic shared memory. */
GRAPHCAP_KERNEL void block_reverse(int *data)
{
    GRAPHCAP_DYNAMIC_SHARED(int, held);
    int lane = (int)GRAPHCAP_THREAD_X;
    int size = (int)GRAPHCAP_BLOCK_SIZE_X;
    held[lane] = data[GRAPHCAP_GLOBAL_X];
    GRAPHCAP_BARRIER();
    data[GRAPHCAP_GLOBAL_X] = held[size - 1 - lane];
}
GRAPHCAP_EXPORT(block_reverse)

GRAPHCAP_KERNEL void count_up(int *counter, int by)
{
    if (GRAPHCAP_GLOBAL_X == 0) *counter += by;
}
GRAPHCAP_EXPORT(count_up)

GRAPHCAP_KERNEL void set_condition(graphcap_condition handle, unsigned int value)
{
    if (GRAPHCAP_GLOBAL_X == 0) GRAPHCAP_SET_CONDITION(handle, value);
}
GRAPHCAP_EXPORT(set_condition)

/* Counts down; the loop goes on while the counter is above zero. */
GRAPHCAP_KERNEL void loop_while_positive(graphcap_condition handle, int *counter)
{
    if (GRAPHCAP_GLOBAL_X == 0) {
        *counter -= 1;
        GRAPHCAP_SET_CONDITION(handle, *counter > 0 ? 1u : 0u);
    }
}
GRAPHCAP_EXPORT(loop_while_positive)

/* out = a * out + b: a chain of these does not commute, so that a wrong order shows in the result. */
GRAPHCAP_KERNEL void affine(int *out, int a, int b)
{
    if (GRAPHCAP_GLOBAL_X == 0) *out = a * *out + b;
}
GRAPHCAP_EXPORT(affine)

/* out = a * x + b * y + c, all taken modulo 2^32. */
GRAPHCAP_KERNEL void combine(unsigned int *out, const unsigned int *x, const unsigned int *y, unsigned int a, unsigned int b,
                             unsigned int c)
{
    if (GRAPHCAP_GLOBAL_X == 0) *out = a * *x + b * *y + c;
}
GRAPHCAP_EXPORT(combine)

/* Writes where it was told to, allocated or not. */
GRAPHCAP_KERNEL void poke(unsigned long long address, int value)
{
    if (GRAPHCAP_GLOBAL_X == 0) *(int *)address = value;
}
GRAPHCAP_EXPORT(poke)

/* Every thread writes its own indices, so that launch shapes can be checked. */
GRAPHCAP_KERNEL void where(int *out)
{
    unsigned int block = (GRAPHCAP_BLOCK_Z * GRAPHCAP_GRID_Y + GRAPHCAP_BLOCK_Y) * GRAPHCAP_GRID_X + GRAPHCAP_BLOCK_X;
    unsigned int thread = (GRAPHCAP_THREAD_Z * GRAPHCAP_BLOCK_SIZE_Y + GRAPHCAP_THREAD_Y) * GRAPHCAP_BLOCK_SIZE_X + GRAPHCAP_THREAD_X;
    unsigned int size = GRAPHCAP_BLOCK_SIZE_X * GRAPHCAP_BLOCK_SIZE_Y * GRAPHCAP_BLOCK_SIZE_Z;
    out[block * size + thread] = (int)(block * 1000 + thread);
}
GRAPHCAP_EXPORT(where)
