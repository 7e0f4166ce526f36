// From program text to a host shared object.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "options.h"

namespace kernel_library {

struct Request {
    std::string source, name;
    std::vector<std::pair<std::string, std::string>> headers;  // include name, text
    std::vector<std::string> expressions;
    std::vector<std::string> words;  // the options as given
    Options options;
};

struct Compiled {
    bool succeeded = false;
    std::string log;
    std::string image;
    std::map<std::string, std::string> lowered;  // of the name expressions
};

Compiled compile(const Request& request);

// Text that stands for "PTX": comment lines that change whenever the same source could give another image.
std::string describe();

}  // namespace kernel_library
