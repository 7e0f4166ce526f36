#include "scheduler.h"

#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <thread>

#include "control.h"
#include "execute.h"
#include "faults.h"
#include "graph_run.h"
#include "kernel.h"

namespace emulator {

Work::~Work() = default;
Stream::~Stream() = default;

namespace scheduler {
namespace {

struct Ready {
    uint32_t priority;
    Ref<Work> work;
    Ref<Frame> frame;
    unsigned node;
};

struct Queue {
    std::vector<Ready> ready;
    std::deque<Ready> host;  // handed to the callback thread
    std::deque<std::function<void()>> actions;
    bool host_busy = false;
    uint64_t host_done = 0;
    size_t waiting_threads = 0;  // inside wait()
    size_t sleeping = 0;         // of them, those with nothing to run
    size_t unfinished = 0;
    uint64_t submitted = 0, polls = 0;
    bool worker_asleep = false, worker_started = false, callback_started = false;
    std::condition_variable changed, worker_wake, callback_wake;
    uint64_t seed = 0, random = 0x9E3779B97F4A7C15u;
    bool inherit = false;
    uint32_t current_priority = 0;
};

Queue& queue() {
    static auto* instance = new Queue;
    return *instance;
}

uint32_t draw() {
    auto& state = queue().random;  // splitmix64
    uint64_t z = (state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return static_cast<uint32_t>((z ^ (z >> 31)) >> 32);
}

void push(Ready entry) {
    Queue& q = queue();
    // Under half of the seeds a successor keeps its predecessor's priority, most times: one branch then runs far ahead of
    // the others, which a uniform choice at each step would hardly ever do.
    const uint32_t random = draw();
    entry.priority = q.inherit && q.current_priority && (random & 15) ? q.current_priority : (random | 1);
    q.ready.push_back(std::move(entry));
}

void make_ready(const Ref<Work>& work) {
    if (work->is_launch() && work->context->sticky == CUDA_SUCCESS) {
        auto launch = Ref<Launch>(static_cast<Launch*>(work.get()));
        if (!launch->plan->steps.empty()) {
            graph_run::start(launch);
            return;
        }
    }
    push({0, work, {}, 0});
}

void drop_predecessor(Work& work) {
    if (--work.pending == 0) make_ready(Ref<Work>(&work));
}

// Does what is ready when nobody waits for it: soon when somebody polls, else when submissions have stopped for a while.
// While they go on, or a thread waits, it keeps away, so that the order is the seed's and not the clock's.
void worker() {
    Lock lock(driver_mutex());
    Queue& q = queue();
    constexpr auto tick = std::chrono::milliseconds(1);
    static const long quiet_ticks = [] {
        const char* text = std::getenv("GRAPHCAP_EMULATED_LINGER_MS");
        return text ? std::atol(text) : 50L;
    }();
    long quiet = 0;
    uint64_t submitted = 0, polls = 0;
    for (;;) {
        q.worker_wake.wait_for(lock, tick);
        const bool polled = std::exchange(polls, q.polls) != q.polls;
        quiet = std::exchange(submitted, q.submitted) != q.submitted ? 0 : quiet + 1;
        if (q.waiting_threads || !(polled || quiet >= quiet_ticks)) continue;
        while (!q.waiting_threads && run_one(lock)) quiet = 0;
        lock.unlock();
        run_after_unlock();
        lock.lock();
        if (q.ready.empty() && quiet > 2 * quiet_ticks) {
            q.worker_asleep = true;
            q.worker_wake.wait(lock);
            q.worker_asleep = false;
            quiet = 0;
        }
    }
}

void callback_thread() {
    Lock lock(driver_mutex());
    Queue& q = queue();
    inside_callback() = true;
    for (;;) {
        q.callback_wake.wait(lock, [&] { return !q.host.empty() || !q.actions.empty(); });
        q.host_busy = true;
        if (!q.host.empty()) {
            Ready entry = std::move(q.host.front());
            q.host.pop_front();
            execute_entry(lock, entry.work, entry.frame, entry.node, entry.priority);
        } else {
            auto action = std::move(q.actions.front());
            q.actions.pop_front();
            lock.unlock();
            action();
            action = nullptr;
            lock.lock();
        }
        lock.unlock();
        run_after_unlock();
        inside_callback() = true;
        lock.lock();
        q.host_busy = false;
        ++q.host_done;
        q.changed.notify_all();
    }
}

void start_callback_thread() {
    Queue& q = queue();
    if (q.callback_started) return;
    q.callback_started = true;
    std::thread(callback_thread).detach();
}

void record_failure(Context& context, const std::string& what, CUresult result, const std::string& trouble) {
    if (context.sticky != CUDA_SUCCESS) return;
    context.sticky = result;
    note(what + " failed with " + std::to_string(result) + (trouble.empty() ? "" : ": " + trouble));
}

}  // namespace

void execute_entry(Lock& lock, const Ref<Work>& work, const Ref<Frame>& frame, unsigned node, uint32_t priority) {
    Queue& q = queue();
    Work& owner = frame ? static_cast<Work&>(*frame->launch) : *work;
    const Step* step = frame ? &frame->plan->steps[node] : nullptr;
    const Operation* operation = step ? step->operation.get() : work->operation.get();
    if (step && step->operation->type == CU_GRAPH_NODE_TYPE_CONDITIONAL && owner.context->sticky == CUDA_SUCCESS) {
        q.current_priority = priority;
        const bool entered = graph_run::enter_conditional(frame, node);
        q.current_priority = 0;
        if (entered) return;
    } else if (operation && !operation->trivial() && (!step || step->enabled) &&
               (owner.context->sticky == CUDA_SUCCESS || operation->type == CU_GRAPH_NODE_TYPE_MEM_FREE)) {
        CUresult result;
        std::string trouble;
        {
            const Ref<Operation> keep(const_cast<Operation*>(operation));
            lock.unlock();
            result = run_protected(*operation, owner, trouble);
            lock.lock();
        }
        if (result != CUDA_SUCCESS) {
            std::string what = "work in a stream: " + operation->name();
            if (step)
                what = "node " + std::to_string(step->node_index) + " of a graph launch: " + operation->name();
            record_failure(*owner.context, what, result, trouble);
        }
    }
    q.current_priority = priority;
    if (frame)
        graph_run::finish_step(frame, node);
    else
        complete(work);
    q.current_priority = 0;
}

// Takes one ready piece; false when there is none.
bool run_one(Lock& lock) {
    Queue& q = queue();
    if (q.ready.empty()) return false;
    size_t best = 0;
    for (size_t i = 1; i < q.ready.size(); ++i)
        if (q.ready[i].priority > q.ready[best].priority) best = i;
    Ready entry = std::move(q.ready[best]);
    if (best + 1 != q.ready.size()) q.ready[best] = std::move(q.ready.back());
    q.ready.pop_back();
    const Operation* operation =
        entry.frame ? entry.frame->plan->steps[entry.node].operation.get() : entry.work->operation.get();
    if (operation && operation->on_host()) {
        // Callbacks have a thread of their own, as in the driver. Others wait for it for a moment, so that the order is
        // the seed's; no longer, so that a callback that waits for the program cannot stop it.
        start_callback_thread();
        q.host.push_back(std::move(entry));
        const uint64_t target = q.host_done + q.host.size() + (q.host_busy ? 1 : 0);
        q.callback_wake.notify_one();
        q.changed.wait_for(lock, std::chrono::milliseconds(20), [&] { return q.host_done >= target; });
        return true;
    }
    execute_entry(lock, entry.work, entry.frame, entry.node, entry.priority);
    return true;
}

void push_step(const Ref<Frame>& frame, unsigned step) { push({0, {}, frame, step}); }

void complete(const Ref<Work>& work) {
    Queue& q = queue();
    work->done = true;
    if (work->stamped) work->completed_ns = now_ns();
    auto successors = std::move(work->successors);
    work->successors.clear();
    --work->context->unfinished;
    --q.unfinished;
    if (work->is_launch()) {
        auto& launch = static_cast<Launch&>(*work);
        // One that never started, because of an earlier fault, still ends the records in it.
        for (auto& record : launch.records)
            if (!record.second->done) complete(record.second);
        graph_run::release(launch);
    }
    for (auto& successor : successors) {
        if (successor.work)
            drop_predecessor(*successor.work);
        else
            push_step(successor.frame, successor.node);
    }
    if (q.sleeping) q.changed.notify_all();
}

void depend(Work& work, const Ref<Work>& predecessor) {
    if (!predecessor || predecessor->done || predecessor.get() == &work) return;
    predecessor->successors.push_back({Ref<Work>(&work), {}, 0});
    ++work.pending;
}

void add_latest(Stream& stream, std::vector<Ref<Work>>& out) {
    if (stream.tail && !stream.tail->done) out.push_back(stream.tail);
}

void begin(const Ref<Work>& work) {
    ++queue().unfinished;
    ++work->context->unfinished;
}

void submit(Stream& stream, const Ref<Work>& work) {
    Queue& q = queue();
    Context& context = *stream.context;
    if (!work->context) work->context = Ref<Context>(&context);
    begin(work);
    depend(*work, stream.tail);
    if (stream.legacy) {
        for (Stream* other : context.streams)
            if (other->blocking()) depend(*work, other->tail);
        for (auto& orphan : context.orphans) depend(*work, orphan);
        context.orphans.clear();
    } else if (stream.blocking() && context.legacy) {
        depend(*work, context.legacy->tail);
    }
    stream.tail = work;
    ++q.submitted;
    if (!q.worker_started) {
        q.worker_started = true;
        std::thread(worker).detach();
    } else if (q.worker_asleep) {
        q.worker_wake.notify_one();
    }
    drop_predecessor(*work);
}

namespace {
template <class Done>
void wait_until(Lock& lock, Done&& done) {
    Queue& q = queue();
    ++q.waiting_threads;
    while (!done()) {
        if (run_one(lock)) continue;
        ++q.sleeping;
        q.changed.wait_for(lock, std::chrono::milliseconds(5));
        --q.sleeping;
    }
    --q.waiting_threads;
    if (q.waiting_threads) q.changed.notify_all();
}
}  // namespace

void wait(Lock& lock, const Ref<Work>& work) {
    if (work) wait_until(lock, [&] { return work->done; });
}

void wait_idle(Lock& lock, Context& context) {
    const Ref<Context> keep(&context);
    wait_until(lock, [&] { return context.unfinished == 0; });
}

void wait_all_idle(Lock& lock) {
    wait_until(lock, [] { return queue().unfinished == 0; });
}

void on_callback_thread(std::function<void()> action) {
    start_callback_thread();
    queue().actions.push_back(std::move(action));
    queue().callback_wake.notify_one();
}

void poll() { ++queue().polls; }

uint64_t now_ns() {
    return static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

void seed(uint64_t value) {
    Queue& q = queue();
    q.seed = value;
    q.random = value * 0xD1342543DE82EF95u + 0x2545F4914F6CDD1Du;
    q.inherit = draw() & 1;
    block_executor::seed(value);
}

uint64_t seed() { return queue().seed; }
size_t unfinished() { return queue().unfinished; }

}  // namespace scheduler

extern "C" {
EXPORT void graphcap_emulator_seed(uint64_t value) {
    Lock lock(driver_mutex());
    scheduler::seed(value);
}
EXPORT uint64_t graphcap_emulator_get_seed(void) {
    Lock lock(driver_mutex());
    return scheduler::seed();
}
}

}  // namespace emulator
