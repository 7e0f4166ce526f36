// The kernels of the Fourier transform stand-in. A block transforms some of the batch, in double precision: a recursive
// decimation in time over factors up to 13 (Cooley, Tukey 1965), and for other lengths a convolution with a chirp whose
// length is a power of two (Bluestein 1970). Nothing is normalised, as in cuFFT.
#include "graphcap_kernel.h"

#include "fft_calls.h"
#include "scalars.h"

#include <algorithm>

namespace standins {
namespace {

typedef complex<float> cfloat;
typedef complex<double> cdouble;

constexpr double pi = 3.14159265358979323846;

cdouble unit(int64_t numerator, int64_t denominator, int sign) {
    const double angle = 2 * pi * static_cast<double>(numerator % denominator) / static_cast<double>(denominator);
    return {std::cos(angle), sign * std::sin(angle)};
}

// The powers of the n-th root of one.
void fill_roots(cdouble* roots, int64_t n, int sign) {
    for (int64_t i = 0; i < n; ++i) roots[i] = unit(i, n, sign);
}

// out = transform of n elements of `in`, `step` apart; `roots` are those of the whole length `root_step * n`.
void by_factors(const cdouble* in, int64_t step, cdouble* out, int64_t n, const cdouble* roots, int64_t root_step) {
    if (n == 1) {
        out[0] = in[0];
        return;
    }
    int64_t p = 2;
    while (n % p) ++p;
    const int64_t m = n / p, whole = n * root_step;
    for (int64_t r = 0; r < p; ++r) by_factors(in + r * step, step * p, out + r * m, m, roots, root_step * p);
    cdouble term[13];
    for (int64_t k = 0; k < m; ++k) {
        for (int64_t r = 0; r < p; ++r) term[r] = out[r * m + k] * roots[r * k * root_step];
        if (p == 2) {
            out[k] = term[0] + term[1];
            out[m + k] = term[0] - term[1];
            continue;
        }
        for (int64_t q = 0; q < p; ++q) {
            cdouble sum = term[0];
            for (int64_t r = 1; r < p; ++r) sum += term[r] * roots[r * q % p * (whole / p)];
            out[q * m + k] = sum;
        }
    }
}

// A transform of one length and direction, with its tables in the scratch memory that it was given.
class Transform {
  public:
    void prepare(int64_t n, int sign, cdouble* scratch) {
        if (n == n_ && sign == sign_) return;
        n_ = n, sign_ = sign, m_ = working_length(n);
        roots_ = scratch, scratch += m_;
        chirp_ = scratch, scratch += m_;
        kernel_ = scratch, scratch += m_;
        first_ = scratch, scratch += m_;
        second_ = scratch;
        fill_roots(roots_, m_, m_ == n_ ? sign : -1);
        if (m_ == n_) return;
        for (int64_t i = 0; i < n_; ++i) chirp_[i] = unit(i * i % (2 * n_), 2 * n_, sign_);
        std::fill(first_, first_ + m_, cdouble());
        for (int64_t i = 0; i < n_; ++i) first_[i] = first_[(m_ - i) % m_] = conjugate(chirp_[i]);
        by_factors(first_, 1, kernel_, m_, roots_, 1);
    }

    void run(const cdouble* in, cdouble* out) {
        if (m_ == n_) {
            by_factors(in, 1, out, n_, roots_, 1);
            return;
        }
        std::fill(first_, first_ + m_, cdouble());
        for (int64_t i = 0; i < n_; ++i) first_[i] = in[i] * chirp_[i];
        by_factors(first_, 1, second_, m_, roots_, 1);
        // The inverse transform of a product is the conjugate of the forward one of its conjugate.
        for (int64_t i = 0; i < m_; ++i) second_[i] = conjugate(second_[i] * kernel_[i]);
        by_factors(second_, 1, first_, m_, roots_, 1);
        for (int64_t i = 0; i < n_; ++i) {
            const cdouble value = conjugate(first_[i]) * chirp_[i];
            out[i] = {value.re / static_cast<double>(m_), value.im / static_cast<double>(m_)};
        }
    }

  private:
    int64_t n_ = 0, m_ = 0;
    int sign_ = 0;
    cdouble *roots_ = nullptr, *chirp_ = nullptr, *kernel_ = nullptr, *first_ = nullptr, *second_ = nullptr;
};

// Where the element `index` of the box `length` (or its half along the last axis) lies.
int64_t place(const layout& where, const int64_t* index, int axes) {
    int64_t at = 0;
    for (int i = 0; i < axes; ++i) at = at * where.box[i] + index[i];
    return at * where.stride;
}

// Calls `one(number, index)` for every element of the box.
template <class One> void each(const int64_t* length, int axes, One one) {
    int64_t index[most_axes] = {}, total = 1;
    for (int i = 0; i < axes; ++i) total *= length[i];
    for (int64_t number = 0; number < total; ++number) {
        one(number, index);
        for (int i = axes - 1; i >= 0 && ++index[i] == length[i]; --i) index[i] = 0;
    }
}

cdouble widen(float x) { return {x, 0}; }
cdouble widen(double x) { return {x, 0}; }
cdouble widen(cfloat x) { return {x.re, x.im}; }
cdouble widen(cdouble x) { return x; }
void narrow(cdouble x, float& out) { out = static_cast<float>(x.re); }
void narrow(cdouble x, double& out) { out = x.re; }
void narrow(cdouble x, cfloat& out) { out = cfloat(x); }
void narrow(cdouble x, cdouble& out) { out = x; }

template <class T> struct is_real { static constexpr bool value = false; };
template <> struct is_real<float> { static constexpr bool value = true; };
template <> struct is_real<double> { static constexpr bool value = true; };

template <class In, class Out> void transform(fft_call call) {
    const int axes = call.axes;
    int64_t total = 1, longest = 1, half[most_axes] = {};
    for (int i = 0; i < axes; ++i) {
        total *= call.length[i];
        longest = std::max(longest, working_length(call.length[i]));
        half[i] = i == axes - 1 ? call.length[i] / 2 + 1 : call.length[i];
    }
    auto* box = reinterpret_cast<cdouble*>(static_cast<char*>(call.scratch) + GRAPHCAP_BLOCK_X * call.scratch_bytes);
    cdouble *line = box + total, *moved = line + longest, *tables = moved + longest;
    Transform one;
    for (int64_t batch = GRAPHCAP_BLOCK_X; batch < call.batch; batch += GRAPHCAP_GRID_X) {
        const In* in = static_cast<const In*>(call.in) + batch * call.from.distance;
        each(call.length, axes, [&](int64_t number, const int64_t* index) {
            int64_t source[most_axes] = {};
            std::copy(index, index + axes, source);
            bool mirrored = false;
            if (is_real<Out>::value && index[axes - 1] >= half[axes - 1]) {  // what a real result leaves out
                mirrored = true;
                for (int i = 0; i < axes; ++i) source[i] = (call.length[i] - index[i]) % call.length[i];
            }
            const cdouble value = widen(in[place(call.from, source, axes)]);
            box[number] = mirrored ? conjugate(value) : value;
        });
        int64_t step = total;
        for (int axis = 0; axis < axes; ++axis) {
            const int64_t n = call.length[axis], above = total / step;
            step /= n;
            one.prepare(n, call.sign, tables);
            for (int64_t a = 0; a < above; ++a)
                for (int64_t b = 0; b < step; ++b) {
                    cdouble* start = box + a * n * step + b;
                    for (int64_t i = 0; i < n; ++i) line[i] = start[i * step];
                    one.run(line, moved);
                    for (int64_t i = 0; i < n; ++i) start[i * step] = moved[i];
                }
        }
        Out* out = static_cast<Out*>(call.out) + batch * call.to.distance;
        each(call.length, axes, [&](int64_t number, const int64_t* index) {
            if (is_real<In>::value && index[axes - 1] >= half[axes - 1]) return;
            narrow(box[number], out[place(call.to, index, axes)]);
        });
    }
}

#define REGISTER(name, ...) graphcap_detail::entry<decltype(&__VA_ARGS__)>::of<&__VA_ARGS__> entry_##name(#name);
REGISTER(c2c, transform<cfloat, cfloat>)
REGISTER(r2c, transform<float, cfloat>)
REGISTER(c2r, transform<cfloat, float>)
REGISTER(z2z, transform<cdouble, cdouble>)
REGISTER(d2z, transform<double, cdouble>)
REGISTER(z2d, transform<cdouble, double>)

}  // namespace
}  // namespace standins
