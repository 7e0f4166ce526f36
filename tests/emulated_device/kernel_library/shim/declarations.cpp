#include "declarations.h"

namespace kernel_library {

const Token& Declarations::at(size_t i) const {
    static const Token none{Token::punctuator, 0, 0, ""};
    return i < tokens_.size() ? tokens_[i] : none;
}

size_t Declarations::closing(size_t open) const {
    const std::string_view opens = at(open).text;
    if (opens != "(" && opens != "[" && opens != "{") return open;
    size_t depth = 0;
    for (size_t k = open; k < tokens_.size(); ++k) {
        const std::string_view t = at(k).text;
        if (at(k).kind != Token::punctuator) continue;
        if (t == "(" || t == "[" || t == "{") ++depth;
        if ((t == ")" || t == "]" || t == "}") && --depth == 0) return k;
    }
    return tokens_.size();
}

size_t Declarations::angle_open(size_t close, size_t limit) const {
    int depth = 0;
    for (size_t k = close + 1; k-- > limit;) {
        if (at(k).is(">")) ++depth;
        if (at(k).is("<") && --depth == 0) return k;
    }
    return close;
}

std::string Declarations::join(size_t begin, size_t end) const {
    std::string out;
    for (size_t k = begin; k < end; ++k) {
        if (!out.empty()) out += ' ';
        out += at(k).text;
    }
    return out;
}

size_t Declarations::past_attribute(size_t k) const {
    if (at(k).is("__attribute__") || at(k).is("alignas") || at(k).is("__launch_bounds__")) return closing(k + 1) + 1;
    if (at(k).is("[") && at(k + 1).is("[")) return closing(k) + 1;
    return k;
}

std::string Declarations::first_argument(size_t open) const {
    const size_t close = closing(open);
    size_t end = open + 1;
    while (end < close && !at(end).is(",")) end = closing(end) + 1;
    return join(open + 1, end);
}

std::string Declarations::parameter_types(size_t open, size_t close) const {
    std::string out;
    bool in_default = false;
    int angles = 0;
    for (size_t k = open + 1; k < close; ++k) {
        const Token& token = at(k);
        if (in_default) {
            if (token.is("<")) ++angles;
            if (token.is(">") && angles) --angles;
            if (token.is(",") && !angles) in_default = false;
            else if (closing(k) != k) k = closing(k);
            if (in_default) continue;
        } else if (token.is("=")) {
            in_default = true;
            angles = 0;
            continue;
        }
        if (token.is("__grid_constant__")) continue;
        const size_t inside = closing(k);
        if (inside != k && inside < close) {  // a nested list, taken as it is
            out += " " + join(k, inside + 1);
            k = inside;
            continue;
        }
        out += " " + std::string(token.text);
    }
    return out;
}

std::vector<DynamicShared> Declarations::dynamic_shared(size_t begin, size_t end) const {
    std::vector<size_t> kept;
    for (size_t k = begin; k < end; ++k) {
        const size_t behind = past_attribute(k);
        if (behind != k) {
            k = behind - 1;
            continue;
        }
        if (at(k).is("extern") || at(k).is("__shared__") || at(k).is("static")) continue;
        kept.push_back(k);
    }
    std::vector<DynamicShared> out;
    std::string type, name, extents;
    int angles = 0;
    bool type_known = false;
    auto finish = [&] {
        if (!name.empty())
            out.push_back({name, "__attribute__((__unused__)) " + type + " (&" + name + ")" + extents + " = *reinterpret_cast<" +
                                     type + " (*)" + extents + ">(graphcap_state.shared); "});
        name.clear();
        extents.clear();
    };
    for (size_t n = 0; n < kept.size(); ++n) {
        const Token& token = at(kept[n]);
        const Token& next = n + 1 < kept.size() ? at(kept[n + 1]) : at(end);
        if (token.is("<")) ++angles;
        if (token.is(">")) --angles;
        if (!angles && token.is(",")) {
            finish();
        } else if (!angles && token.kind == Token::identifier && (next.is("[") || next.is(",") || next.is(";"))) {
            name = token.text;
            type_known = true;
        } else if (!angles && !name.empty()) {
            extents += token.text;
        } else if (!type_known) {
            type += (type.empty() ? "" : " ") + std::string(token.text);
        }
    }
    finish();
    return out;
}

}  // namespace kernel_library
