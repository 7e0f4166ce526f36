// Functions beyond the driver's own, for tests: see ../control.py.
#pragma once

#include <stdint.h>

#include "api.h"

extern "C" {

typedef struct {
    const char* name;
    uint64_t thread;
    uint64_t stream;
    int result;
} graphcap_call;

typedef struct {
    const char* kind;
    int64_t live;
} graphcap_count;

EXPORT void graphcap_emulator_fail(const char* name, long nth, int code);
EXPORT void graphcap_emulator_latency(const char* name, long microseconds);
EXPORT void graphcap_emulator_reset_faults(void);
EXPORT uint64_t graphcap_emulator_calls(graphcap_call* out, uint64_t capacity);
EXPORT void graphcap_emulator_clear_calls(void);
EXPORT void graphcap_emulator_logging(int on);
EXPORT uint64_t graphcap_emulator_note(uint64_t index, char* out, uint64_t capacity);
EXPORT uint64_t graphcap_emulator_counts(graphcap_count* out, uint64_t capacity);
EXPORT int graphcap_emulator_memory_limit(uint64_t bytes, int device);
EXPORT void graphcap_emulator_seed(uint64_t seed);
EXPORT uint64_t graphcap_emulator_get_seed(void);
EXPORT int graphcap_emulator_protection(int on);
}
