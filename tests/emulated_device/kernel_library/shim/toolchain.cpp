#include "toolchain.h"

#include <sys/stat.h>
#include <unistd.h>
#include <utime.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "files.h"
#include "sha256.h"

namespace kernel_library {
namespace {

constexpr size_t kept_precompiled = 4;  // 40 MB each; older ones belong to headers or flags of the past

std::string setting(const char* name, const char* otherwise) {
    const char* value = std::getenv(name);
    return value && *value ? value : otherwise;
}

bool on_path(const std::string& program) {
    std::stringstream folders(setting("PATH", ""));
    for (std::string folder; std::getline(folders, folder, ':');)
        if (access((folder + "/" + program).c_str(), X_OK) == 0) return true;
    return false;
}

std::string hash_of_headers(const Toolchain& made) {
    std::vector<std::string> files;
    std::error_code error;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(made.include, error))
        if (entry.is_regular_file(error)) files.push_back(entry.path().string());
    files.push_back(made.library + "/graphcap_program.h");
    files.push_back(made.kernels + "/graphcap_kernel.h");
    std::sort(files.begin(), files.end());
    Sha256 hash;
    for (const std::string& file : files) {
        std::string text;
        read_file(file, text);
        hash.field(file).field(text);
    }
    return hash.hex();
}

Toolchain look() {
    Toolchain made;
    const std::string otherwise = setting("CXX", "g++");
    made.compiler = setting("GRAPHCAP_KERNEL_CXX", otherwise.find("clang") == std::string::npos ? otherwise.c_str() : "g++");
    made.library = GRAPHCAP_LIBRARY_FOLDER;
    made.include = made.library + "/include";
    made.kernels = GRAPHCAP_KERNELS_FOLDER;
    made.cache = setting("GRAPHCAP_KERNEL_CACHE", GRAPHCAP_CACHE_FOLDER);
    make_folders(made.cache);
    made.headers_hash = hash_of_headers(made);
    const TemporaryFolder scratch;
    made.version = run_program({made.compiler, "--version"}, scratch).output;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("fma")) {
        made.features = "x86-64 fma";
        made.target_flags = {"-mfma", "-ffixed-xmm14", "-ffixed-xmm15"};  // see arithmetic.h
    } else {
        made.features = "x86-64";
    }
    if (__builtin_cpu_supports("f16c")) {  // conversions of half precision
        made.features += " f16c";
        made.target_flags.push_back("-mf16c");
    }
#elif defined(__aarch64__)
    made.features = "aarch64";
#endif
    if (on_path("ld.gold")) made.link_flags = {"-fuse-ld=gold"};  // a third of the time
    return made;
}

// Deletes all but the newest precompiled headers.
void prune(const std::string& folder) {
    std::vector<std::pair<std::filesystem::file_time_type, std::filesystem::path>> found;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error))
        if (entry.is_directory(error)) found.emplace_back(std::filesystem::last_write_time(entry.path(), error), entry.path());
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    for (size_t i = kept_precompiled; i < found.size(); ++i) std::filesystem::remove_all(found[i].second, error);
}

}  // namespace

const Toolchain& toolchain() {
    static const Toolchain made = look();
    return made;
}

std::vector<std::string> common_flags(const Options& options) {
    const Toolchain& tools = toolchain();
    std::vector<std::string> flags = {
        "-std=" + options.standard, "-O2", "-fPIC", "-fsigned-char",
        // A static variable of a template would otherwise be one and the same in all modules of the process.
        "-fno-gnu-unique", "-fno-semantic-interposition",
        // What kernel text takes for granted and the C++ standard does not give.
        "-fno-strict-aliasing", "-fwrapv", "-fno-delete-null-pointer-checks", "-fno-threadsafe-statics",
        "-fno-math-errno", "-fno-trapping-math", "-fno-isolate-erroneous-paths-dereference",
        // One thread is one lane already; arithmetic.h wants scalar conversions.
        "-fno-tree-vectorize", "-fno-tree-slp-vectorize",
        // A function that ends without its return value is a trap, not whatever code comes next.
        "-fsanitize=return", "-fsanitize-undefined-trap-on-error",
        // A kernel compiler contracts by default.
        options.fused_multiply_add ? "-ffp-contract=fast" : "-ffp-contract=off",
        "-fmessage-length=0", "-fno-diagnostics-show-caret", "-fno-diagnostics-show-option",
        "-D__CUDA_ARCH__=" + std::to_string(options.arch * 10)};
    if (options.arch_suffix == "a")
        flags.push_back("-D__CUDA_ARCH_FEAT_SM" + std::to_string(options.arch) + "_ALL=1");
    flags.insert(flags.end(), tools.target_flags.begin(), tools.target_flags.end());
    return flags;
}

std::string first_header(const Options& options, std::string& problem) {
    const Toolchain& tools = toolchain();
    const std::string plain = tools.library + "/graphcap_program.h";
    std::vector<std::string> command = {tools.compiler};
    for (const std::string& flag : common_flags(options)) command.push_back(flag);
    command.insert(command.end(), {"-w", "-I" + tools.include, "-x", "c++-header", plain, "-o"});
    Sha256 hash;
    hash.field(tools.version).field(tools.headers_hash);
    for (const std::string& word : command) hash.field(word);
    const std::string folder = tools.cache + "/precompiled/" + hash.hex().substr(0, 24);
    const std::string header = folder + "/graphcap_program.h", made = header + ".gch";
    struct stat ignored;
    if (stat(made.c_str(), &ignored) == 0) {
        utime(folder.c_str(), nullptr);  // in use: not among the first to go
        return header;
    }
    if (!make_folders(folder)) return plain;
    const FileLock lock(folder + "/lock");
    if (stat(made.c_str(), &ignored) == 0) return header;
    const TemporaryFolder scratch;
    const std::string draft = made + ".draft";
    command.push_back(draft);
    const Finished done = run_program(command, scratch);
    if (done.status != 0 || !write_file(header, "#include \"" + plain + "\"\n") || rename(draft.c_str(), made.c_str()) != 0) {
        problem = done.output;
        std::error_code error;
        std::filesystem::remove(draft, error);
        return plain;
    }
    prune(tools.cache + "/precompiled");
    return header;
}

}  // namespace kernel_library
