// Splits preprocessed C++ text into tokens. The text stays where it is; tokens are ranges of it.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace kernel_library {

struct Token {
    enum Kind { identifier, number, string, character, punctuator, directive };
    Kind kind;
    size_t begin, end;
    std::string_view text;

    bool is(std::string_view wanted) const { return text == wanted; }
};

// Directives (a line that begins with #) are one token each. "::" is one punctuator, all others are single characters.
std::vector<Token> tokenize(std::string_view text);

}  // namespace kernel_library
