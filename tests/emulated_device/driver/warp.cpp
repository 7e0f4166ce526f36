// Warp operations: lanes of one warp that wait for each other and see what the others gave.
#include <cstdio>

#include "block.h"

namespace emulator::warp {
namespace {

Meeting* spare = nullptr;
std::vector<Meeting*>& all() {
    static auto* instance = new std::vector<Meeting*>;
    return *instance;
}

Meeting* take() {
    if (!spare) {
        all().push_back(new Meeting);
        return all().back();
    }
    Meeting* meeting = spare;
    spare = meeting->next;
    return meeting;
}

void leave(Warp& w, unsigned lane) {
    Meeting* meeting = w.seen[lane];
    if (!meeting) return;
    w.seen[lane] = nullptr;
    if (--meeting->readers == 0) {
        meeting->next = spare;
        spare = meeting;
    }
}

// The link that holds the open meeting of these lanes; one that holds null where there is none.
Meeting** find(Warp& w, unsigned mask) {
    Meeting** link = &w.open;
    while (*link && (*link)->mask != mask) link = &(*link)->next;
    return link;
}

bool complete(const Warp& w, const Meeting& meeting) { return (meeting.mask & ~w.returned) == meeting.lanes.present; }

// Takes the meeting out of the open ones; everybody in it has it to look at.
void close(Warp& w, Meeting** link) {
    Meeting* meeting = *link;
    *link = meeting->next;
    meeting->readers = static_cast<unsigned>(__builtin_popcount(meeting->lanes.present));
    for (unsigned rest = meeting->lanes.present; rest; rest &= rest - 1) w.seen[__builtin_ctz(rest)] = meeting;
}

}  // namespace

const graphcap_lanes* meet(unsigned mask, unsigned long long value) {
    block::note_finished();
    const unsigned linear = grid.state->linear, lane = linear % 32, bit = 1u << lane;
    Warp& w = grid.warps[linear / 32];
    if (!(mask & bit)) {
        char text[100];
        std::snprintf(text, sizeof text, "lane %u calls a warp operation with the mask 0x%08x, which it is not in", lane, mask);
        grid.trouble = block::place() + ": " + text;
        block::fail(CUDA_ERROR_LAUNCH_FAILED);
    }
    leave(w, lane);
    Meeting** link = find(w, mask);
    Meeting* meeting = *link;
    if (!meeting) {
        meeting = *link = take();
        meeting->mask = mask;
        meeting->lanes.present = meeting->lanes.nonzero = 0;
        meeting->next = nullptr;
    }
    meeting->lanes.values[lane] = value;
    meeting->lanes.present |= bit;
    if (value) meeting->lanes.nonzero |= bit;
    if (complete(w, *meeting)) {
        close(w, link);
        block::make_runnable(linear / 32, meeting->lanes.present & ~bit);
        return &meeting->lanes;
    }
    block::wait();
    return &w.seen[lane]->lanes;
}

void lane_returned(unsigned warp, unsigned lane) {
    Warp& w = grid.warps[warp];
    leave(w, lane);
    for (Meeting** link = &w.open; *link;) {
        if (((*link)->mask >> lane & 1) && complete(w, **link)) {
            const unsigned lanes = (*link)->lanes.present;
            close(w, link);
            block::make_runnable(warp, lanes);
        } else {
            link = &(*link)->next;
        }
    }
}

void forget_all() {
    spare = nullptr;
    for (Meeting* meeting : all()) {
        meeting->next = spare;
        spare = meeting;
    }
    for (Warp& w : grid.warps) w = Warp();
}

}  // namespace emulator::warp
