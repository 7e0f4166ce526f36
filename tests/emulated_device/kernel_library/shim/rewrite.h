// Turns preprocessed CUDA C++ into C++ that a host compiler takes.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace kernel_library {

struct RewriteRules {
    std::vector<std::string> own_folders;  // headers in them are system headers: no warnings from there
    std::string given_folder;              // headers that came with the program; the folder is dropped from their names
};

struct Rewritten {
    std::string text;
    std::vector<std::string> plain_kernels;  // extern "C" kernels: their names are their own, not mangled
    std::map<std::string, std::string> template_bounds;  // launch bounds of kernel templates by name, where they are numbers
    std::vector<std::string> files;          // that the preprocessor read
    std::string complaints;                  // errors in the log's form: what no compiler could be shown
};

// What extern "C" kernels are called in the image: a kernel may be called exp or index, which the C library has too.
inline constexpr char kernel_prefix[] = "graphcap_kernel__";

// Lines stay lines: what is inserted stands on the line of what it belongs to.
Rewritten rewrite(std::string_view preprocessed, const RewriteRules& rules);

// Text that resolves one name expression when the image is loaded; `index` identifies it in the image's list.
std::string resolve_expression(size_t index, std::string_view expression, const Rewritten& program);

// Without blanks around and without a leading address operator.
std::string_view normalized_expression(std::string_view expression);

// As a C string literal.
std::string quoted(std::string_view text);

}  // namespace kernel_library
