#include "markers.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace kernel_library {

// `# 12 "file" 1 3`
bool is_marker(const Token& directive) {
    return directive.text.size() >= 3 && directive.text[1] == ' ' && std::isdigit(static_cast<unsigned char>(directive.text[2])) &&
           directive.text.find('"') != std::string_view::npos;
}

std::string marked_file(const Token& marker) {
    const size_t open = marker.text.find('"'), close = marker.text.rfind('"');
    return std::string(marker.text.substr(open + 1, close - open - 1));
}

Place place_of(const Token& token, std::string_view text, const std::vector<Token>& directives) {
    Place out;
    for (auto one = directives.rbegin(); one != directives.rend(); ++one) {
        if (one->begin > token.begin || !is_marker(*one)) continue;
        out.file = marked_file(*one);
        out.system = one->text.find(" 3", one->text.rfind('"')) != std::string_view::npos;
        const std::string_view between = text.substr(one->end, token.begin - one->end);
        out.line = std::atoi(std::string(one->text.substr(2)).c_str()) - 1 + std::count(between.begin(), between.end(), '\n');
        break;
    }
    return out;
}

}  // namespace kernel_library
