#include "nvrtc.h"

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>

#include "compile.h"

namespace kernel_library {
namespace {

struct Program {
    Request request;
    bool compiled = false;  // compilation was tried
    Compiled result;
    std::string ptx;
    int (*callback)(void*, void*) = nullptr;
    void* payload = nullptr;
    std::mutex busy;
};

std::mutex registry_mutex;
std::map<nvrtcProgram, std::shared_ptr<Program>>& registry() {
    static auto* programs = new std::map<nvrtcProgram, std::shared_ptr<Program>>;
    return *programs;
}

std::shared_ptr<Program> find(nvrtcProgram handle) {
    const std::lock_guard<std::mutex> lock(registry_mutex);
    const auto found = registry().find(handle);
    return found == registry().end() ? nullptr : found->second;
}

// Nothing that goes wrong in here may reach C callers as an exception.
template <class F> nvrtcResult guarded(F body) {
    try {
        return body();
    } catch (const std::bad_alloc&) {
        return NVRTC_ERROR_OUT_OF_MEMORY;
    } catch (...) {
        return NVRTC_ERROR_INTERNAL_ERROR;
    }
}

template <class F> nvrtcResult on(nvrtcProgram handle, F body) {
    return guarded([&] {
        const std::shared_ptr<Program> program = find(handle);
        if (!program) return NVRTC_ERROR_INVALID_PROGRAM;
        const std::lock_guard<std::mutex> lock(program->busy);
        return body(*program);
    });
}

// A text with its closing NUL.
nvrtcResult give(const std::string& text, char* out) {
    if (!out) return NVRTC_ERROR_INVALID_INPUT;
    std::memcpy(out, text.c_str(), text.size() + 1);
    return NVRTC_SUCCESS;
}

bool has_image(const Program& program) { return program.result.succeeded && program.request.options.machine_code; }

std::atomic<size_t> heap_size{256u << 20};

nvrtcResult compile_program(Program& program, int count, const char* const* words) {
    if (count < 0 || (count && !words)) return NVRTC_ERROR_INVALID_INPUT;
    Request& request = program.request;
    request.words.clear();
    for (int i = 0; i < count; ++i) {
        if (!words[i]) return NVRTC_ERROR_INVALID_INPUT;
        request.words.emplace_back(words[i]);
    }
    program.compiled = true;
    program.result = {};
    program.ptx.clear();
    request.options = parse_options(request.words);
    if (!request.options.refusal.empty()) {
        program.result.log = request.options.refusal;
        return NVRTC_ERROR_INVALID_OPTION;
    }
    if (program.callback && program.callback(program.payload, nullptr)) return NVRTC_ERROR_CANCELLED;
    program.result = compile(request);
    if (!program.result.succeeded) return NVRTC_ERROR_COMPILATION;
    program.ptx = describe();
    return NVRTC_SUCCESS;
}

}  // namespace
}  // namespace kernel_library

using namespace kernel_library;

const char* nvrtcGetErrorString(nvrtcResult result) {
    switch (result) {
#define NAME(code) \
    case code:     \
        return #code;
        NAME(NVRTC_SUCCESS)
        NAME(NVRTC_ERROR_OUT_OF_MEMORY)
        NAME(NVRTC_ERROR_PROGRAM_CREATION_FAILURE)
        NAME(NVRTC_ERROR_INVALID_INPUT)
        NAME(NVRTC_ERROR_INVALID_PROGRAM)
        NAME(NVRTC_ERROR_INVALID_OPTION)
        NAME(NVRTC_ERROR_COMPILATION)
        NAME(NVRTC_ERROR_BUILTIN_OPERATION_FAILURE)
        NAME(NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION)
        NAME(NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION)
        NAME(NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID)
        NAME(NVRTC_ERROR_INTERNAL_ERROR)
        NAME(NVRTC_ERROR_TIME_FILE_WRITE_FAILED)
        NAME(NVRTC_ERROR_NO_PCH_CREATE_ATTEMPTED)
        NAME(NVRTC_ERROR_PCH_CREATE_HEAP_EXHAUSTED)
        NAME(NVRTC_ERROR_PCH_CREATE)
        NAME(NVRTC_ERROR_CANCELLED)
        NAME(NVRTC_ERROR_TIME_TRACE_FILE_WRITE_FAILED)
        NAME(NVRTC_ERROR_BUSY)
#undef NAME
    }
    return "NVRTC_ERROR unknown";
}

nvrtcResult nvrtcVersion(int* major, int* minor) {
    if (!major || !minor) return NVRTC_ERROR_INVALID_INPUT;
    *major = 13;
    *minor = 0;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetNumSupportedArchs(int* count) {
    if (!count) return NVRTC_ERROR_INVALID_INPUT;
    *count = static_cast<int>(supported_archs.size());
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetSupportedArchs(int* archs) {
    if (!archs) return NVRTC_ERROR_INVALID_INPUT;
    for (const int arch : supported_archs) *archs++ = arch;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram* out, const char* source, const char* name, int header_count,
                               const char* const* headers, const char* const* include_names) {
    return guarded([&] {
        if (!out || !source || header_count < 0 || (header_count && (!headers || !include_names))) return NVRTC_ERROR_INVALID_INPUT;
        auto program = std::make_shared<Program>();
        program->request.source = source;
        program->request.name = name && *name ? name : "default_program";
        for (int i = 0; i < header_count; ++i) {
            if (!headers[i] || !include_names[i]) return NVRTC_ERROR_INVALID_INPUT;
            program->request.headers.emplace_back(include_names[i], headers[i]);
        }
        const auto handle = reinterpret_cast<nvrtcProgram>(program.get());
        const std::lock_guard<std::mutex> lock(registry_mutex);
        registry()[handle] = std::move(program);
        *out = handle;
        return NVRTC_SUCCESS;
    });
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram* handle) {
    if (!handle) return NVRTC_ERROR_INVALID_PROGRAM;
    const std::lock_guard<std::mutex> lock(registry_mutex);
    if (!registry().erase(*handle)) return NVRTC_ERROR_INVALID_PROGRAM;
    *handle = nullptr;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram handle, int option_count, const char* const* options) {
    return on(handle, [&](Program& program) { return compile_program(program, option_count, options); });
}

nvrtcResult nvrtcGetPTXSize(nvrtcProgram handle, size_t* size) {
    return on(handle, [&](Program& program) {
        if (!size) return NVRTC_ERROR_INVALID_INPUT;
        if (!program.result.succeeded) return NVRTC_ERROR_INVALID_PROGRAM;
        *size = program.ptx.size() + 1;
        return NVRTC_SUCCESS;
    });
}

nvrtcResult nvrtcGetPTX(nvrtcProgram handle, char* ptx) {
    return on(handle, [&](Program& program) {
        return program.result.succeeded ? give(program.ptx, ptx) : NVRTC_ERROR_INVALID_PROGRAM;
    });
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram handle, size_t* size) {
    return on(handle, [&](Program& program) {
        if (!size) return NVRTC_ERROR_INVALID_INPUT;
        if (!program.result.succeeded) return NVRTC_ERROR_INVALID_PROGRAM;
        *size = has_image(program) ? program.result.image.size() + 1 : 0;  // CuPy drops the last byte
        return NVRTC_SUCCESS;
    });
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram handle, char* cubin) {
    return on(handle, [&](Program& program) {
        return has_image(program) ? give(program.result.image, cubin) : NVRTC_ERROR_INVALID_PROGRAM;
    });
}

// These kinds of code are never made: the options that ask for them are refused.
nvrtcResult nvrtcGetLTOIRSize(nvrtcProgram handle, size_t* size) {
    return on(handle, [&](Program&) {
        if (!size) return NVRTC_ERROR_INVALID_INPUT;
        *size = 0;
        return NVRTC_SUCCESS;
    });
}

nvrtcResult nvrtcGetLTOIR(nvrtcProgram handle, char*) {
    return on(handle, [](Program&) { return NVRTC_ERROR_INVALID_PROGRAM; });
}

nvrtcResult nvrtcGetOptiXIRSize(nvrtcProgram handle, size_t* size) { return nvrtcGetLTOIRSize(handle, size); }

nvrtcResult nvrtcGetOptiXIR(nvrtcProgram handle, char*) { return nvrtcGetLTOIR(handle, nullptr); }

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram handle, size_t* size) {
    return on(handle, [&](Program& program) {
        if (!size) return NVRTC_ERROR_INVALID_INPUT;
        *size = program.result.log.size() + 1;
        return NVRTC_SUCCESS;
    });
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram handle, char* log) {
    return on(handle, [&](Program& program) { return give(program.result.log, log); });
}

nvrtcResult nvrtcAddNameExpression(nvrtcProgram handle, const char* expression) {
    return on(handle, [&](Program& program) {
        if (!expression) return NVRTC_ERROR_INVALID_INPUT;
        if (program.compiled) return NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION;
        program.request.expressions.emplace_back(expression);
        return NVRTC_SUCCESS;
    });
}

nvrtcResult nvrtcGetLoweredName(nvrtcProgram handle, const char* expression, const char** lowered) {
    return on(handle, [&](Program& program) {
        if (!expression || !lowered) return NVRTC_ERROR_INVALID_INPUT;
        if (!program.compiled) return NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION;
        const auto found = program.result.lowered.find(expression);
        if (found == program.result.lowered.end()) return NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID;
        *lowered = found->second.c_str();
        return NVRTC_SUCCESS;
    });
}

nvrtcResult nvrtcGetPCHHeapSize(size_t* size) {
    if (!size) return NVRTC_ERROR_INVALID_INPUT;
    *size = heap_size;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcSetPCHHeapSize(size_t size) {
    heap_size = size;
    return NVRTC_SUCCESS;
}

// Automatic precompiled headers are the library's own affair here.
nvrtcResult nvrtcGetPCHCreateStatus(nvrtcProgram handle) {
    return on(handle, [](Program&) { return NVRTC_ERROR_NO_PCH_CREATE_ATTEMPTED; });
}

nvrtcResult nvrtcGetPCHHeapSizeRequired(nvrtcProgram handle, size_t* size) {
    return on(handle, [&](Program&) {
        if (!size) return NVRTC_ERROR_INVALID_INPUT;
        *size = 0;
        return NVRTC_SUCCESS;
    });
}

nvrtcResult nvrtcSetFlowCallback(nvrtcProgram handle, int (*callback)(void*, void*), void* payload) {
    return on(handle, [&](Program& program) {
        if (!callback) return NVRTC_ERROR_INVALID_INPUT;
        program.callback = callback;
        program.payload = payload;
        return NVRTC_SUCCESS;
    });
}
