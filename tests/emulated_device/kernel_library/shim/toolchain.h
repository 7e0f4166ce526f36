// The host compiler, our headers, and where things are kept.
#pragma once

#include <string>
#include <vector>

#include "options.h"

namespace kernel_library {

struct Toolchain {
    std::string compiler, version;  // command and what it says of itself
    std::string library;            // folder of graphcap_program.h
    std::string include;            // folder of the headers that kernel text may include
    std::string kernels;            // folder of graphcap_kernel.h
    std::string cache;
    std::string headers_hash;
    std::string features;  // of the processor, as far as flags depend on them
    std::vector<std::string> target_flags, link_flags;
};

// Looked at once per process.
const Toolchain& toolchain();

// Flags that every step of a compilation is given; a precompiled header holds for one set of them.
std::vector<std::string> common_flags(const Options& options);

// The header to put before a program: a precompiled one, or the plain file where none can be made. `problem` says why.
std::string first_header(const Options& options, std::string& problem);

}  // namespace kernel_library
