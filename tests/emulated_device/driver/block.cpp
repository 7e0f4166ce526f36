// The block that runs: which thread goes on, barriers, threads that wait for ever.
#include "block.h"

#include <utility>

namespace emulator {

Grid& grid = *new Grid;  // never destroyed: worker threads may outlive static destructors

namespace block {
namespace {

std::string triple(const unsigned* at) {
    return "(" + std::to_string(at[0]) + ", " + std::to_string(at[1]) + ", " + std::to_string(at[2]) + ")";
}

// "0-15, 20", of the threads of all warps; their number comes first.
std::string threads_of(const unsigned (&lanes)[32]) {
    std::string list;
    unsigned total = 0, ranges = 0;
    for (unsigned i = 0; i < 1024;) {
        if (!(lanes[i / 32] >> i % 32 & 1)) {
            ++i;
            continue;
        }
        unsigned end = i;
        while (end < 1024 && (lanes[end / 32] >> end % 32 & 1)) ++end;
        total += end - i;
        if (++ranges <= 6) {
            if (!list.empty()) list += ", ";
            list += std::to_string(i);
            if (end - i > 1) list += "-" + std::to_string(end - 1);
        } else if (ranges == 7) {
            list += ", …";
        }
        i = end;
    }
    return std::to_string(total) + (total == 1 ? " thread (" : " threads (") + list + ")";
}

// Nothing can go on and not everything has finished.
[[noreturn]] void stuck() {
    std::string what = "kernel " + grid.code->name + ", block " + triple(grid.state->block) + ": threads wait for ever:";
    unsigned lanes[32];
    if (grid.waiting) {
        for (unsigned w = 0; w < 32; ++w) lanes[w] = grid.warps[w].at_barrier;
        what += " " + threads_of(lanes) + " at a barrier;";
    }
    unsigned told = 0;
    for (unsigned w = 0; w < (grid.count + 31) / 32; ++w)
        for (const Meeting* meeting = grid.warps[w].open; meeting; meeting = meeting->next) {
            if (++told > 4) continue;
            for (unsigned& one : lanes) one = 0;
            lanes[w] = meeting->lanes.present;
            char mask[16];
            std::snprintf(mask, sizeof mask, "0x%08x", meeting->mask);
            what += " " + threads_of(lanes) + " in a warp operation with the mask " + mask;
            lanes[w] = meeting->mask & ~meeting->lanes.present & ~grid.warps[w].returned;
            what += ", without " + threads_of(lanes) + ";";
        }
    if (told > 4) what += " and " + std::to_string(told - 4) + " more warp operations;";
    what.back() = '.';
    grid.trouble = std::move(what);
    fail(CUDA_ERROR_LAUNCH_FAILED);
}

void leave_barrier() {
    grid.met = grid.waiting;
    grid.met_predicates = grid.predicates;
    grid.waiting = grid.predicates = 0;
    for (unsigned w = 0; w < (grid.count + 31) / 32; ++w) {
        make_runnable(w, grid.warps[w].at_barrier);
        grid.warps[w].at_barrier = 0;
    }
}

// From here on it is known of each thread whether it has finished.
void begin_to_wait() {
    grid.waits = true;
    const unsigned warps = (grid.count + 31) / 32;
    for (unsigned w = 0; w < warps; ++w) grid.warps[w].returned = grid.warps[w].runnable = grid.warps[w].at_barrier = 0;
    if (grid.count % 32) grid.warps[warps - 1].returned = ~0u << grid.count % 32;
    grid.ready_warps = 0;
}

bool begin_block() {
    if (grid.blocks_begun == grid.blocks) return false;
    unsigned* at = grid.state->block;
    if (grid.block_step == 1 && grid.first_block == 0) {
        if (grid.blocks_begun == 0) {
            at[0] = at[1] = at[2] = 0;
        } else if (++at[0] == grid.size[0]) {
            at[0] = 0;
            if (++at[1] == grid.size[1]) {
                at[1] = 0;
                ++at[2];
            }
        }
    } else {
        const uint64_t n = (grid.first_block + grid.blocks_begun * grid.block_step) % grid.blocks;
        at[0] = static_cast<unsigned>(n % grid.size[0]);
        at[1] = static_cast<unsigned>(n / grid.size[0] % grid.size[1]);
        at[2] = static_cast<unsigned>(n / grid.size[0] / grid.size[1]);
    }
    ++grid.blocks_begun;
    grid.finished = 0;
    grid.next = grid.order.data();
    grid.last = grid.next + grid.count;
    if (grid.waits) begin_to_wait();
    return true;
}

// The warp whose lanes go on: the one that ran, as long as it can, then any other that can. 32: threads that have not
// begun are to begin. 33: nothing can go on.
constexpr unsigned fresh = 32, none = 33;

unsigned choose_warp() {
    const bool more = grid.next != grid.last;
    if (grid.shuffled) {
        const uint32_t r = order::draw();
        if (more && (!grid.ready_warps || !(r & 7))) return fresh;
        if (grid.ready_warps && !(r & 0x38)) return order::choose(grid.ready_warps, grid.warp);
    }
    if (grid.ready_warps >> grid.warp & 1) return grid.warp;
    if (more && grid.next->linear / 32 == grid.warp) return fresh;
    if (grid.ready_warps) return order::choose(grid.ready_warps, grid.warp);
    return more ? fresh : none;
}

Fiber& take_runnable(unsigned w) {
    Warp& warp = grid.warps[w];
    const unsigned lane = order::choose(warp.runnable, 0);
    warp.runnable &= ~(1u << lane);
    if (!warp.runnable) grid.ready_warps &= ~(1u << w);
    grid.warp = w;
    return *grid.parked[w * 32 + lane];
}

void go(Fiber& to) {
    Fiber& from = *grid.current;
    grid.current = &to;
    fiber::go(from, to);
}

void stack_main() {
    fiber::arrived();
    try {
        grid.code->entry->run(grid.parameters);
    } catch (const std::exception& error) {
        grid.result = CUDA_ERROR_LAUNCH_FAILED;
        grid.trouble = place() + ": an exception left it: " + error.what();
    } catch (...) {
        grid.result = CUDA_ERROR_LAUNCH_FAILED;
        grid.trouble = place() + ": an exception left it";
    }
    fiber::leaving(*std::exchange(grid.current, &grid.native));
}

Fiber& stack_for_threads() {
    if (grid.idle.empty()) return *fiber::take(stack_main, grid.native);
    Fiber* fiber = grid.idle.back();
    grid.idle.pop_back();
    return *fiber;
}

}  // namespace

void run_grid() {
    grid.finished = grid.count;  // so that the first block begins
    go(*fiber::take(stack_main, grid.native));
}

void fail(CUresult result) {
    grid.result = result;
    go(grid.native);
    __builtin_unreachable();
}

std::string place() {
    return "kernel " + grid.code->name + ", block " + triple(grid.state->block) + ", thread " + triple(grid.state->thread);
}

void make_runnable(unsigned warp, unsigned lanes) {
    if (!lanes) return;
    grid.warps[warp].runnable |= lanes;
    grid.ready_warps |= 1u << warp;
}

void finish(const graphcap_thread_index* from, const graphcap_thread_index* to) {
    for (; from != to; ++from) {
        const unsigned w = from->linear / 32, lane = from->linear % 32;
        grid.warps[w].returned |= 1u << lane;
        ++grid.finished;
        warp::lane_returned(w, lane);
        if (grid.waiting && grid.waiting == grid.count - grid.finished) leave_barrier();
    }
}

void note_finished() {
    if (!grid.waits) begin_to_wait();
    const graphcap_thread_index* at = grid.state->current;
    if (grid.run != at) {
        finish(grid.run, at);
        grid.run = at;
    }
    grid.warp = at->linear / 32;
}

void wait() {
    const graphcap_thread_index* self = grid.state->current;
    if (grid.state->end != self + 1) {  // the rest of the run is somebody else's
        grid.next = self + 1;
        grid.state->end = self + 1;
    }
    grid.parked[self->linear] = grid.current;
    const unsigned w = choose_warp();
    if (w == none) stuck();
    grid.run = nullptr;
    go(w == fresh ? stack_for_threads() : take_runnable(w));
    graphcap_thread_state& state = *grid.state;
    for (int i = 0; i < 3; ++i) state.thread[i] = self->thread[i];
    state.linear = self->linear;
    state.current = grid.run = self;
    state.end = self + 1;
}

int next_run() {
    graphcap_thread_state& state = *grid.state;
    if (grid.run) {
        if (grid.waits)
            finish(grid.run, state.end);
        else
            grid.finished += static_cast<unsigned>(state.end - grid.run);
        grid.run = nullptr;
    }
    for (;;) {
        if (grid.finished == grid.count && !begin_block()) return 0;
        const unsigned w = choose_warp();
        if (w == fresh) break;
        if (w == none) stuck();
        grid.idle.push_back(grid.current);
        go(take_runnable(w));
        // Somebody wants this stack to take threads that have not begun.
    }
    state.current = grid.run = grid.next;
    if (!grid.waits) {
        grid.next = grid.last;
    } else {  // no further than the warp, whose lanes will wait for each other
        grid.warp = grid.run->linear / 32;
        do ++grid.next;
        while (grid.next != grid.last && grid.next->linear / 32 == grid.warp);
    }
    state.end = grid.next;
    return 1;
}

void barrier() {
    note_finished();
    if (++grid.waiting == grid.count - grid.finished) {
        leave_barrier();
        return;
    }
    const unsigned linear = grid.state->linear;
    grid.warps[linear / 32].at_barrier |= 1u << linear % 32;
    wait();
}

unsigned barrier_count(unsigned predicate, unsigned* arrived) {
    grid.predicates += predicate != 0;
    barrier();
    if (arrived) *arrived = grid.met;
    return grid.met_predicates;
}

}  // namespace block
}  // namespace emulator
