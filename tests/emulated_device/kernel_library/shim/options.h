// What the compile options mean here.
#pragma once

#include <string>
#include <vector>

namespace kernel_library {

struct Options {
    int arch = 75;             // 90 for sm_90
    std::string arch_suffix;   // "a" or "f"
    bool machine_code = false; // sm_XX: an image is wanted, not "PTX" alone
    std::string standard = "c++17";
    bool fused_multiply_add = true;
    bool warnings = true;
    bool warnings_are_errors = false;
    bool source_includes = true;  // look for #include "..." beside the program too
    std::vector<std::string> folders;   // -I, in their order
    // Macros and headers before the program, as directives. They follow our own headers, which they could not break otherwise.
    std::string macros, includes;
    std::string refusal;           // why the options were not taken, in the log's words; empty: they were
};

extern const std::vector<int> supported_archs;

Options parse_options(const std::vector<std::string>& words);

}  // namespace kernel_library
