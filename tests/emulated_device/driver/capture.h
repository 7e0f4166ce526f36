// Stream capture: what is allowed, what invalidates, how nodes are recorded.
// Rules are cited as S-D… (capture-semantics) and E-… (capture-evidence).
#pragma once

#include "call.h"

namespace emulator::capture {

// Calls that are "potentially unsafe": 900, and the captures they conflict with are invalidated (S-D8 to S-D13).
CUresult unsafe_call();

enum class Use { query, work };
// Use of the legacy stream, or of something that synchronises with it, while a blocking stream captures (S-D22, E-21).
CUresult legacy_use(Context& context, Use use);

void invalidate(Capture& capture);
inline bool capturing(const Stream& stream) { return static_cast<bool>(stream.capture); }

// Adds a node behind the stream's frontier and makes it the frontier. The stream captures, and not invalidated.
CUresult record(Stream& stream, const Ref<Operation>& operation, Node** node = nullptr);

// Puts an operation into a stream: a node when it captures, work otherwise.
CUresult enqueue(Stream& stream, const Ref<Operation>& operation);

// A call that is refused on a capturing stream in every mode and invalidates (S-D15).
CUresult forbidden_on(Stream& stream);

// What is left of a capture when a stream of it is destroyed (E-11, E-12).
void stream_destroyed(Stream& stream);

CUresult wait_event(Stream& stream, Event& event, unsigned flags);
CUresult record_event(Event& event, Stream& stream, unsigned flags);
// 907 for an event whose last record was inside a capture.
CUresult captured_event(Event& event);
// Work that concerns all streams of a context: 900 while any of them captures, whatever the mode (S-D16, E-19).
CUresult whole_context(Context& context);
// Device- or context-wide synchronisation (E-19).
CUresult synchronise_device(Context& context);

}  // namespace emulator::capture
