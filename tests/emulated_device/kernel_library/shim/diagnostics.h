// Makes of the host compiler's output the log of a kernel compiler.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kernel_library {

// What the text that resolves name expressions calls its file.
inline constexpr char expressions_file[] = "<name expressions>";

struct DiagnosticNames {
    std::string program;       // the program's name
    std::string_view source;   // its text, to quote lines from
    std::string scratch;       // the folder of the compilation, which nobody wants to see
    bool columns = false;      // the compiler saw the program as it is written, so its columns are the program's
    const std::vector<std::string>* expressions = nullptr;  // the name expressions: line n of their file is the n-th
};

struct Diagnosed {
    std::string log;
    int errors = 0;
};

Diagnosed diagnose(std::string_view output, const DiagnosticNames& names);

// The last line of the log of a compilation with errors.
std::string summary(int errors, const std::string& program);

}  // namespace kernel_library
