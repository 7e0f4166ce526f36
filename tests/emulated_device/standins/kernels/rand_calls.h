// What the random number stand-in hands to its kernels. Included by both.
#pragma once

#include <stdint.h>

namespace standins {

// A generator's state, in device memory: so a captured draw goes on from where the last replay ended.
struct rand_state {
    uint64_t seed, position;  // position: in numbers of 32 bits from the start of the sequence
    uint32_t kind;            // of generator; kinds differ in their sequences
};

struct rand_call {
    rand_state* state;
    void* out;
    uint64_t n;
    double first, second;  // mean and deviation; or the rate
    rand_state fresh;      // for seeding
};

}  // namespace standins
