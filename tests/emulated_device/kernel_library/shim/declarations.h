// Reading declarations in a row of tokens.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tokens.h"

namespace kernel_library {

// A dynamic shared array: its name, and its definition as a reference to where the block's dynamic memory begins.
struct DynamicShared {
    std::string name, definition;
};

class Declarations {
   public:
    explicit Declarations(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

    size_t size() const { return tokens_.size(); }
    const Token& at(size_t i) const;  // past the end: a token without text

    // The token that closes the bracket at `open`; `open` where there is none, size() where it is never closed.
    size_t closing(size_t open) const;
    // The "<" that belongs to the ">" at `close`.
    size_t angle_open(size_t close, size_t limit) const;
    std::string join(size_t begin, size_t end) const;
    // Past attributes in any spelling at `k`, or `k` itself.
    size_t past_attribute(size_t k) const;
    std::string first_argument(size_t open) const;
    // The parameter list as a function type takes it: without default arguments.
    std::string parameter_types(size_t open, size_t close) const;
    // Of `extern __shared__ T a[], b[][4];`, without its semicolon.
    std::vector<DynamicShared> dynamic_shared(size_t begin, size_t end) const;

   private:
    std::vector<Token> tokens_;
};

}  // namespace kernel_library
