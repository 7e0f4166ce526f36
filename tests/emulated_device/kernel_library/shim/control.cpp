#include "control.h"

#include <atomic>
#include <cstring>
#include <string>

#include "rewrite.h"

namespace kernel_library {
namespace {
std::atomic<long> counts[2];
}

void count_event(Event event) { ++counts[static_cast<int>(event)]; }

// Compilations in this process: those that a compiler did, those that the cache answered.
extern "C" __attribute__((visibility("default"))) void graphcap_kernel_library_counts(long* compiled, long* found) {
    *compiled = counts[0];
    *found = counts[1];
}

// What the rewriter makes of preprocessed text; returns the bytes it takes, and writes them where there is room.
extern "C" __attribute__((visibility("default"))) unsigned long graphcap_kernel_library_rewrite(const char* text, char* out,
                                                                                                  unsigned long room) {
    const std::string made = rewrite(text, {}).text;
    if (made.size() <= room) std::memcpy(out, made.data(), made.size());
    return made.size();
}

}  // namespace kernel_library
