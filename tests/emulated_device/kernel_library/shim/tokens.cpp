#include "tokens.h"

#include <cctype>
#include <string>

namespace kernel_library {
namespace {

bool starts_word(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || c == '$' || (c & 0x80); }
bool in_word(char c) { return starts_word(c) || std::isdigit(static_cast<unsigned char>(c)); }

// Past the closing quote of a string or character literal that opens at `i`.
size_t past_quoted(std::string_view text, size_t i) {
    const char quote = text[i++];
    while (i < text.size() && text[i] != quote && text[i] != '\n') i += text[i] == '\\' ? 2 : 1;
    return i < text.size() ? i + 1 : text.size();
}

// Past the end of R"mark(...)mark"; `i` is at the quote.
size_t past_raw(std::string_view text, size_t i) {
    const size_t open = text.find('(', i);
    if (open == std::string_view::npos) return text.size();
    const std::string close = ")" + std::string(text.substr(i + 1, open - i - 1)) + "\"";
    const size_t found = text.find(close, open);
    return found == std::string_view::npos ? text.size() : found + close.size();
}

// A preprocessing number: digits, letters, points, digit separators, signs after an exponent letter.
size_t past_number(std::string_view text, size_t i) {
    while (i < text.size()) {
        const char c = text[i];
        if ((c == 'e' || c == 'E' || c == 'p' || c == 'P') && i + 1 < text.size() && (text[i + 1] == '+' || text[i + 1] == '-'))
            i += 2;
        else if (in_word(c) || c == '.')
            ++i;
        else if (c == '\'' && i + 1 < text.size() && in_word(text[i + 1]))
            i += 2;
        else
            break;
    }
    return i;
}

// Comments survive preprocessing only where the preprocessor was told so, but cost little to know.
size_t past_comment(std::string_view text, size_t i) {
    const bool line = text[i + 1] == '/';
    const size_t found = text.find(line ? "\n" : "*/", i + 2);
    if (found == std::string_view::npos) return text.size();
    return line ? found : found + 2;
}

size_t past_directive(std::string_view text, size_t i) {
    while (i < text.size() && text[i] != '\n') i += text[i] == '\\' ? 2 : 1;
    return i < text.size() ? i : text.size();
}

}  // namespace

std::vector<Token> tokenize(std::string_view text) {
    std::vector<Token> tokens;
    bool line_begins = true;
    size_t i = 0;
    auto take = [&](Token::Kind kind, size_t end) {
        tokens.push_back({kind, i, end, text.substr(i, end - i)});
        i = end;
        line_begins = false;
    };
    while (i < text.size()) {
        const char c = text[i];
        if (c == '\n') {
            line_begins = true;
            ++i;
        } else if (std::isspace(static_cast<unsigned char>(c))) {
            ++i;
        } else if (c == '/' && i + 1 < text.size() && (text[i + 1] == '/' || text[i + 1] == '*')) {
            i = past_comment(text, i);
        } else if (c == '#' && line_begins) {
            take(Token::directive, past_directive(text, i));
        } else if (starts_word(c)) {
            size_t end = i;
            while (end < text.size() && in_word(text[end])) ++end;
            const std::string_view word = text.substr(i, end - i);
            const bool prefix = word == "L" || word == "u" || word == "U" || word == "u8";
            const bool raw = word == "R" || word == "LR" || word == "uR" || word == "UR" || word == "u8R";
            if (end < text.size() && text[end] == '"' && raw)
                take(Token::string, past_raw(text, end));
            else if (end < text.size() && text[end] == '"' && prefix)
                take(Token::string, past_quoted(text, end));
            else if (end < text.size() && text[end] == '\'' && prefix)
                take(Token::character, past_quoted(text, end));
            else
                take(Token::identifier, end);
        } else if (std::isdigit(static_cast<unsigned char>(c)) ||
                   (c == '.' && i + 1 < text.size() && std::isdigit(static_cast<unsigned char>(text[i + 1])))) {
            take(Token::number, past_number(text, i));
        } else if (c == '"') {
            take(Token::string, past_quoted(text, i));
        } else if (c == '\'') {
            take(Token::character, past_quoted(text, i));
        } else if (c == ':' && i + 1 < text.size() && text[i + 1] == ':') {
            take(Token::punctuator, i + 2);
        } else {
            take(Token::punctuator, i + 1);
        }
    }
    return tokens;
}

}  // namespace kernel_library
