// Compiled programs on disk, shared by all processes.
#pragma once

#include <string>
#include <vector>

#include "compile.h"

namespace kernel_library {

// What a compilation depends on, apart from the text of headers that it finds in include folders.
std::string cache_key(const Request& request);

// A compilation of the same key whose headers are as they were.
bool cache_load(const std::string& key, const Request& request, Compiled& out);

// Remembers a successful compilation and the headers that it read.
void cache_store(const std::string& key, const Request& request, const Compiled& compiled, const std::vector<std::string>& files);

}  // namespace kernel_library
