/* Kernels whose threads wait for each other, and kernels that go wrong; see graphcap_kernel.h. */
#include "graphcap_kernel.h"

#define LINEAR \
    ((GRAPHCAP_THREAD_Z * GRAPHCAP_BLOCK_SIZE_Y + GRAPHCAP_THREAD_Y) * GRAPHCAP_BLOCK_SIZE_X + GRAPHCAP_THREAD_X)
#define THREADS (GRAPHCAP_BLOCK_SIZE_X * GRAPHCAP_BLOCK_SIZE_Y * GRAPHCAP_BLOCK_SIZE_Z)

/* Every thread follows the same program: steps of four words, {operation, a, b, c}. What each thread has in the end goes to
   `out`. The model in test_emulated_device_warps.py says what that must be. */
GRAPHCAP_KERNEL void follow(unsigned int *out, const unsigned int *program, int steps)
{
    GRAPHCAP_SHARED unsigned int cells[1024];
    unsigned int thread = LINEAR, lane = thread % 32, threads = THREADS;
    unsigned int value = thread + 1000 * GRAPHCAP_BLOCK_X;
    cells[thread] = 0;
    GRAPHCAP_BARRIER();
    for (int i = 0; i < steps; ++i) {
        unsigned int a = program[4 * i + 1], b = program[4 * i + 2], c = program[4 * i + 3], other = 0;
        switch (program[4 * i]) {
        case 0: /* some threads return */
            if (thread % a == b % a) {
                out[GRAPHCAP_BLOCK_X * threads + thread] = value;
                return;
            }
            break;
        case 1: /* through block-shared memory */
            cells[thread] = value;
            GRAPHCAP_BARRIER();
            other = cells[(thread + a) % threads];
            GRAPHCAP_BARRIER();
            break;
        case 2: other = (unsigned int)GRAPHCAP_BARRIER_COUNT((value >> a % 8) & 1); break;
        case 3: other = (unsigned int)GRAPHCAP_BARRIER_AND(value % (a % 3 + 1) != 1); break;
        case 4: other = (unsigned int)GRAPHCAP_BARRIER_OR(value % (a % 50 + 1) == 1); break;
        case 5: /* the lanes of a mask alone */
            if (a >> lane & 1) other = GRAPHCAP_SHUFFLE_XOR(a, value, b % 32);
            break;
        case 6:
            if (a >> lane & 1) other = GRAPHCAP_BALLOT(a, (value >> b % 8) & 1);
            break;
        case 7: /* both sides of a branch, one of them several times */
            if (a >> lane & 1)
                for (unsigned int n = 0; n <= b % 3; ++n) other += GRAPHCAP_SHUFFLE(a, value + n, (lane + c) % 32);
            else
                other = GRAPHCAP_SHUFFLE_DOWN(~a, value, c % 32);
            break;
        case 8: /* within a warp through shared memory */
            cells[thread] = value;
            GRAPHCAP_WARP_BARRIER(0xFFFFFFFFu);
            if (thread / 32 == (thread ^ b % 32) / 32 && (thread ^ b % 32) < threads) other = cells[thread ^ b % 32];
            GRAPHCAP_WARP_BARRIER(0xFFFFFFFFu);
            break;
        case 9: other = GRAPHCAP_SHUFFLE_UP(0xFFFFFFFFu, value, a % 32); break;
        default: other = a;
        }
        value = value * 31 + other;
    }
    out[GRAPHCAP_BLOCK_X * threads + thread] = value;
}
GRAPHCAP_EXPORT(follow)

/* Sums of 32 lanes by shuffles, `rounds` times, and an inclusive scan of them. */
GRAPHCAP_KERNEL void warp_scan(long long *sums, int *scans, const int *in, int rounds)
{
    int at = GRAPHCAP_GLOBAL_X, lane = (int)GRAPHCAP_THREAD_X % 32;
    long long sum = 0;
    int scan = in[at];
    for (int r = 0; r < rounds; ++r) {
        sum = in[at];
        for (int step = 16; step > 0; step /= 2) sum += GRAPHCAP_SHUFFLE_XOR(0xFFFFFFFFu, sum, step);
    }
    for (int step = 1; step < 32; step *= 2) {
        int before = GRAPHCAP_SHUFFLE_UP(0xFFFFFFFFu, scan, step);
        if (lane >= step) scan += before;
    }
    sums[at] = sum;
    scans[at] = scan;
}
GRAPHCAP_EXPORT(warp_scan)

/* The sums of rows: a block for each, its threads take every so manieth element, then a tree in block-shared memory. */
GRAPHCAP_KERNEL void row_sums(double *out, const double *in, int width)
{
    GRAPHCAP_SHARED double part[1024];
    int thread = (int)GRAPHCAP_THREAD_X, size = (int)GRAPHCAP_BLOCK_SIZE_X;
    double sum = 0;
    for (int i = thread; i < width; i += size) sum += in[(long long)GRAPHCAP_BLOCK_X * width + i];
    part[thread] = sum;
    GRAPHCAP_BARRIER();
    for (int step = size / 2; step > 0; step /= 2) {
        if (thread < step) part[thread] += part[thread + step];
        GRAPHCAP_BARRIER();
    }
    if (thread == 0) out[GRAPHCAP_BLOCK_X] = part[0];
}
GRAPHCAP_EXPORT(row_sums)

/* An inclusive scan of each block: scans of warps, then one of their totals, all by shuffles. */
GRAPHCAP_KERNEL void block_scans(long long *out, const long long *in)
{
    GRAPHCAP_SHARED long long totals[32];
    int at = GRAPHCAP_GLOBAL_X, thread = (int)GRAPHCAP_THREAD_X, lane = thread % 32;
    int warps = ((int)GRAPHCAP_BLOCK_SIZE_X + 31) / 32;
    long long sum = in[at];
    for (int step = 1; step < 32; step *= 2) {
        long long before = GRAPHCAP_SHUFFLE_UP(0xFFFFFFFFu, sum, step);
        if (lane >= step) sum += before;
    }
    if (lane == 31) totals[thread / 32] = sum;
    GRAPHCAP_BARRIER();
    if (thread < 32) {
        long long total = thread < warps ? totals[thread] : 0;
        for (int step = 1; step < 32; step *= 2) {
            long long before = GRAPHCAP_SHUFFLE_UP(0xFFFFFFFFu, total, step);
            if (lane >= step) total += before;
        }
        totals[thread] = total;
    }
    GRAPHCAP_BARRIER();
    out[at] = sum + (thread >= 32 ? totals[thread / 32 - 1] : 0);
}
GRAPHCAP_EXPORT(block_scans)

GRAPHCAP_KERNEL void barriers(int rounds)
{
    for (int r = 0; r < rounds; ++r) GRAPHCAP_BARRIER();
}
GRAPHCAP_EXPORT(barriers)

/* The first thread tells the others; `sync` 0 leaves out the barrier that this needs. */
GRAPHCAP_KERNEL void tell(int *out, int value, int sync)
{
    GRAPHCAP_SHARED int told;
    int thread = (int)GRAPHCAP_THREAD_X;
    if (thread == 0) told = value;
    if (sync) GRAPHCAP_BARRIER();
    out[GRAPHCAP_GLOBAL_X] = told;
}
GRAPHCAP_EXPORT(tell)

/* The same among the lanes of a warp. */
GRAPHCAP_KERNEL void tell_warp(int *out, int value, int sync)
{
    GRAPHCAP_SHARED int told;
    int thread = (int)GRAPHCAP_THREAD_X;
    if (thread == 31) told = value;
    if (sync) GRAPHCAP_WARP_BARRIER(0xFFFFFFFFu);
    out[GRAPHCAP_GLOBAL_X] = told;
}
GRAPHCAP_EXPORT(tell_warp)

/* The order in which threads come by, in their own order: out[k] is the k-th. */
GRAPHCAP_KERNEL void come_by(int *out, int *count)
{
    out[(*count)++] = GRAPHCAP_GLOBAL_X;
}
GRAPHCAP_EXPORT(come_by)

/* Threads that wait where the others never come. */
GRAPHCAP_KERNEL void wait_for_ever(int kind)
{
    unsigned int lane = GRAPHCAP_THREAD_X % 32;
    if (kind == 0) { /* half at a barrier, half at a warp operation with all */
        if (lane < 16) GRAPHCAP_BARRIER();
        else GRAPHCAP_WARP_BARRIER(0xFFFFFFFFu);
    } else if (kind == 1) { /* masks that do not fit each other */
        if (lane == 0) GRAPHCAP_WARP_BARRIER(3u);
        else if (lane == 1) GRAPHCAP_WARP_BARRIER(7u);
    } else { /* a lane outside its mask */
        GRAPHCAP_WARP_BARRIER(0xFFFF0000u);
    }
}
GRAPHCAP_EXPORT(wait_for_ever)

GRAPHCAP_DEVICE int deep(int depth, volatile int *out)
{
    volatile char room[1000];
    room[depth % 1000] = (char)depth;
    if (depth == 0) return 0;
    int below = deep(depth - 1, out);
    *out = below;
    return below + room[depth % 1000];
}

GRAPHCAP_KERNEL void recurse(int *out, int depth, int sync)
{
    if (sync) GRAPHCAP_BARRIER();
    out[0] = deep(depth, out);
}
GRAPHCAP_EXPORT(recurse)

/* A local array that is larger than a stack. */
GRAPHCAP_KERNEL void big_local(int *out, int at)
{
    volatile char room[1000000];
    room[at] = 1;
    out[0] = room[at];
}
GRAPHCAP_EXPORT(big_local)

/* Waits for what another thread, which cannot run meanwhile, would have to write. */
GRAPHCAP_KERNEL void spin(volatile int *flag, int sync)
{
    if (sync) GRAPHCAP_BARRIER();
    if (GRAPHCAP_THREAD_X == 0)
        while (*flag == 0) {}
    else
        *flag = 1;
}
GRAPHCAP_EXPORT(spin)

GRAPHCAP_KERNEL void trap(int thread)
{
    if ((int)GRAPHCAP_THREAD_X == thread) GRAPHCAP_TRAP();
}
GRAPHCAP_EXPORT(trap)

GRAPHCAP_KERNEL void check(int *out, int below)
{
    GRAPHCAP_BARRIER();
    GRAPHCAP_ASSERT((int)GRAPHCAP_THREAD_X < below);
    out[GRAPHCAP_THREAD_X] = 1;
}
GRAPHCAP_EXPORT(check)

GRAPHCAP_KERNEL void poke_late(unsigned long long address, int value)
{
    GRAPHCAP_BARRIER();
    if (GRAPHCAP_THREAD_X == 5) *(int *)address = value;
    GRAPHCAP_BARRIER();
}
GRAPHCAP_EXPORT(poke_late)

/* Quotients and remainders of all widths: out[8 * i + …]. */
GRAPHCAP_KERNEL void divide(long long *out, const long long *x, const long long *y, int n)
{
    int i = GRAPHCAP_GLOBAL_X;
    if (i >= n) return;
    long long *o = out + 10 * i;
    o[0] = (int)x[i] / (int)y[i];
    o[1] = (int)x[i] % (int)y[i];
    o[2] = x[i] / y[i];
    o[3] = x[i] % y[i];
    o[4] = (unsigned int)x[i] / (unsigned int)y[i];
    o[5] = (unsigned int)x[i] % (unsigned int)y[i];
    o[6] = (long long)((unsigned long long)x[i] / (unsigned long long)y[i]);
    o[7] = (long long)((unsigned long long)x[i] % (unsigned long long)y[i]);
    o[8] = (unsigned char)((unsigned char)x[i] / (unsigned char)y[i]);
    o[9] = (unsigned char)((unsigned char)x[i] % (unsigned char)y[i]);
}
GRAPHCAP_EXPORT(divide)

GRAPHCAP_VARIABLE int tally[4] = {1, 2, 3, 4};
GRAPHCAP_CONSTANT float factors[3] = {0.5f, 1.5f, 2.5f};

GRAPHCAP_KERNEL void add_tally(int *out, int by)
{
    for (int i = 0; i < 4; ++i) {
        tally[i] += by;
        out[i] = tally[i] + (int)(2 * factors[i % 3]);
    }
}
GRAPHCAP_EXPORT(add_tally)

/* What dynamic shared memory is before anybody wrote to it, and where it lies. */
GRAPHCAP_KERNEL void look_at_shared(unsigned long long *out, int bytes, int at)
{
    GRAPHCAP_DYNAMIC_SHARED(unsigned char, room);
    out[0] = (unsigned long long)room % 16;
    for (int i = 0; i < bytes; ++i) room[i] = (unsigned char)i;
    room[at] = 1;
    out[1] = room[bytes - 1];
}
GRAPHCAP_EXPORT(look_at_shared)
