// The grid that runs, its block, and the warps of that: what the parts of the thread runtime share. One grid runs at a
// time, its blocks one after another.
//
// A thread runs until it returns or has to wait. One stack works through many threads, as long as none of them waits; one
// that does keeps the stack, and another stack goes on taking threads. So kernels that never wait cost a plain loop, and
// need not be known as such beforehand.
#pragma once

#include <string>
#include <vector>

#include "fiber.h"
#include "kernel.h"

namespace emulator {

struct Launch;

// Lanes of a warp that wait for each other. What they gave stays valid until the last of them has come to its next meeting.
struct Meeting {
    graphcap_lanes lanes;
    unsigned mask = 0;
    unsigned readers = 0;  // lanes that may still look at it
    Meeting* next = nullptr;
};

struct Warp {
    unsigned returned = 0;    // lanes that have finished, and those that do not exist
    unsigned runnable = 0;    // lanes that wait no longer, and have not gone on yet
    unsigned at_barrier = 0;  // lanes that wait at the block's barrier
    Meeting* open = nullptr;  // meetings that are not complete
    Meeting* seen[32] = {};   // the last one of each lane
};

struct Grid {
    const KernelCode* code = nullptr;
    graphcap_thread_state* state = nullptr;  // of the image
    void** parameters = nullptr;
    Launch* launch = nullptr;
    CUresult result = CUDA_SUCCESS;
    std::string trouble;  // what went wrong, in words

    // Blocks.
    unsigned size[3] = {0, 0, 0};  // of the grid
    uint64_t blocks = 0, blocks_begun = 0, first_block = 0, block_step = 1;

    // Threads of the block, in the order in which they begin.
    std::vector<graphcap_thread_index> order;
    const graphcap_thread_index *next = nullptr, *last = nullptr;  // threads that have not begun
    const graphcap_thread_index* run = nullptr;                    // first thread of the run that goes on; null: none does
    unsigned count = 0, finished = 0, waiting = 0;                 // threads; waiting: at the barrier
    unsigned predicates = 0, met_predicates = 0, met = 0;          // of the barrier that fills, and of the one before

    // Warps. Kept only once a thread of the launch has waited.
    bool waits = false;
    unsigned warp = 0;         // the one that runs
    unsigned ready_warps = 0;  // those with runnable lanes
    Warp warps[32];
    Fiber* parked[1024] = {};

    Fiber native;  // the driver's thread
    Fiber* current = &native;
    std::vector<Fiber*> idle;  // stacks that wait for threads to run

    bool shuffled = false;
    uint64_t random = 1;
};

extern Grid& grid;

namespace order {
// Forgets how threads were ordered and draws from this seed; 0 is the natural order.
void seed(uint64_t value);
uint32_t draw();
// Fills in the order of threads and of blocks of a launch.
void arrange(const unsigned block[3]);
// Which of the bits (there is at least one): the lowest above `last`, cyclically, or any.
unsigned choose(unsigned bits, unsigned last);
}  // namespace order

namespace block {

// Runs the grid; returns when all of it has run, or with an error in `grid`.
void run_grid();
// Gives up the grid with an error, told in `grid.trouble`. Called on a stack of a kernel.
[[noreturn]] void fail(CUresult result);
// "kernel f, block (0, 1, 0), thread (3, 0, 0)", of the running thread.
std::string place();

// The running thread waits: all threads before it in its run have finished. First call of whatever makes a thread wait.
void note_finished();
// Leaves the running thread aside and goes on with another; returns when it is made runnable.
void wait();
void make_runnable(unsigned warp, unsigned lanes);
// The threads between have returned.
void finish(const graphcap_thread_index* from, const graphcap_thread_index* to);

int next_run();
void barrier();
unsigned barrier_count(unsigned predicate, unsigned* arrived);

}  // namespace block

namespace warp {

const graphcap_lanes* meet(unsigned mask, unsigned long long value);
// A lane has returned: meetings do without it.
void lane_returned(unsigned warp, unsigned lane);
// All meetings are over.
void forget_all();

}  // namespace warp
}  // namespace emulator
