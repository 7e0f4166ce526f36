// Line markers: which file and line preprocessed text came from.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tokens.h"

namespace kernel_library {

struct Place {
    std::string file;
    long line = 0;
    bool system = false;  // in a system header
};

bool is_marker(const Token& directive);
std::string marked_file(const Token& marker);

// By the last line marker before the token.
Place place_of(const Token& token, std::string_view text, const std::vector<Token>& directives);

}  // namespace kernel_library
