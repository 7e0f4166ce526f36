#include "diagnostics.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <set>

#include "rewrite.h"

namespace kernel_library {
namespace {

std::string without(std::string text, std::string_view part) {
    if (part.empty()) return text;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at)) text.erase(at, part.size());
    return text;
}

// The part between two marks, or nothing.
std::string between(const std::string& text, std::string_view before, std::string_view after) {
    const size_t begin = text.find(before);
    if (begin == std::string::npos) return {};
    const size_t end = text.find(after, begin + before.size());
    if (end == std::string::npos) return {};
    return text.substr(begin + before.size(), end - begin - before.size());
}

// The commonest errors in the words that people search for.
std::string worded(const std::string& message) {
    if (const std::string name = between(message, "'", "' was not declared in this scope"); !name.empty())
        return "identifier \"" + name + "\" is undefined";
    if (const size_t at = message.find(": No such file or directory"); at != std::string::npos)
        return "cannot open source file \"" + message.substr(0, at) + "\"";
    if (message.compare(0, 7, "#error ") == 0) return "#error directive: " + message.substr(7);
    if (message.compare(0, 9, "#warning ") == 0) return "#warning directive: " + message.substr(9);
    if (const std::string token = between(message, "expected '", "' before"); !token.empty() && token.size() == 1)
        return "expected a \"" + token + "\"";
    if (const std::string name = between(message, "unused variable '", "'"); !name.empty())
        return "variable \"" + name + "\" was declared but never referenced";
    if (const std::string name = between(message, "variable '", "' set but not used"); !name.empty())
        return "variable \"" + name + "\" was set but never used";
    return message;
}

std::string line_of(std::string_view source, long number) {
    size_t begin = 0;
    for (long n = 1; n < number; ++n) {
        begin = source.find('\n', begin);
        if (begin == std::string_view::npos) return {};
        ++begin;
    }
    const size_t end = source.find('\n', begin);
    return std::string(source.substr(begin, end == std::string_view::npos ? end : end - begin));
}

// Where the first name that a message quotes stands in a line, or npos.
size_t word_in(const std::string& line, const std::string& message) {
    const std::string word = between(message, "'", "'");
    auto part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
    if (word.empty() || !std::all_of(word.begin(), word.end(), part)) return std::string::npos;
    for (size_t at = line.find(word); at != std::string::npos; at = line.find(word, at + 1)) {
        const size_t end = at + word.size();
        if ((at == 0 || !part(line[at - 1])) && (end == line.size() || !part(line[end]))) return at;
    }
    return std::string::npos;
}

// "file:12:34" from the right; false where it is none.
bool split_place(const std::string& place, std::string& file, long& line, long& column) {
    auto number = [](const std::string& text) {
        return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
    };
    const size_t second = place.rfind(':');
    if (second == std::string::npos || !number(place.substr(second + 1))) return false;
    const size_t first = place.rfind(':', second - 1);
    if (first != std::string::npos && number(place.substr(first + 1, second - first - 1))) {
        file = place.substr(0, first);
        line = std::atol(place.substr(first + 1, second - first - 1).c_str());
        column = std::atol(place.substr(second + 1).c_str());
    } else {
        file = place.substr(0, second);
        line = std::atol(place.substr(second + 1).c_str());
        column = 0;
    }
    return true;
}

struct Severity {
    const char* mark;
    const char* shown;
    bool error;
};

constexpr Severity severities[] = {{": fatal error: ", "catastrophic error", true},
                                   {": error: ", "error", true},
                                   {": warning: ", "warning", false},
                                   {": note: ", "note", false}};

}  // namespace

Diagnosed diagnose(std::string_view output, const DiagnosticNames& names) {
    Diagnosed out;
    std::set<std::string> told;  // once is enough
    for (size_t begin = 0; begin < output.size();) {
        const size_t stop = std::min(output.find('\n', begin), output.size());
        std::string line(output.substr(begin, stop - begin));
        begin = stop + 1;
        line = without(without(line, names.scratch), kernel_prefix);
        std::string missing = between(line, "undefined reference to `", "'");
        if (missing.empty()) missing = between(line, "undefined reference to '", "'");
        if (!missing.empty()) {
            if (told.insert(missing).second) {
                ++out.errors;
                out.log += "ptxas fatal   : Unresolved extern function '" + missing + "'\n";
            }
            continue;
        }
        if (const size_t said = line.find(": Error: "); said != std::string::npos) {  // the assembler's
            const std::string what = line.substr(said + 9);
            const size_t place = what.find("): inline PTX");
            if (told.insert(what).second) {
                ++out.errors;
                out.log += place == std::string::npos ? "error: inline assembly: " + what + "\n"
                                                      : what.substr(0, place + 3) + "error: " + what.substr(place + 3) + "\n";
            }
            continue;
        }
        const Severity* found = nullptr;
        size_t at = std::string::npos;
        for (const Severity& one : severities)
            if (const size_t here = line.find(one.mark); here < at) {
                at = here;
                found = &one;
            }
        if (!found) {
            const bool context = line.find("required from") != std::string::npos ||
                                 line.find("In instantiation of") != std::string::npos ||
                                 line.find("In file included from") != std::string::npos ||
                                 line.find("                 from ") == 0;
            if (context) out.log += "          " + line + "\n";
            continue;
        }
        const std::string message = line.substr(at + std::string(found->mark).size());
        std::string file;
        long number = 0, column = 0;
        const bool placed = split_place(line.substr(0, at), file, number, column);
        if (found->error && line.compare(0, 9, "collect2:") == 0) continue;  // the linker's complaint was the line before
        if (placed && names.expressions && file == expressions_file && number >= 1 &&
            static_cast<size_t>(number) <= names.expressions->size()) {
            if (found->error && told.insert((*names.expressions)[static_cast<size_t>(number) - 1]).second) {
                ++out.errors;
                out.log += "error: Error in parsing name expression \"" + (*names.expressions)[static_cast<size_t>(number) - 1] +
                           "\": " + worded(message) + "\n";
            }
            continue;
        }
        if (found->error) ++out.errors;
        out.log += placed ? file + "(" + std::to_string(number) + "): " : "";
        out.log += std::string(found->shown) + ": " + worded(message) + "\n";
        if (placed && file == names.program) {
            const std::string text = line_of(names.source, number);
            if (text.empty()) continue;
            const size_t indent = std::min(text.find_first_not_of(" \t"), text.size());
            const size_t caret = names.columns && column > 0 ? static_cast<size_t>(column) - 1 : word_in(text, message);
            out.log += "      " + text.substr(indent) + "\n";
            if (caret >= indent && caret < text.size()) out.log += std::string(6 + caret - indent, ' ') + "^\n";
            out.log += "\n";
        }
    }
    return out;
}

std::string summary(int errors, const std::string& program) {
    return std::to_string(errors) + (errors == 1 ? " error" : " errors") + " detected in the compilation of \"" + program + "\".\n";
}

}  // namespace kernel_library
