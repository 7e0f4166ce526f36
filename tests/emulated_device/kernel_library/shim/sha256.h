// SHA-256 (FIPS 180-4), for the keys of the compile cache.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kernel_library {

class Sha256 {
   public:
    // The length goes in too, so that neighbouring fields cannot run into each other.
    Sha256& field(std::string_view bytes);
    std::string hex();

   private:
    void update(const unsigned char* data, size_t size);
    void block(const unsigned char* data);

    uint32_t state_[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    unsigned char pending_[64];
    uint64_t total_ = 0;
};

}  // namespace kernel_library
