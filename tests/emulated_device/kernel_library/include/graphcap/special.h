/* Special functions in double precision, from the C library's erf, erfc and exp.
 *
 * Textbook mathematics (series, asymptotic expansions, Newton's method); the accuracy that CUDA's guide promises for each
 * is what the tests hold them to.
 */
#ifndef GRAPHCAP_SPECIAL_H
#define GRAPHCAP_SPECIAL_H

namespace graphcap_detail {

constexpr double pi = 3.14159265358979323846, sqrt_pi = 1.77245385090551602730, sqrt_half = 0.70710678118654752440;

GRAPHCAP_FUNCTION double rsqrt(double x) { return (double)(1 / std::sqrt((long double)x)); }
GRAPHCAP_FUNCTION double rcbrt(double x) { return (double)(1 / std::cbrt((long double)x)); }

/* sin(pi x) and cos(pi x): the quarter turns are taken off exactly, |rest| <= 1/4. */
GRAPHCAP_FUNCTION double turned(double x, int quarter) {
    if (!std::isfinite(x)) return std::numeric_limits<double>::quiet_NaN();
    const double q = std::nearbyint(std::fmod(x, 2.0) * 2), rest = std::fmod(x, 2.0) - q / 2;
    switch (((int)q + quarter) & 3) {
        case 0: return std::sin(pi * rest);
        case 1: return std::cos(pi * rest);
        case 2: return -std::sin(pi * rest);
        default: return -std::cos(pi * rest);
    }
}
GRAPHCAP_FUNCTION double sinpi(double x) { return std::trunc(x) == x ? std::copysign(std::isfinite(x) ? 0.0 : NAN, x) : turned(x, 0); }
GRAPHCAP_FUNCTION double cospi(double x) { return turned(x, 1) + 0.0; }

/* exp(x*x) * erfc(x) */
GRAPHCAP_FUNCTION double erfcx(double x) {
    if (x < 26) { /* the square's rounding error counts, as exp() blows it up */
        const double square = x * x, low = std::fma(x, x, -square);
        return x < -27 ? std::numeric_limits<double>::infinity() : std::exp(square) * (1 + low) * std::erfc(x);
    }
    if (!(x < 1e9)) return 1 / (sqrt_pi * x);
    double term = 1, sum = 1;
    for (int n = 1; n < 12; ++n) sum += term *= -(2 * n - 1) / (2 * x * x);
    return sum / (sqrt_pi * x);
}

/* A first guess at erfinv(x) from ln(1 - x*x) (Winitzki's formula), good to a few thousandths. */
GRAPHCAP_FUNCTION double erfinv_guess(double log_rest) {
    const double a = 0.147, b = 2 / (pi * a) + log_rest / 2;
    return std::sqrt(std::sqrt(b * b - log_rest / a) - b);
}

GRAPHCAP_FUNCTION double erfcinv(double y) {
    if (!(y >= 0 && y <= 2)) return std::numeric_limits<double>::quiet_NaN();
    if (y == 0) return std::numeric_limits<double>::infinity();
    if (y == 2) return -std::numeric_limits<double>::infinity();
    if (y > 1) return -erfcinv(2 - y);
    if (y > 0.5) { /* erf is the better conditioned one here, and 1 - y is exact */
        double t = erfinv_guess(std::log(y * (2 - y)));
        for (int i = 0; i < 3; ++i) t -= (std::erf(t) - (1 - y)) * sqrt_pi / 2 * std::exp(t * t);
        return t;
    }
    /* In the tail erfc runs over many powers of ten, its logarithm is all but a parabola. */
    double t = erfinv_guess(std::log(y * (2 - y)));
    for (int i = 0; i < 5; ++i) {
        const double reached = std::erfc(t);
        if (!(reached > 0)) {
            t *= 0.999;
            continue;
        }
        const double by = std::log(reached / y) * erfcx(t) * sqrt_pi / 2;
        t += by;
        if (std::fabs(by) < 1e-17 * t) break;
    }
    return t;
}
GRAPHCAP_FUNCTION double erfinv(double x) {
    if (!(std::fabs(x) <= 1)) return std::numeric_limits<double>::quiet_NaN();
    const double a = std::fabs(x);
    if (a >= 0.5) return std::copysign(erfcinv(1 - a), x);
    if (a < 1e-8) return x * (sqrt_pi / 2);
    double t = erfinv_guess(std::log1p(-a * a));
    for (int i = 0; i < 3; ++i) t -= (std::erf(t) - a) * sqrt_pi / 2 * std::exp(t * t);
    return std::copysign(t, x);
}

/* The normal distribution. In the tail the rounding error of x/sqrt(2) counts. */
GRAPHCAP_FUNCTION double normcdf(double x) {
    if (x < -39) return 0;
    const double t = -x * sqrt_half;
    const double low = std::fma(-x, sqrt_half, -t) + -x * -4.833646656726457e-17; /* sqrt(1/2) less sqrt_half */
    const double value = std::erfc(t) / 2;
    return t > 1 ? value - low * std::exp(-t * t) / sqrt_pi : value;
}
GRAPHCAP_FUNCTION double normcdfinv(double p) { return erfcinv(2 * p) * -1.41421356237309504880; }

/* Modified Bessel functions: the series has positive terms alone; beyond 30 the asymptotic expansion ends below 1e-17. */
GRAPHCAP_FUNCTION double bessel_i(int order, double x) {
    const double a = std::fabs(x);
    long double sum, term; /* a sum of dozens of terms is to lose no digit of the double */
    if (!(a <= 30)) {
        sum = term = 1;
        for (int k = 1; k < 30; ++k) {
            const long double odd = 2 * k - 1;
            term *= -(4 * order * order - odd * odd) / (8 * k * (long double)a);
            sum += term;
            if (std::fabs(term) < 1e-19L) break;
        }
        if (std::isinf(a)) return order ? x : a;
        sum *= std::exp((long double)a) / std::sqrt(2 * 3.14159265358979323846L * a);
    } else {
        sum = term = order ? a / 2 : 1;
        for (int k = 1; k < 200; ++k) {
            term *= (long double)a * a / 4 / ((long double)k * (k + order));
            sum += term;
            if (term < 1e-20L * sum) break;
        }
    }
    return order ? std::copysign((double)sum, x) : (double)sum;
}
GRAPHCAP_FUNCTION double bessel_i0(double x) { return bessel_i(0, x); }
GRAPHCAP_FUNCTION double bessel_i1(double x) { return bessel_i(1, x); }

template <class T> GRAPHCAP_FUNCTION double length(int n, const T *x) {
    double result = 0;
    for (int i = 0; i < n; ++i) result = std::hypot(result, (double)x[i]);
    return result;
}

}  // namespace graphcap_detail

#endif
