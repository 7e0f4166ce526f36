#include "graph_run.h"

#include "executable.h"
#include "execute.h"
#include "memory.h"

namespace emulator {

Launch::~Launch() = default;

namespace graph_run {
namespace {

Ref<Frame> enter(const Ref<Launch>& launch, const Ref<Plan>& plan) {
    auto frame = make<Frame>();
    frame->plan = plan;
    frame->launch = launch;
    frame->remaining = static_cast<unsigned>(plan->steps.size());
    frame->waiting.reserve(plan->steps.size());
    for (const auto& step : plan->steps) frame->waiting.push_back(step.predecessors);
    return frame;
}

void step_ready(const Ref<Frame>& frame, unsigned step) {
    if (!frame->parent && !frame->launch->waits.empty()) {
        auto found = frame->launch->waits.find(step);
        if (found != frame->launch->waits.end() && !found->second->done) {
            found->second->successors.push_back({{}, frame, step});
            return;
        }
    }
    scheduler::push_step(frame, step);
}

void finish_frame(const Ref<Frame>& frame) {
    if (!frame->parent) {
        scheduler::complete(Ref<Work>(frame->launch.get()));
        return;
    }
    const Ref<Frame> parent = frame->parent;
    const auto& operation =
        static_cast<const ConditionalOperation&>(*parent->plan->steps[frame->parent_step].operation);
    if (operation.kind == CU_GRAPH_COND_TYPE_WHILE && frame->launch->context->sticky == CUDA_SUCCESS) {
        scheduler::push_step(parent, frame->parent_step);  // decides anew
        return;
    }
    finish_step(parent, frame->parent_step);
}

}  // namespace

void start(const Ref<Launch>& launch) {
    for (CUdeviceptr pointer : launch->free_first) memory::graph_release(pointer);
    auto frame = enter(launch, launch->plan);
    for (unsigned root : launch->plan->roots) step_ready(frame, root);
}

void release(Launch& launch) {
    const Ref<Executable> executable = std::move(launch.executable);
    if (executable && executable->last.get() == &launch) executable->last = {};
    launch.executable = {};
    launch.records.clear();
    launch.waits.clear();
}

bool enter_conditional(const Ref<Frame>& frame, unsigned step) {
    const Step& node = frame->plan->steps[step];
    const auto& operation = static_cast<const ConditionalOperation&>(*node.operation);
    const unsigned value = frame->launch->conditions[operation.condition];
    size_t body = node.bodies.size();  // none
    switch (operation.kind) {
        case CU_GRAPH_COND_TYPE_IF:
            body = value ? 0 : 1;
            break;
        case CU_GRAPH_COND_TYPE_WHILE:
            body = value ? 0 : node.bodies.size();
            break;
        default:
            body = value;
    }
    if (body >= node.bodies.size()) return false;
    if (node.bodies[body]->steps.empty()) {
        // An empty WHILE body can never change its condition; the device would spin for ever. Say so instead.
        if (operation.kind != CU_GRAPH_COND_TYPE_WHILE) return false;
        frame->launch->context->sticky = CUDA_ERROR_LAUNCH_TIMEOUT;
        note("a WHILE node with an empty body and a nonzero condition never ends");
        return false;
    }
    auto inner = enter(frame->launch, node.bodies[body]);
    inner->parent = frame;
    inner->parent_step = step;
    for (unsigned root : inner->plan->roots) scheduler::push_step(inner, root);
    return true;
}

void finish_step(const Ref<Frame>& frame, unsigned step) {
    if (!frame->parent && !frame->launch->records.empty()) {
        auto found = frame->launch->records.find(step);
        if (found != frame->launch->records.end()) scheduler::complete(found->second);
    }
    for (unsigned next : frame->plan->steps[step].successors)
        if (--frame->waiting[next] == 0) step_ready(frame, next);
    if (--frame->remaining == 0) finish_frame(frame);
}

}  // namespace graph_run
}  // namespace emulator
