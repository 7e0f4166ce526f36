// Sources: NVRTC's documented list of options, and what CuPy 14 and cuda.core 1.2 pass.
#include "options.h"

#include <algorithm>
#include <map>
#include <set>

namespace kernel_library {

const std::vector<int> supported_archs = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};

namespace {

enum class Takes { nothing, truth, text };

struct Known {
    const char* name;  // the long one; the others are its spellings
    Takes takes;
};

// Options that change nothing here are listed too: what is not in this table is refused.
const std::map<std::string, Known>& known_options() {
    static const std::map<std::string, Known> table = [] {
        std::map<std::string, Known> made;
        auto add = [&](Takes takes, const char* name, std::initializer_list<const char*> spellings = {}) {
            made[std::string("--") + name] = {name, takes};
            for (const char* spelling : spellings) made[spelling] = {name, takes};
        };
        add(Takes::text, "gpu-architecture", {"-arch", "--gpu-arch"});
        add(Takes::nothing, "device-c", {"-dc"});
        add(Takes::nothing, "device-w", {"-dw"});
        add(Takes::truth, "relocatable-device-code", {"-rdc"});
        add(Takes::truth, "extensible-whole-program", {"-ewp"});
        add(Takes::nothing, "device-debug", {"-G"});
        add(Takes::nothing, "generate-line-info", {"-lineinfo"});
        add(Takes::text, "dopt", {"-dopt"});
        add(Takes::text, "Ofast-compile", {"-Ofc"});
        add(Takes::text, "ptxas-options", {"-Xptxas"});
        add(Takes::text, "maxrregcount", {"-maxrregcount"});
        add(Takes::truth, "ftz", {"-ftz"});
        add(Takes::truth, "prec-sqrt", {"-prec-sqrt"});
        add(Takes::truth, "prec-div", {"-prec-div"});
        add(Takes::truth, "fmad", {"-fmad"});
        add(Takes::nothing, "use_fast_math", {"-use_fast_math"});
        add(Takes::nothing, "extra-device-vectorization", {"-extra-device-vectorization"});
        add(Takes::truth, "modify-stack-limit", {"-modify-stack-limit"});
        add(Takes::nothing, "dlink-time-opt", {"-dlto"});
        add(Takes::nothing, "gen-opt-lto", {"-gen-opt-lto"});
        add(Takes::nothing, "optix-ir", {"-optix-ir"});
        add(Takes::text, "jump-table-density", {"-jtd"});
        add(Takes::truth, "device-stack-protector", {"-device-stack-protector"});
        add(Takes::nothing, "no-cache", {"-no-cache"});
        add(Takes::text, "frandom-seed", {"-frandom-seed"});
        add(Takes::text, "define-macro", {"-D"});
        add(Takes::text, "undefine-macro", {"-U"});
        add(Takes::text, "include-path", {"-I"});
        add(Takes::text, "pre-include", {"-include"});
        add(Takes::nothing, "no-source-include", {"-no-source-include"});
        add(Takes::text, "std", {"-std"});
        add(Takes::truth, "builtin-move-forward", {"-builtin-move-forward"});
        add(Takes::truth, "builtin-initializer-list", {"-builtin-initializer-list"});
        add(Takes::nothing, "pch", {"-pch"});
        add(Takes::text, "create-pch", {"-create-pch"});
        add(Takes::text, "use-pch", {"-use-pch"});
        add(Takes::text, "pch-dir", {"-pch-dir"});
        add(Takes::truth, "pch-verbose", {"-pch-verbose"});
        add(Takes::truth, "pch-messages", {"-pch-messages"});
        add(Takes::truth, "instantiate-templates-in-pch", {"-instantiate-templates-in-pch"});
        add(Takes::nothing, "disable-warnings", {"-w"});
        add(Takes::text, "Werror", {"-Werror"});
        add(Takes::nothing, "restrict", {"-restrict"});
        add(Takes::nothing, "device-as-default-execution-space", {"-default-device"});
        add(Takes::nothing, "device-int128", {"-device-int128"});
        add(Takes::nothing, "device-float128", {"-device-float128"});
        add(Takes::text, "optimization-info", {"-opt-info"});
        add(Takes::nothing, "display-error-number", {"-err-no"});
        add(Takes::nothing, "no-display-error-number", {"-no-err-no"});
        add(Takes::text, "diag-error", {"-diag-error"});
        add(Takes::text, "diag-suppress", {"-diag-suppress"});
        add(Takes::text, "diag-warn", {"-diag-warn"});
        add(Takes::truth, "brief-diagnostics", {"-brief-diag"});
        add(Takes::text, "time", {"-time"});
        add(Takes::text, "split-compile", {"-split-compile"});
        add(Takes::nothing, "fdevice-syntax-only", {"-fdevice-syntax-only"});
        add(Takes::nothing, "minimal", {"-minimal"});
        add(Takes::text, "fdevice-time-trace", {"-fdevice-time-trace"});
        return made;
    }();
    return table;
}

const std::set<std::string> out_of_reach = {"dlink-time-opt", "gen-opt-lto", "optix-ir", "create-pch", "use-pch"};

bool parse_arch(const std::string& value, Options& out) {
    size_t digits = 0;
    if (value.compare(0, 3, "sm_") == 0)
        digits = 3;
    else if (value.compare(0, 8, "compute_") == 0)
        digits = 8;
    if (!digits) return false;
    size_t end = digits;
    while (end < value.size() && isdigit(static_cast<unsigned char>(value[end]))) ++end;
    const std::string number = value.substr(digits, end - digits), suffix = value.substr(end);
    if (number.empty() || number.size() > 3 || (suffix != "" && suffix != "a" && suffix != "f")) return false;
    out.arch = std::stoi(number);
    out.arch_suffix = suffix;
    out.machine_code = digits == 3;
    return std::find(supported_archs.begin(), supported_archs.end(), out.arch) != supported_archs.end();
}

// What an option does, once its value is known. Returns why it is refused, or nothing.
std::string apply(const std::string& name, const std::string& value, Options& out) {
    if (out_of_reach.count(name)) return "nvrtc: error: --" + name + " is not available on the emulated device\n";
    if (name == "gpu-architecture") {
        if (!parse_arch(value, out)) return "nvrtc: error: invalid value for --gpu-architecture (-arch)\n";
    } else if (name == "std") {
        static const std::set<std::string> standards = {"c++03", "c++11", "c++14", "c++17", "c++20", "c++23"};
        if (!standards.count(value)) return "nvrtc: error: invalid value for --std (-std)\n";
        out.standard = std::max(value, std::string("c++17"));  // "c++03" is text too, and raised like c++11
        if (value == "c++03") out.standard = "c++17";
    } else if (name == "fmad") {
        out.fused_multiply_add = value == "true";
    } else if (name == "disable-warnings") {
        out.warnings = false;
    } else if (name == "Werror") {
        if (value != "all-warnings") return "nvrtc: error: invalid value for --Werror (-Werror)\n";
        out.warnings_are_errors = true;
    } else if (name == "no-source-include") {
        out.source_includes = false;
    } else if (name == "define-macro") {
        const size_t sign = value.find('=');
        out.macros += "#define " + value.substr(0, sign) + " " + (sign == std::string::npos ? "1" : value.substr(sign + 1)) + "\n";
        if (value.substr(0, sign) == "NDEBUG") out.includes += "#include <assert.h>\n";  // which looks at it each time
    } else if (name == "undefine-macro") {
        out.macros += "#undef " + value + "\n";
    } else if (name == "include-path") {
        out.folders.push_back("-I" + value);
    } else if (name == "pre-include") {
        out.includes += "#include \"" + value + "\"\n";
    } else if (name == "use_fast_math") {
        out.macros += "#define __USE_FAST_MATH__ 1\n";
    } else if (name == "device-debug") {
        out.macros += "#define __CUDACC_DEBUG__ 1\n";
    }
    return {};
}

}  // namespace

Options parse_options(const std::vector<std::string>& words) {
    Options out;
    for (size_t i = 0; i < words.size(); ++i) {
        const std::string& word = words[i];
        if (word.empty()) continue;
        std::string spelling = word, value;
        bool has_value = false;
        const size_t sign = word.find('=');
        const std::string two = word.substr(0, 2);
        if (word[0] == '-' && word[1] != '-' && (two == "-D" || two == "-U" || two == "-I")) {  // the value is joined
            spelling = two;
            value = word.substr(2);
            has_value = !value.empty();
        } else if (sign != std::string::npos) {
            spelling = word.substr(0, sign);
            value = word.substr(sign + 1);
            has_value = true;
        }
        const auto found = known_options().find(spelling);
        if (found == known_options().end()) {
            out.refusal = "nvrtc: error: unrecognized option " + word + " found\n";
            return out;
        }
        const Known& known = found->second;
        if (known.takes == Takes::text && !has_value) {
            if (i + 1 == words.size()) {
                out.refusal = "nvrtc: error: missing value for option " + word + "\n";
                return out;
            }
            value = words[++i];
        }
        if (known.takes == Takes::truth) {
            if (!has_value) value = "true";
            if (value != "true" && value != "false") {
                out.refusal = "nvrtc: error: invalid value for --" + std::string(known.name) + "\n";
                return out;
            }
        }
        out.refusal = apply(known.name, value, out);
        if (!out.refusal.empty()) return out;
    }
    return out;
}

}  // namespace kernel_library
