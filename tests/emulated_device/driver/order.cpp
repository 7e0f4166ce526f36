// In which order blocks and threads begin, and which of several threads goes on.
//
// Seed 0 is the natural order: blocks and threads by their numbers, a warp that has begun before other warps. Any other
// seed draws: the order of blocks, of warps, of lanes within their warp, and at each step which of the threads that could
// go on does. A kernel that lacks a barrier, or that races between blocks, gives different results under different seeds.
#include <algorithm>
#include <numeric>

#include "block.h"

namespace emulator::order {

void seed(uint64_t value) {
    grid.shuffled = value != 0;
    grid.random = value * 0x9E3779B97F4A7C15u | 1;
    grid.order.clear();
}

uint32_t draw() {
    uint64_t& x = grid.random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return static_cast<uint32_t>(x >> 32);
}

unsigned choose(unsigned bits, unsigned last) {
    const unsigned start = grid.shuffled ? draw() % 32 : last;
    const unsigned above = bits >> start;
    return static_cast<unsigned>(above ? __builtin_ctz(above) + start : __builtin_ctz(bits));
}

namespace {

void shuffle(unsigned* first, unsigned count) {
    for (unsigned i = count; i > 1; --i) std::swap(first[i - 1], first[draw() % i]);
}

void shuffle_threads(unsigned count) {
    unsigned warps[32], lanes[32];
    const unsigned warp_count = (count + 31) / 32;
    std::iota(warps, warps + warp_count, 0u);
    shuffle(warps, warp_count);
    const std::vector<graphcap_thread_index> natural = grid.order;
    size_t place = 0;
    for (unsigned w = 0; w < warp_count; ++w) {
        const unsigned first = warps[w] * 32, members = std::min(32u, count - first);
        std::iota(lanes, lanes + members, first);
        shuffle(lanes, members);
        for (unsigned i = 0; i < members; ++i) grid.order[place++] = natural[lanes[i]];
    }
}

// A permutation of the blocks: i -> (first + i * step) mod blocks.
void shuffle_blocks() {
    const uint64_t n = grid.blocks;
    if (n <= 1 || n > 0xffffffffu) return;
    grid.first_block = draw() % n;
    do grid.block_step = 1 + draw() % (n - 1);
    while (std::gcd(grid.block_step, n) != 1);
}

}  // namespace

void arrange(const unsigned block[3]) {
    grid.first_block = 0;
    grid.block_step = 1;
    unsigned* size = grid.state->block_size;
    const unsigned count = block[0] * block[1] * block[2];
    static unsigned kept[3] = {0, 0, 0};
    if (grid.shuffled || grid.order.size() != count || !std::equal(block, block + 3, kept)) {
        grid.order.clear();
        for (unsigned z = 0; z < block[2]; ++z)
            for (unsigned y = 0; y < block[1]; ++y)
                for (unsigned x = 0; x < block[0]; ++x)
                    grid.order.push_back({{x, y, z}, static_cast<unsigned>(grid.order.size())});
        std::copy(block, block + 3, kept);
        if (grid.shuffled) shuffle_threads(count);
    }
    std::copy(block, block + 3, size);
    grid.count = count;
    if (grid.shuffled) shuffle_blocks();
}

}  // namespace emulator::order
