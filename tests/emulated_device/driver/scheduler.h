// Work that was submitted and not yet done, and the order it is done in.
//
// Nothing runs at submission. Whoever waits (a synchronising call), or the worker thread once submissions have stopped for
// a moment, takes ready pieces in an order drawn from the seed among all that the dependencies allow.
#pragma once

#include <chrono>
#include <unordered_map>

#include "call.h"

namespace emulator {

struct Plan;
struct Frame;

struct Successor {
    Ref<Work> work;    // either a piece of stream work
    Ref<Frame> frame;  // or a node of a running graph
    unsigned node = 0;
};

struct Work : Counted {
    Ref<Operation> operation;
    Ref<Context> context;
    unsigned pending = 1;  // unfinished predecessors, and one until submitted
    bool done = false;
    bool stamped = false;  // its time of completion is wanted
    uint64_t completed_ns = 0;
    std::vector<Successor> successors;
    virtual bool is_launch() const { return false; }
    ~Work() override;
};

// A piece of a plan: one node, ready to run.
struct Step {
    Ref<Operation> operation;
    std::vector<unsigned> successors;
    unsigned predecessors = 0;
    bool enabled = true;
    std::vector<Ref<Plan>> bodies;
    unsigned node_index = 0;
};

// An executable graph made ready to run: child graphs are spliced in, conditional bodies are plans of their own.
struct Plan : Counted {
    std::vector<Step> steps;
    std::vector<unsigned> roots;
    std::vector<unsigned> event_steps;  // in an order that follows the edges
    Context* context = nullptr;
};

struct Launch : Work {
    bool is_launch() const override { return true; }
    Ref<Executable> executable;
    Ref<Plan> plan;
    std::unordered_map<CUgraphConditionalHandle, unsigned> conditions;
    std::unordered_map<unsigned, Ref<Work>> records;  // step -> marker of the event it records
    std::unordered_map<unsigned, Ref<Work>> waits;    // step -> marker of the event it waits for
    std::vector<CUdeviceptr> free_first;              // auto-free on launch
    ~Launch() override;
};

struct Frame : Counted {
    Ref<Plan> plan;
    Ref<Launch> launch;
    Ref<Frame> parent;
    unsigned parent_step = 0;
    unsigned body = 0;
    unsigned remaining = 0;
    std::vector<unsigned> waiting;
};

namespace scheduler {

void seed(uint64_t value);
uint64_t seed();
// Puts `work` behind `stream`'s earlier work and the legacy stream's implicit order; `extra` are further predecessors.
void submit(Stream& stream, const Ref<Work>& work);
void depend(Work& work, const Ref<Work>& predecessor);
// Finishes a marker that belongs to a graph's event node.
void complete(const Ref<Work>& work);
void wait(Lock& lock, const Ref<Work>& work);
// Waits until `context` has nothing unfinished.
void wait_idle(Lock& lock, Context& context);
void wait_all_idle(Lock& lock);
// Runs `action` on the thread that runs host functions.
void on_callback_thread(std::function<void()> action);
// Somebody asked whether work is done, and it is not.
void poll();
uint64_t now_ns();
void add_latest(Stream& stream, std::vector<Ref<Work>>& out);
size_t unfinished();

}  // namespace scheduler
}  // namespace emulator
