#include "protection.h"

#include <sys/mman.h>

#include <cstdlib>
#include <mutex>

#include "control.h"
#include "faults.h"
#include "memory.h"
#include "scheduler.h"

namespace emulator {
namespace {

thread_local int open_depth = 0;

struct Settings {
    bool on = false;
    int key = -1;          // protection key, where the processor has them: closes memory per thread
    long openers = 0;      // threads that execute now, without keys
};

Settings& settings() {
    static auto* instance = new Settings;
    return *instance;
}

void key_rights(int key, unsigned rights) { pkey_set(key, rights); }

}  // namespace

namespace protection {

bool on() { return settings().on; }

void reopen() {
    if (settings().on && settings().key >= 0) key_rights(settings().key, 0);
}

Open::Open() {
    Settings& s = settings();
    if (!s.on || open_depth++ > 0) return;
    if (s.key >= 0) {
        key_rights(s.key, 0);
    } else {
        Lock lock(driver_mutex());
        if (s.openers++ == 0) memory::protect_all(true);
    }
}

Open::~Open() {
    Settings& s = settings();
    if (!s.on || --open_depth > 0) return;
    if (s.key >= 0) {
        key_rights(s.key, PKEY_DISABLE_ACCESS);
    } else {
        Lock lock(driver_mutex());
        if (--s.openers == 0) memory::protect_all(false);
    }
}

void apply(void* start, size_t bytes, bool) {
    const Settings& s = settings();
    if (s.key >= 0)
        pkey_mprotect(start, bytes, PROT_READ | PROT_WRITE, s.on ? s.key : 0);
    else if (s.on && s.openers == 0)
        mprotect(start, bytes, PROT_NONE);
}

}  // namespace protection

bool protection::set(bool on) {
    Settings& s = settings();
    if (s.key < 0 && on && !std::getenv("GRAPHCAP_EMULATED_NO_KEYS")) s.key = pkey_alloc(0, PKEY_DISABLE_ACCESS);
    const bool was = s.on;
    s.on = on;
    if (was != s.on) memory::reprotect_all();
    return was;
}

extern "C" EXPORT int graphcap_emulator_protection(int on) {
    faults::install_handler();
    Lock lock(driver_mutex());
    return protection::set(on != 0);
}

}  // namespace emulator
