// What tests can ask the library.
#pragma once

namespace kernel_library {

enum class Event { compiled, found };

void count_event(Event event);

}  // namespace kernel_library
