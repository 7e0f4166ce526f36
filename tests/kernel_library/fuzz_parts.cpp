// Throws broken text at the parts of the kernel library that read text, under sanitizers. Arguments: seed, number of texts.
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <random>

#include "arithmetic.h"
#include "diagnostics.h"
#include "options.h"
#include "rewrite.h"

using namespace kernel_library;

namespace {

const char* const parts[] = {
    "__global__ ", "__shared__ ", "__noinline__ ", "__launch_bounds__", "__attribute__", "extern ", "\"C\" ", "template ",
    "namespace ", "struct ", "static ", "alignas", "asm ", "volatile ", "void ", "int ", "x", "k ", "::", "<", ">", "(", ")", "{",
    "}", "[", "]", ";", ",", "=", "&", " ", "<<<", ">>>", "\n", "\n# 12 \"f.h\" 3\n", "\n# 99999999999999999999 \"f.h\"\n", "#",
    "\"", "'", "R\"a(", ")a\"", "/*", "*/", "//", "\\", "1'0", "0x", "\tidivl\t%ecx\n", "\tdivq\t", "\tvcvttss2si\t(%rax), %eax\n",
    "\tvcvttsd2siq\t", "a.cu:3:4: error: 'x' was not declared in this scope\n", "undefined reference to `", "'\n", ": Error: ",
    "<name expressions>:1:2: error: ", "-D", "-arch=sm_", "--std="};

}  // namespace

int main(int, char** arguments) {
    std::mt19937 random(static_cast<unsigned>(std::atoi(arguments[1])));
    RewriteRules rules;
    rules.own_folders = {"/own/"};
    rules.given_folder = "f";
    const std::vector<std::string> expressions = {"a", "b"};
    for (long left = std::atol(arguments[2]); left; --left) {
        std::string text;
        for (unsigned n = random() % 40; n; --n) text += parts[random() % std::size(parts)];
        if (random() % 4 == 0 && !text.empty()) text.resize(random() % text.size());
        const Rewritten made = rewrite(text, rules);
        gpu_arithmetic(text);
        diagnose(text, {"a.cu", text, "/tmp/", random() % 2 == 0, &expressions});
        normalized_expression(text);
        resolve_expression(0, text, made);
        parse_options({parts[random() % std::size(parts)], text, parts[random() % std::size(parts)]});
    }
    std::puts("done");
}
