/* min and max in the global namespace, with the combinations of types that CUDA offers. */
#ifndef GRAPHCAP_MINMAX_H
#define GRAPHCAP_MINMAX_H

#define GRAPHCAP_MINMAX(R, A, B)                                                     \
    GRAPHCAP_FUNCTION R min(A a, B b) { return (R)a < (R)b ? (R)a : (R)b; }          \
    GRAPHCAP_FUNCTION R max(A a, B b) { return (R)a > (R)b ? (R)a : (R)b; }
#define GRAPHCAP_MINMAX_INTEGER(S, U) \
    GRAPHCAP_MINMAX(S, S, S)          \
    GRAPHCAP_MINMAX(U, U, U)          \
    GRAPHCAP_MINMAX(U, S, U)          \
    GRAPHCAP_MINMAX(U, U, S)
GRAPHCAP_MINMAX_INTEGER(int, unsigned int)
GRAPHCAP_MINMAX_INTEGER(long, unsigned long)
GRAPHCAP_MINMAX_INTEGER(long long, unsigned long long)
#undef GRAPHCAP_MINMAX_INTEGER
#undef GRAPHCAP_MINMAX

/* Of a number and a NaN, the number. */
GRAPHCAP_FUNCTION float min(float a, float b) { return fminf(a, b); }
GRAPHCAP_FUNCTION float max(float a, float b) { return fmaxf(a, b); }
GRAPHCAP_FUNCTION double min(double a, double b) { return fmin(a, b); }
GRAPHCAP_FUNCTION double max(double a, double b) { return fmax(a, b); }
GRAPHCAP_FUNCTION double min(float a, double b) { return fmin((double)a, b); }
GRAPHCAP_FUNCTION double max(float a, double b) { return fmax((double)a, b); }
GRAPHCAP_FUNCTION double min(double a, float b) { return fmin(a, (double)b); }
GRAPHCAP_FUNCTION double max(double a, float b) { return fmax(a, (double)b); }

GRAPHCAP_FUNCTION unsigned umin(unsigned a, unsigned b) { return min(a, b); }
GRAPHCAP_FUNCTION unsigned umax(unsigned a, unsigned b) { return max(a, b); }
GRAPHCAP_FUNCTION long long llmin(long long a, long long b) { return min(a, b); }
GRAPHCAP_FUNCTION long long llmax(long long a, long long b) { return max(a, b); }
GRAPHCAP_FUNCTION unsigned long long ullmin(unsigned long long a, unsigned long long b) { return min(a, b); }
GRAPHCAP_FUNCTION unsigned long long ullmax(unsigned long long a, unsigned long long b) { return max(a, b); }

#endif
