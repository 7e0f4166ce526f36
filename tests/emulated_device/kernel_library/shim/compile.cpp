#include "compile.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "arithmetic.h"
#include "cache.h"
#include "control.h"
#include "diagnostics.h"
#include "files.h"
#include "rewrite.h"
#include "toolchain.h"

namespace kernel_library {
namespace {

bool blank(const std::string& text) {
    return std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isspace(c); });
}

// One compilation in a folder of its own.
class Compilation {
   public:
    explicit Compilation(const Request& request) : request_(request), tools_(toolchain()) {}

    Compiled run() {
        if (scratch_.path().empty()) return failed("error: no temporary folder can be made\n", 1);
        if (!write_inputs()) return out_;
        if (!preprocess()) return out_;
        if (!build()) return out_;
        resolve();
        return out_;
    }

    std::vector<std::string> files;  // that went in

   private:
    std::string in(const char* name) const { return scratch_.path() + "/" + name; }

    Compiled failed(const std::string& log, int errors) {
        out_.succeeded = false;
        out_.log += log;
        if (errors) out_.log += "\n" + summary(errors, request_.name);
        return out_;
    }

    bool write_inputs() {
        write_file(in("program.cu"), "#line 1 \"<command line>\"\n" + request_.options.macros + request_.options.includes + "#line 1 " +
                                        quoted(request_.name) + "\n" + request_.source + "\n");
        for (const auto& [name, text] : request_.headers) {
            if (name.empty() || name[0] == '/' || name.find("..") != std::string::npos) {
                failed("error: the include name " + quoted(name) + " leaves the program's folder\n", 1);
                return false;
            }
            const std::string path = in("given/") + name;
            make_folders(path.substr(0, path.rfind('/')));
            write_file(path, text);
        }
        return true;
    }

    // Takes the compiler's output into the log. False: it failed.
    bool take(const Finished& done, bool columns = false) {
        Diagnosed said = diagnose(done.output, {request_.name, request_.source, in("given/"), columns, &request_.expressions});
        const bool good = done.status == 0 && !(request_.options.warnings_are_errors && said.log.find("warning: ") != std::string::npos);
        if (!good && said.errors == 0) {
            said.errors = 1;
            if (done.status != 0) said.log += "error: the host compiler failed\n" + done.output;
        }
        if (!good)
            failed(said.log, said.errors);
        else
            out_.log += said.log;
        return good;
    }

    std::vector<std::string> begin_command() const {
        std::vector<std::string> command = {tools_.compiler};
        for (const std::string& flag : common_flags(request_.options)) command.push_back(flag);
        if (request_.options.warnings)
            command.insert(command.end(), {"-Wunused-variable", "-Wunused-but-set-variable", "-Wreturn-type", "-Wno-attributes"});
        else
            command.push_back("-w");
        return command;
    }

    bool preprocess() {
        std::string problem;
        const std::string header = first_header(request_.options, problem);
        std::vector<std::string> command = begin_command();
        command.insert(command.end(), {"-E", "-fpch-preprocess", "-fmacro-prefix-map=" + in("given/") + "=", "-include", header});
        if (!request_.headers.empty()) command.push_back("-I" + in("given"));
        command.push_back("-I" + tools_.include);  // before the program's own folders: ours stand in for some of theirs
        if (request_.options.source_includes) {
            const size_t slash = request_.name.rfind('/');
            if (slash != std::string::npos) command.insert(command.end(), {"-iquote", request_.name.substr(0, slash + 1)});
            command.insert(command.end(), {"-iquote", "."});
        }
        command.insert(command.end(), request_.options.folders.begin(), request_.options.folders.end());
        command.insert(command.end(), {"-x", "c++", in("program.cu"), "-o", in("program.ii")});
        const Finished done = run_program(command, scratch_);
        if (done.status != 0 && !problem.empty()) out_.log += problem;
        return take(done, true);
    }

    bool build() {
        std::string text;
        read_file(in("program.ii"), text);
        RewriteRules rules;
        rules.own_folders = {tools_.library + "/", tools_.kernels + "/"};
        rules.given_folder = in("given/");
        Rewritten made = rewrite(text, rules);
        for (const std::string& file : made.files)
            if (file.compare(0, scratch_.path().size(), scratch_.path()) != 0 && file[0] != '<') files.push_back(file);
        if (!made.complaints.empty()) {
            failed(made.complaints, static_cast<int>(std::count(made.complaints.begin(), made.complaints.end(), '\n')));
            return false;
        }
        // At the program's last line: an unclosed brace is noticed here.
        const auto lines = std::count(request_.source.begin(), request_.source.end(), '\n') + 1;
        std::string appended = "\n# " + std::to_string(lines) + " " + quoted(request_.name) +
                               "\n ; graphcap_detail::lowered_name *graphcap_lowered_names;\n";
        for (size_t i = 0; i < request_.expressions.size(); ++i) {
            const std::string plain(normalized_expression(request_.expressions[i]));
            if (std::count(made.plain_kernels.begin(), made.plain_kernels.end(), plain))
                out_.lowered[request_.expressions[i]] = plain;
            else
                appended += "# " + std::to_string(i + 1) + " \"" + expressions_file + "\"\n" +
                            resolve_expression(i, request_.expressions[i], made) + "\n";
        }
        write_file(in("rewritten.ii"), made.text + appended);
        count_event(Event::compiled);
        std::vector<std::string> command = begin_command();
        command.insert(command.end(), {"-fpreprocessed", "-S", in("rewritten.ii"), "-o", in("program.s")});
        if (!take(run_program(command, scratch_))) return false;
        read_file(in("program.s"), text);
        write_file(in("image.s"), gpu_arithmetic(text));
        command = {tools_.compiler, "-shared", "-Wl,-Bsymbolic", "-Wl,-z,defs", "-Wl,--no-demangle", "-Wl,--build-id=none"};
        command.insert(command.end(), tools_.link_flags.begin(), tools_.link_flags.end());
        command.insert(command.end(), {in("image.s"), "-o", in("image.so")});
        if (!take(run_program(command, scratch_))) return false;
        out_.succeeded = read_file(in("image.so"), out_.image);
        return out_.succeeded;
    }

    // The linker knows mangled names: the image looks its own up when it is loaded.
    void resolve() {
        if (out_.lowered.size() == request_.expressions.size()) return;
        void* object = dlopen(in("image.so").c_str(), RTLD_NOW | RTLD_LOCAL);
        if (!object) {
            failed(std::string("error: the image cannot be loaded: ") + dlerror() + "\n", 1);
            return;
        }
        struct Lowered {  // as in graphcap_program.h
            unsigned index;
            const char* name;
            Lowered* next;
        };
        auto** list = static_cast<Lowered**>(dlsym(object, "graphcap_lowered_names"));
        for (const Lowered* one = list ? *list : nullptr; one; one = one->next)
            if (one->index < request_.expressions.size()) out_.lowered[request_.expressions[one->index]] = one->name;
        dlclose(object);
    }

    const Request& request_;
    const Toolchain& tools_;
    TemporaryFolder scratch_;
    Compiled out_;
};

}  // namespace

Compiled compile(const Request& request) {
    if (blank(request.source) && request.expressions.empty()) {  // CuPy asks for the compiler's version in this way
        Compiled nothing;
        nothing.succeeded = !request.options.machine_code;
        if (nothing.succeeded) return nothing;
    }
    const std::string key = cache_key(request);
    Compiled out;
    if (cache_load(key, request, out)) {
        count_event(Event::found);
        return out;
    }
    Compilation compilation(request);
    out = compilation.run();
    if (out.succeeded) cache_store(key, request, out, compilation.files);
    return out;
}

std::string describe() {
    const Toolchain& tools = toolchain();
    auto comment = [](const std::string& text) {
        std::string out = "// ";
        for (const char c : text) out += c == '\n' ? std::string("\n// ") : std::string(1, c);
        return out + "\n";
    };
    std::string flags;
    for (const std::string& flag : common_flags(Options())) flags += flag + " ";
    return comment("graphcap kernel library " GRAPHCAP_SHIM_HASH) + comment(tools.version) + comment("headers " + tools.headers_hash) +
           comment("flags " + flags) + comment("processor " + tools.features);
}

}  // namespace kernel_library
