// The kernels of the random number stand-in: one thread draws in order, so that results do not depend on the order of threads.
//
// The generator is Philox4x32-10 after Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3" (2011), with
// the position as counter. Normal numbers are made by the method of Box and Muller, Poisson numbers by Knuth's products
// (rates below 10) and by Hoermann's transformed rejection PTRS ("The transformed rejection method for generating Poisson random
// variables", 1993). None of the sequences is NVIDIA's.
#include "graphcap_kernel.h"

#include "rand_calls.h"

#include <cmath>

namespace standins {
namespace {

class Sequence {
  public:
    explicit Sequence(const rand_state& state) : seed_(state.seed), position_(state.position), kind_(state.kind) { refill(); }

    uint32_t next() {
        const uint32_t out = words_[position_ & 3];
        if ((++position_ & 3) == 0) refill();
        return out;
    }
    uint64_t position() const { return position_; }

    // In (0, 1], as cuRAND documents.
    float single() { return static_cast<float>((next() >> 8) + 1) * 0x1p-24f; }
    double twice() {
        const uint64_t high = next() >> 5, low = next() >> 6;
        return static_cast<double>(high * 67108864u + low + 1) * 0x1p-53;
    }

  private:
    void refill() {
        const uint64_t block = position_ / 4;
        uint32_t c[4] = {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, kind_};
        uint32_t key[2] = {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)};
        for (int round = 0; round < 10; ++round) {
            const uint64_t a = 0xD2511F53ull * c[0], b = 0xCD9E8D57ull * c[2];
            const uint32_t mixed[4] = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ key[0], static_cast<uint32_t>(b),
                                       static_cast<uint32_t>(a >> 32) ^ c[3] ^ key[1], static_cast<uint32_t>(a)};
            for (int i = 0; i < 4; ++i) c[i] = mixed[i];
            key[0] += 0x9E3779B9u;
            key[1] += 0xBB67AE85u;
        }
        for (int i = 0; i < 4; ++i) words_[i] = c[i];
    }

    uint64_t seed_, position_;
    uint32_t kind_, words_[4] = {};
};

void seed(rand_call call) { *call.state = call.fresh; }

// Runs a draw and keeps the position.
template <class Draw> void draw(const rand_call& call, Draw one) {
    Sequence sequence(*call.state);
    for (uint64_t i = 0; i < call.n; ++i) one(sequence, i);
    call.state->position = sequence.position();
}

void bits(rand_call call) {
    auto* out = static_cast<uint32_t*>(call.out);
    draw(call, [&](Sequence& s, uint64_t i) { out[i] = s.next(); });
}

void uniform(rand_call call) {
    auto* out = static_cast<float*>(call.out);
    draw(call, [&](Sequence& s, uint64_t i) { out[i] = s.single(); });
}

void uniform_double(rand_call call) {
    auto* out = static_cast<double*>(call.out);
    draw(call, [&](Sequence& s, uint64_t i) { out[i] = s.twice(); });
}

// A pair for each even i; n is even.
template <class T, bool exponential> void normal(rand_call call) {
    auto* out = static_cast<T*>(call.out);
    draw(call, [&](Sequence& s, uint64_t i) {
        if (i & 1) return;
        const double first = sizeof(T) == 4 ? s.single() : s.twice(), second = sizeof(T) == 4 ? s.single() : s.twice();
        const double radius = std::sqrt(-2 * std::log(first)), angle = 2 * 3.14159265358979323846 * second;
        const double pair[2] = {call.first + call.second * radius * std::cos(angle),
                                call.first + call.second * radius * std::sin(angle)};
        for (int j = 0; j < 2; ++j) out[i + j] = static_cast<T>(exponential ? std::exp(pair[j]) : pair[j]);
    });
}

uint32_t poisson_by_products(Sequence& s, double rate) {
    const double limit = std::exp(-rate);
    uint32_t count = 0;
    for (double product = s.twice(); product > limit; product *= s.twice()) ++count;
    return count;
}

uint32_t poisson_by_rejection(Sequence& s, double rate) {
    const double b = 0.931 + 2.53 * std::sqrt(rate), a = -0.059 + 0.02483 * b, inverse = 1.1239 + 1.1328 / (b - 3.4);
    const double accepted = 0.9277 - 3.6224 / (b - 2), logarithm = std::log(rate);
    for (;;) {
        const double u = s.twice() - 0.5, v = s.twice(), distance = 0.5 - std::fabs(u);
        if (distance <= 0) continue;
        const double k = std::floor((2 * a / distance + b) * u + rate + 0.43);
        if (distance >= 0.07 && v <= accepted) return static_cast<uint32_t>(k);
        if (k < 0 || (distance < 0.013 && v > distance)) continue;
        if (std::log(v) + std::log(inverse) - std::log(a / (distance * distance) + b) <= -rate + k * logarithm - std::lgamma(k + 1))
            return static_cast<uint32_t>(k);
    }
}

void poisson(rand_call call) {
    auto* out = static_cast<uint32_t*>(call.out);
    const double rate = call.first;
    draw(call, [&](Sequence& s, uint64_t i) { out[i] = rate < 10 ? poisson_by_products(s, rate) : poisson_by_rejection(s, rate); });
}

#define REGISTER(name, ...) graphcap_detail::entry<decltype(&__VA_ARGS__)>::of<&__VA_ARGS__> entry_##name(#name);
REGISTER(seed, seed)
REGISTER(bits, bits)
REGISTER(uniform, uniform)
REGISTER(uniform_double, uniform_double)
REGISTER(normal, normal<float, false>)
REGISTER(normal_double, normal<double, false>)
REGISTER(log_normal, normal<float, true>)
REGISTER(log_normal_double, normal<double, true>)
REGISTER(poisson, poisson)

}  // namespace
}  // namespace standins
