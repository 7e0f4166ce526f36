#include "sha256.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace kernel_library {
namespace {

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
const uint32_t* round_constants() {
    static const auto table = [] {
        struct {
            uint32_t k[64];
        } made{};
        int found = 0;
        for (unsigned n = 2; found < 64; ++n) {
            bool prime = true;
            for (unsigned d = 2; d * d <= n; ++d) prime &= n % d != 0;
            if (prime) {
                const long double root = std::cbrt(static_cast<long double>(n));
                made.k[found++] = static_cast<uint32_t>((root - std::floor(root)) * 4294967296.0L);
            }
        }
        return made;
    }();
    return table.k;
}

uint32_t turn(uint32_t x, int n) { return x >> n | x << (32 - n); }

}  // namespace

void Sha256::block(const unsigned char* data) {
    uint32_t w[64];
    for (int i = 0; i < 16; ++i)
        w[i] = uint32_t{data[4 * i]} << 24 | uint32_t{data[4 * i + 1]} << 16 | uint32_t{data[4 * i + 2]} << 8 | data[4 * i + 3];
    for (int i = 16; i < 64; ++i) {
        const uint32_t s0 = turn(w[i - 15], 7) ^ turn(w[i - 15], 18) ^ w[i - 15] >> 3;
        const uint32_t s1 = turn(w[i - 2], 17) ^ turn(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    uint32_t v[8];
    std::memcpy(v, state_, sizeof v);
    const uint32_t* k = round_constants();
    for (int i = 0; i < 64; ++i) {
        const uint32_t s1 = turn(v[4], 6) ^ turn(v[4], 11) ^ turn(v[4], 25);
        const uint32_t t1 = v[7] + s1 + ((v[4] & v[5]) ^ (~v[4] & v[6])) + k[i] + w[i];
        const uint32_t s0 = turn(v[0], 2) ^ turn(v[0], 13) ^ turn(v[0], 22);
        const uint32_t t2 = s0 + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
        for (int j = 7; j > 0; --j) v[j] = v[j - 1];
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (int i = 0; i < 8; ++i) state_[i] += v[i];
}

void Sha256::update(const unsigned char* data, size_t size) {
    while (size) {
        const size_t used = total_ % 64, take = std::min<size_t>(64 - used, size);
        std::memcpy(pending_ + used, data, take);
        total_ += take;
        data += take;
        size -= take;
        if (total_ % 64 == 0) block(pending_);
    }
}

Sha256& Sha256::field(std::string_view bytes) {
    unsigned char length[8];
    for (int i = 0; i < 8; ++i) length[i] = static_cast<unsigned char>(static_cast<uint64_t>(bytes.size()) >> (8 * i));
    update(length, sizeof length);
    update(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    return *this;
}

std::string Sha256::hex() {
    const uint64_t bits = total_ * 8;
    const unsigned char one = 0x80, zero = 0;
    update(&one, 1);
    while (total_ % 64 != 56) update(&zero, 1);
    unsigned char length[8];
    for (int i = 0; i < 8; ++i) length[i] = static_cast<unsigned char>(bits >> (56 - 8 * i));
    update(length, sizeof length);
    std::string out;
    for (const uint32_t word : state_)
        for (int shift = 28; shift >= 0; shift -= 4) out += "0123456789abcdef"[word >> shift & 15];
    return out;
}

}  // namespace kernel_library
