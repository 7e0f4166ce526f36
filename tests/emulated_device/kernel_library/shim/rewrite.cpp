#include "rewrite.h"

#include <algorithm>
#include <map>
#include <set>

#include "declarations.h"
#include "markers.h"
#include "tokens.h"

namespace kernel_library {
namespace {

struct Scope {
    enum Kind { unit, names, linkage_c, linkage_cpp, type, other };
    Kind kind = unit;
    std::string path;         // of the namespaces up to here, "a::b::"
    std::string after_close;  // put behind the closing brace
};

struct Edit {
    size_t begin, end;
    std::string text;
};

std::vector<Token> of_kind(const std::vector<Token>& tokens, bool directives) {
    std::vector<Token> out;
    for (const Token& token : tokens)
        if ((token.kind == Token::directive) == directives) out.push_back(token);
    return out;
}

class Rewriter : Declarations {
   public:
    Rewriter(std::string_view text, const std::vector<Token>& tokens, const RewriteRules& rules)
        : Declarations(of_kind(tokens, false)), text_(text), rules_(rules), directives_(of_kind(tokens, true)) {}

    Rewritten run() {
        for (const Token& directive : directives_) mark(directive);
        scopes_.push_back({});
        for (i_ = 0; i_ < size(); ++i_) step();
        Rewritten out;
        out.text = apply();
        out.plain_kernels.assign(plain_.begin(), plain_.end());
        out.complaints = complaints_;
        out.template_bounds = template_bounds_;
        out.files.assign(files_.begin(), files_.end());
        return out;
    }

   private:
    void step() {
        const Token& token = at(i_);
        if (token.is("{")) {
            open();
        } else if (token.is("}")) {
            close();
        } else if (token.is(";")) {
            statement_ = i_ + 1;
        } else if (token.kind == Token::identifier) {
            word(token);
        } else if (token.is("<") && at(i_ + 1).is("<") && at(i_ + 2).is("<") && at(i_ + 2).end == token.begin + 3) {
            const Place where = place_of(token, text_, directives_);
            complaints_ += where.file + "(" + std::to_string(where.line) +
                           "): error: a kernel cannot launch kernels (<<<...>>>) on the emulated device\n";
            i_ += 2;
        }
    }

    void word(const Token& token) {
        if (token.is("__attribute__") || token.is("__attribute")) {
            attribute_end_ = std::max(attribute_end_, closing(i_ + 1));
        } else if (token.is("__global__")) {
            erase(token);
            if (at_namespace_scope() && !seen_.count(statement_)) kernel();
        } else if (token.is("__noinline__")) {
            if (i_ >= attribute_end_) replace(token, "__attribute__((__noinline__))");
        } else if (token.is("__constant__") || token.is("__grid_constant__") || token.is("__managed__")) {
            erase(token);
        } else if (token.is("__shared__")) {
            shared(token);
        } else if (token.is("asm") || token.is("__asm__") || token.is("__asm")) {
            inline_assembly();
        } else if (token.is("__launch_bounds__")) {
            const size_t end = at(i_ + 1).is("(") ? closing(i_ + 1) : size();
            if (end < size()) replace_range(token.begin, at(end).end, "");
        }
    }

    // Inline PTX is for another processor. Some of it would pass for ours (`ret;`), so the assembler is made to refuse it
    // where it is used; text that no code is made of may stay. System headers may give names to symbols in this way.
    void inline_assembly() {
        size_t open = i_ + 1;
        while (at(open).kind == Token::identifier) ++open;  // volatile, goto
        const Token& text = at(open + 1);
        if (!at(open).is("(") || text.kind != Token::string) return;
        if (text.text.find_first_not_of("\" \t") == std::string_view::npos) return;  // a barrier for the compiler alone
        Place where = place_of(at(i_), text_, directives_);
        for (const std::string& folder : rules_.own_folders) where.system |= where.file.compare(0, folder.size(), folder) == 0;
        if (where.system) return;
        std::string file;
        for (const char c : where.file)
            if (std::string_view("%{}|\\\"").find(c) == std::string_view::npos) file += c;
        insert(text.begin, "\".error \\\"" + file + "(" + std::to_string(where.line) +
                               "): inline PTX is not available on the emulated device\\\"\\n\" ");
    }

    // ---- scopes

    bool at_namespace_scope() const { return scopes_.back().kind < Scope::type; }

    // Whether the body that opens at i_ is a function's: then its declaration has a parameter list.
    bool opens_function() const {
        for (size_t k = statement_; k < i_; ++k) {
            const size_t behind = past_attribute(k);
            if (behind != k)
                k = behind - 1;
            else if (at(k).is("("))
                return true;
        }
        return false;
    }

    bool opens_type() const {
        for (size_t k = statement_; k < i_; ++k)
            if (at(k).is("struct") || at(k).is("class") || at(k).is("union")) return true;
        return false;
    }

    void open() {
        const Scope& outer = scopes_.back();
        Scope inner;
        inner.kind = Scope::other;
        inner.path = outer.path;
        size_t first = statement_;
        if (at_namespace_scope()) {
            if (at(first).is("inline")) ++first;
            if (at(first).is("namespace")) {
                inner.kind = Scope::names;
                std::string name;
                for (size_t k = first + 1; k < i_; ++k)
                    if (at(k).kind == Token::identifier && !at(k).is("inline") && !at(k).is("__attribute__"))
                        name += std::string(at(k).text) + "::";
                inner.path += name.empty() ? "(anonymous namespace)::" : name;
            } else if (at(first).is("extern") && at(first + 1).kind == Token::string && first + 2 == i_) {
                inner.kind = at(first + 1).is("\"C\"") ? Scope::linkage_c : Scope::linkage_cpp;
            }
        }
        if (inner.kind == Scope::other && outer.kind != Scope::other) {
            if (opens_function())
                bring_in_shared();
            else if (opens_type())
                inner.kind = Scope::type;
        }
        auto ready = bodies_.find(i_);
        if (ready != bodies_.end()) inner.after_close = ready->second;
        scopes_.push_back(inner);
        statement_ = i_ + 1;
    }

    void close() {
        if (scopes_.size() > 1) {
            if (!scopes_.back().after_close.empty()) insert(at(i_).end, scopes_.back().after_close);
            scopes_.pop_back();
        }
        statement_ = i_ + 1;
    }

    bool c_linkage() const {
        for (size_t k = scopes_.size(); k-- > 0;) {
            if (scopes_[k].kind == Scope::linkage_c) return true;
            if (scopes_[k].kind == Scope::linkage_cpp) return false;
        }
        return false;
    }

    // ---- kernels

    // A kernel's declaration begins at statement_; we stand at its __global__.
    void kernel() {
        seen_.insert(statement_);
        size_t first = statement_;
        bool definition_of_template = false, instantiation = false;
        if (at(first).is("template")) {
            instantiation = !at(first + 1).is("<");
            definition_of_template = !instantiation && !at(first + 2).is(">");
        }
        size_t open = i_ + 1;
        for (;; ++open) {
            const Token& token = at(open);
            if (open >= size() || token.is(";") || token.is("{")) return;  // not a function
            const size_t behind = past_attribute(open);
            if (behind != open) {
                open = behind - 1;
                continue;
            }
            if (token.is("(") && (at(open - 1).kind == Token::identifier || at(open - 1).is(">"))) break;
        }
        const size_t close = closing(open);
        size_t name_begin = open - 1, plain_name = name_begin;
        if (at(name_begin).is(">")) plain_name = name_begin = angle_open(name_begin, first) - 1;
        while (name_begin >= first + 2 && at(name_begin - 1).is("::") && at(name_begin - 2).kind == Token::identifier)
            name_begin -= 2;
        if (at(plain_name).is("void")) return;  // a pointer to a kernel
        bool c = c_linkage();
        std::string bound;
        for (size_t k = first; k < open; ++k) {
            if (at(k).is("extern") && at(k + 1).is("\"C\"")) c = true;
            if (at(k).is("__launch_bounds__")) bound = first_argument(k + 1);
        }
        const std::string own_name(at(plain_name).text);
        std::string called = join(name_begin, open);
        if (c) {
            replace(at(plain_name), kernel_prefix + own_name);
            called = kernel_prefix + own_name;
            plain_.insert(own_name);
        }
        size_t end = close + 1;
        while (end < size() && !at(end).is(";") && !at(end).is("{")) ++end;
        if (definition_of_template && bound.find_first_not_of("0123456789 +*()") == std::string::npos && !bound.empty())
            template_bounds_[own_name] = bound;
        if (definition_of_template || end >= size()) return;
        if (at(end).is(";") && !instantiation) return;  // a mere declaration
        const std::string shown = c ? own_name : scopes_.back().path + join(name_begin, open);
        const std::string registration = " static graphcap_detail::kernel_of<void (*)(" + parameter_types(open, close) +
                                         ")>::registration<&" + called + "> graphcap_entry_" + std::to_string(entries_++) + "(" +
                                         quoted(shown) + ", " + (c ? "true" : "false") + (bound.empty() ? "" : ", " + bound) + ");";
        if (at(end).is(";"))
            insert(at(end).end, registration);
        else
            bodies_[end] = registration;
    }

    // ---- shared memory

    void shared(const Token& token) {
        size_t begin = i_;
        while (begin > 0 && !at(begin - 1).is(";") && !at(begin - 1).is("{") && !at(begin - 1).is("}")) --begin;
        size_t end = i_;
        while (end < size() && !at(end).is(";") && !at(end).is("}"))
            end = closing(end) == end ? end + 1 : std::min(closing(end) + 1, size());
        bool dynamic = false, is_static = false;
        for (size_t k = begin; k < end && !at(k).is("="); ++k) {
            dynamic |= at(k).is("extern");
            is_static |= at(k).is("static");
        }
        if (!dynamic) {
            replace(token, is_static ? "" : "static");
            return;
        }
        if (!at(end).is(";")) return erase(token);  // the compiler will say what is wrong
        std::string definitions;
        for (const DynamicShared& one : dynamic_shared(begin, end)) {
            if (at_namespace_scope())
                namespace_shared_.push_back(one);
            else
                definitions += one.definition;
        }
        replace_range(at(begin).begin, at(end).end, definitions);
        i_ = end;
        statement_ = i_ + 1;
    }

    // A function's body opens at i_: it gets the namespace's dynamic arrays that it names as its own references.
    void bring_in_shared() {
        if (namespace_shared_.empty()) return;
        const size_t end = closing(i_);
        std::string definitions;
        for (auto one = namespace_shared_.rbegin(); one != namespace_shared_.rend(); ++one) {
            if (definitions.find("(&" + one->name + ")") != std::string::npos) continue;
            bool hidden = false, used = false;
            for (size_t k = statement_; k < i_; ++k) hidden |= at(k).is(one->name);
            for (size_t k = i_; k < end; ++k) used |= at(k).kind == Token::identifier && at(k).is(one->name);
            if (used && !hidden) definitions += one->definition;
        }
        if (!definitions.empty()) insert(at(i_).end, " " + definitions);
    }

    // ---- line markers

    // `# 12 "file" 1`: warnings in our own headers stay silent; headers that came with the program have their own names.
    void mark(const Token& directive) {
        if (!is_marker(directive)) return;
        const size_t open = directive.text.find('"'), close = directive.text.rfind('"');
        const std::string file = marked_file(directive);
        files_.insert(file);
        if (!rules_.given_folder.empty() && file.compare(0, rules_.given_folder.size(), rules_.given_folder) == 0) {
            const size_t from = directive.begin + open + 1;
            edits_.push_back({from, from + rules_.given_folder.size(), ""});
        }
        for (const std::string& folder : rules_.own_folders)
            if (file.compare(0, folder.size(), folder) == 0 && directive.text.find(" 3", close) == std::string_view::npos) {
                edits_.push_back({directive.end, directive.end, " 3"});
                break;
            }
    }

    // ---- edits

    void erase(const Token& token) { edits_.push_back({token.begin, token.end, ""}); }
    void replace(const Token& token, std::string by) { edits_.push_back({token.begin, token.end, std::move(by)}); }
    void insert(size_t where, std::string what) { edits_.push_back({where, where, std::move(what)}); }

    // Keeps the lines and directives of what it replaces.
    void replace_range(size_t begin, size_t end, std::string by) {
        edits_.erase(std::remove_if(edits_.begin(), edits_.end(),
                                    [&](const Edit& edit) { return edit.begin >= begin && edit.end <= end && edit.end > edit.begin; }),
                     edits_.end());
        for (size_t k = begin; k < end;) {
            auto directive = std::lower_bound(directives_.begin(), directives_.end(), k,
                                              [](const Token& token, size_t where) { return token.begin < where; });
            if (directive != directives_.end() && directive->begin == k) {
                by += directive->text;
                k = directive->end;
            } else {
                if (text_[k] == '\n') by += '\n';
                ++k;
            }
        }
        edits_.push_back({begin, end, std::move(by)});
    }

    std::string apply() {
        std::stable_sort(edits_.begin(), edits_.end(), [](const Edit& a, const Edit& b) { return a.begin < b.begin; });
        std::string out;
        out.reserve(text_.size() + 4096);
        size_t done = 0;
        for (const Edit& edit : edits_) {
            if (edit.begin < done) continue;
            out.append(text_.substr(done, edit.begin - done));
            out += edit.text;
            done = edit.end;
        }
        out.append(text_.substr(done));
        return out;
    }

    std::string_view text_;
    const RewriteRules& rules_;
    std::vector<Token> directives_;
    std::vector<Scope> scopes_;
    std::vector<Edit> edits_;
    std::vector<DynamicShared> namespace_shared_;
    std::set<std::string> plain_, files_;
    std::set<size_t> seen_;  // statements whose kernel was handled: __global__ may be written twice
    std::map<size_t, std::string> bodies_;
    std::map<std::string, std::string> template_bounds_;
    size_t i_ = 0, statement_ = 0, attribute_end_ = 0;
    size_t entries_ = 0;
    std::string complaints_;
};

}  // namespace

Rewritten rewrite(std::string_view preprocessed, const RewriteRules& rules) {
    return Rewriter(preprocessed, tokenize(preprocessed), rules).run();
}

std::string_view normalized_expression(std::string_view expression) {
    auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\n'; };
    for (;;) {
        if (!expression.empty() && (blank(expression.front()) || expression.front() == '&'))
            expression.remove_prefix(1);
        else if (!expression.empty() && blank(expression.back()))
            expression.remove_suffix(1);
        else
            return expression;
    }
}

std::string resolve_expression(size_t index, std::string_view expression, const Rewritten& program) {
    const std::string number = std::to_string(index), text(normalized_expression(expression));
    std::string name = text.substr(0, text.find('<'));
    while (!name.empty() && name.back() == ' ') name.pop_back();
    const size_t qualified = name.rfind("::");
    const auto bound = program.template_bounds.find(qualified == std::string::npos ? name : name.substr(qualified + 2));
    return "static graphcap_detail::expression<&" + text + "> graphcap_expression_" + number + "(" + number + ", " +
           quoted(expression) + (bound == program.template_bounds.end() ? "" : ", " + bound->second) + ");";
}

std::string quoted(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        if (c == '\n')
            out += "\\n";
        else
            out += c;
    }
    return out + "\"";
}

}  // namespace kernel_library
