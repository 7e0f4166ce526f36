// Images, modules, libraries. The only image kind is a host shared object with our table in it; everything else (PTX,
// cubin, fatbin) is refused, never translated.
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "capture.h"
#include "kernel.h"
#include "memory.h"
#include "scheduler.h"

namespace emulator {

Image::~Image() {
    forget_globals();
    if (object) dlclose(object);
}

void Image::forget_globals() {
    for (const uintptr_t start : globals) memory::forget_global(start);
    globals.clear();
}

namespace {

#if defined(__x86_64__)
constexpr unsigned host_machine = EM_X86_64;
#elif defined(__aarch64__)
constexpr unsigned host_machine = EM_AARCH64;
#else
#error "the image format is not defined for this machine"
#endif

// The image comes without a length: it is where the last of sections and segments ends.
CUresult measure(const void* image, size_t& bytes) {
    Elf64_Ehdr header;
    std::memcpy(&header, image, SELFMAG);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    std::memcpy(&header, image, sizeof header);
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != host_machine || header.e_type != ET_DYN)
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_phentsize != sizeof(Elf64_Phdr)) return CUDA_ERROR_INVALID_IMAGE;
    bytes = std::max<size_t>(header.e_shoff + size_t{header.e_shnum} * sizeof(Elf64_Shdr),
                             header.e_phoff + size_t{header.e_phnum} * sizeof(Elf64_Phdr));
    const auto* base = static_cast<const unsigned char*>(image);
    for (unsigned i = 0; i < header.e_phnum; ++i) {
        Elf64_Phdr segment;
        std::memcpy(&segment, base + header.e_phoff + i * sizeof segment, sizeof segment);
        bytes = std::max<size_t>(bytes, segment.p_offset + segment.p_filesz);
    }
    for (unsigned i = 0; i < header.e_shnum; ++i) {
        Elf64_Shdr section;
        std::memcpy(&section, base + header.e_shoff + i * sizeof section, sizeof section);
        if (section.sh_type != SHT_NOBITS) bytes = std::max<size_t>(bytes, section.sh_offset + section.sh_size);
    }
    return CUDA_SUCCESS;
}

void find_extent(const void* data, Image& image) {
    const link_map* map = nullptr;
    if (dlinfo(image.object, RTLD_DI_LINKMAP, &map) != 0) return;
    Elf64_Ehdr header;
    std::memcpy(&header, data, sizeof header);
    image.low = map->l_addr;
    for (unsigned i = 0; i < header.e_phnum; ++i) {
        Elf64_Phdr segment;
        std::memcpy(&segment, static_cast<const char*>(data) + header.e_phoff + i * sizeof segment, sizeof segment);
        if (segment.p_type == PT_LOAD) image.high = std::max<uintptr_t>(image.high, map->l_addr + segment.p_vaddr + segment.p_memsz);
    }
}

CUresult load(const void* data, Ref<Image>& out) {
    size_t bytes = 0;
    if (const CUresult error = measure(data, bytes)) return error;
    // A file of its own: the loader takes two objects of one name, or one file, for the same.
    char path[] = "/tmp/graphcap-image-XXXXXX";
    const int file = mkstemp(path);
    if (file < 0) return CUDA_ERROR_OPERATING_SYSTEM;
    const auto* from = static_cast<const char*>(data);
    for (size_t done = 0; done < bytes;) {
        const ssize_t written = write(file, from + done, bytes - done);
        if (written <= 0) {
            close(file);
            unlink(path);
            return CUDA_ERROR_OPERATING_SYSTEM;
        }
        done += static_cast<size_t>(written);
    }
    close(file);
    auto image = make<Image>();
    image->object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const char* reason = image->object ? nullptr : dlerror();
    unlink(path);
    if (!image->object) {
        note(std::string("image refused: ") + (reason ? reason : "?"));
        return CUDA_ERROR_INVALID_IMAGE;
    }
    image->table = static_cast<graphcap_image_table*>(dlsym(image->object, "graphcap_image"));
    if (!image->table || image->table->magic != GRAPHCAP_IMAGE_MAGIC || image->table->version != GRAPHCAP_IMAGE_VERSION) {
        note("image refused: it exports no graphcap_image table of this version");
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    find_extent(data, *image);
    out = image;
    return CUDA_SUCCESS;
}

CUresult read_file(const char* path, std::vector<char>& out) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
    out.assign(std::istreambuf_iterator<char>(file), {});
    if (out.size() < sizeof(Elf64_Ehdr)) out.resize(sizeof(Elf64_Ehdr));
    return CUDA_SUCCESS;
}

Ref<KernelCode> make_code(const Ref<Image>& image, const graphcap_kernel_entry& entry) {
    auto code = make<KernelCode>();
    code->name = entry.name;
    code->entry = &entry;
    code->image = image;
    for (unsigned i = 0; i < entry.parameter_count; ++i) {
        code->bytes = (code->bytes + entry.alignments[i] - 1) / entry.alignments[i] * entry.alignments[i];
        code->offsets.push_back(code->bytes);
        code->bytes += entry.sizes[i];
    }
    return code;
}

const graphcap_kernel_entry* entry_named(const Image& image, const char* name) {
    for (const auto* entry = *image.table->kernels; entry; entry = entry->next)
        if (!std::strcmp(entry->name, name)) return entry;
    return nullptr;
}

// A symbol that the image itself exports, not one of the libraries that it uses.
const ElfW(Sym)* exported(const Image& image, const char* name, void*& address) {
    address = dlsym(image.object, name);
    Dl_info info, own;
    const ElfW(Sym)* symbol = nullptr;
    if (!address || !dladdr1(address, &info, const_cast<void**>(reinterpret_cast<const void**>(&symbol)), RTLD_DL_SYMENT))
        return nullptr;
    if (!dladdr(image.table, &own) || own.dli_fbase != info.dli_fbase) return nullptr;
    return symbol;
}

// By the name in the table, else by the compiler's name of the function: what a name expression was translated to.
const graphcap_kernel_entry* find_kernel(const Image& image, const char* name) {
    if (const auto* entry = entry_named(image, name)) return entry;
    void* address;
    if (!exported(image, name, address)) return nullptr;
    for (const auto* entry = *image.table->kernels; entry; entry = entry->next)
        if (entry->function == address) return entry;
    return nullptr;
}

CUresult find_variable(Image& image, const char* name, Context* context, CUdeviceptr* out, size_t* bytes) {
    void* address;
    const ElfW(Sym)* symbol = exported(image, name, address);
    if (!symbol || ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT || address == image.table) return CUDA_ERROR_NOT_FOUND;
    const auto start = reinterpret_cast<uintptr_t>(address);
    if (!memory::at(start)) {
        memory::register_global(start, symbol->st_size, context);
        image.globals.push_back(start);
    }
    if (out) *out = start;
    if (bytes) *bytes = symbol->st_size;
    return CUDA_SUCCESS;
}

size_t kernel_count(const Image& image) {
    size_t count = 0;
    for (const auto* entry = *image.table->kernels; entry; entry = entry->next) ++count;
    return count;
}

CUresult load_module(CUmodule* out, const void* data) {
    if (!out || !data) return CUDA_ERROR_INVALID_VALUE;
    Ref<Image> image;
    if (const CUresult error = load(data, image)) return error;
    auto module = make<Module>();
    module->image = image;
    module->context = current_context();
    *out = reinterpret_cast<CUmodule>(state().modules.add(module));
    return CUDA_SUCCESS;
}

uintptr_t add_function(const Ref<KernelCode>& code, Context* context, uintptr_t module) {
    auto function = make<Function>();
    function->code = code;
    function->context = context;
    function->module = module;
    return state().functions.add(function);
}

CUresult load_library(CUlibrary* out, const void* data) {
    if (!out || !data) return CUDA_ERROR_INVALID_VALUE;
    Ref<Image> image;
    if (const CUresult error = load(data, image)) return error;
    auto library = make<Library>();
    library->image = image;
    *out = reinterpret_cast<CUlibrary>(state().libraries.add(library));
    return CUDA_SUCCESS;
}

CUresult library_kernel(Library& library, const char* name, CUkernel* out) {
    auto found = library.kernels.find(name);
    if (found == library.kernels.end()) {
        const auto* entry = find_kernel(*library.image, name);
        if (!entry) return CUDA_ERROR_NOT_FOUND;
        auto kernel = make<Kernel>();
        kernel->code = make_code(library.image, *entry);
        kernel->library = &library;
        found = library.kernels.emplace(name, state().kernels.add(kernel)).first;
    }
    *out = reinterpret_cast<CUkernel>(found->second);
    return CUDA_SUCCESS;
}

// Variables go when their module does, although work that has run may hold the image a little longer.
void forget_variables(Lock& lock, Ref<Image> image) {
    if (image->globals.empty()) return;
    if (!inside_callback()) scheduler::wait_all_idle(lock);
    image->forget_globals();
}

void forget_functions(uintptr_t module) { state().modules.remove(module); }

}  // namespace

extern "C" {

CUresult CUDAAPI cuModuleLoadData(CUmodule* out, const void* image) CALL(cuModuleLoadData, context, nullptr) {
    return load_module(out, image);  // allowed in captures since driver 12.3 (E-24)
} END_CALL

CUresult CUDAAPI cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned int, CUjit_option*, void**)
CALL(cuModuleLoadDataEx, context, nullptr) {
    return load_module(out, image);
} END_CALL

CUresult CUDAAPI cuModuleLoadFatBinary(CUmodule* out, const void* image) CALL(cuModuleLoadFatBinary, context, nullptr) {
    return load_module(out, image);
} END_CALL

CUresult CUDAAPI cuModuleLoad(CUmodule* out, const char* path) CALL(cuModuleLoad, context, nullptr) {
    if (!out || !path) return CUDA_ERROR_INVALID_VALUE;
    std::vector<char> data;
    if (const CUresult error = read_file(path, data)) return error;
    return load_module(out, data.data());
} END_CALL

CUresult CUDAAPI cuModuleUnload(CUmodule handle) CALL(cuModuleUnload, release, nullptr) {
    if (const CUresult refused = capture::unsafe_call()) return refused;
    Module* module = state().modules.find(handle);
    if (!module) return CUDA_ERROR_INVALID_HANDLE;
    forget_variables(lock, module->image);
    module = state().modules.find(handle);  // waiting gives up the lock
    if (!module) return CUDA_ERROR_INVALID_HANDLE;
    for (auto& function : module->functions) state().functions.remove(function.second);
    forget_functions(module->handle);
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuModuleGetFunction(CUfunction* out, CUmodule handle, const char* name)
CALL(cuModuleGetFunction, context, nullptr) {
    Module* module = state().modules.find(handle);
    if (!module) return CUDA_ERROR_INVALID_HANDLE;
    if (!out || !name) return CUDA_ERROR_INVALID_VALUE;
    auto found = module->functions.find(name);
    if (found == module->functions.end()) {
        const auto* entry = find_kernel(*module->image, name);
        if (!entry) return CUDA_ERROR_NOT_FOUND;
        const uintptr_t function = add_function(make_code(module->image, *entry), module->context, module->handle);
        found = module->functions.emplace(name, function).first;
    }
    *out = reinterpret_cast<CUfunction>(found->second);
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuModuleGetGlobal(CUdeviceptr* out, size_t* bytes, CUmodule handle, const char* name)
CALL(cuModuleGetGlobal, context, nullptr) {
    Module* module = state().modules.find(handle);
    if (!module) return CUDA_ERROR_INVALID_HANDLE;
    if (!name || (!out && !bytes)) return CUDA_ERROR_INVALID_VALUE;
    return find_variable(*module->image, name, module->context, out, bytes);
} END_CALL

CUresult CUDAAPI cuLibraryGetGlobal(CUdeviceptr* out, size_t* bytes, CUlibrary handle, const char* name)
CALL(cuLibraryGetGlobal, context, nullptr) {
    Library* library = state().libraries.find(handle);
    if (!library) return CUDA_ERROR_INVALID_HANDLE;
    if (!name || (!out && !bytes)) return CUDA_ERROR_INVALID_VALUE;
    return find_variable(*library->image, name, current_context(), out, bytes);
} END_CALL

CUresult CUDAAPI cuModuleGetFunctionCount(unsigned int* out, CUmodule handle) CALL(cuModuleGetFunctionCount, context, nullptr) {
    Module* module = state().modules.find(handle);
    if (!module) return CUDA_ERROR_INVALID_HANDLE;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = static_cast<unsigned>(kernel_count(*module->image));
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuModuleGetLoadingMode(CUmoduleLoadingMode* out) CALL(cuModuleGetLoadingMode, initialised, nullptr) {
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = CU_MODULE_EAGER_LOADING;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuLibraryLoadData(CUlibrary* out, const void* image, CUjit_option*, void**, unsigned int, CUlibraryOption*,
                                   void**, unsigned int) CALL(cuLibraryLoadData, initialised, nullptr) {
    return load_library(out, image);
} END_CALL

CUresult CUDAAPI cuLibraryLoadFromFile(CUlibrary* out, const char* path, CUjit_option*, void**, unsigned int, CUlibraryOption*,
                                       void**, unsigned int) CALL(cuLibraryLoadFromFile, initialised, nullptr) {
    if (!out || !path) return CUDA_ERROR_INVALID_VALUE;
    std::vector<char> data;
    if (const CUresult error = read_file(path, data)) return error;
    return load_library(out, data.data());
} END_CALL

CUresult CUDAAPI cuLibraryUnload(CUlibrary handle) CALL(cuLibraryUnload, release, nullptr) {
    if (const CUresult refused = capture::unsafe_call()) return refused;
    Library* library = state().libraries.find(handle);
    if (!library) return CUDA_ERROR_INVALID_HANDLE;
    forget_variables(lock, library->image);
    library = state().libraries.find(handle);
    if (!library) return CUDA_ERROR_INVALID_HANDLE;
    for (auto& entry : library->kernels) {
        auto kernel = state().kernels.remove(entry.second);
        if (kernel)
            for (auto& function : kernel->functions) state().functions.remove(function.second);
    }
    for (auto& entry : library->modules) {
        Module* module = state().modules.find(reinterpret_cast<void*>(entry.second));
        if (!module) continue;
        for (auto& function : module->functions) state().functions.remove(function.second);
        state().modules.remove(entry.second);
    }
    state().libraries.remove(library->handle);
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuLibraryGetKernel(CUkernel* out, CUlibrary handle, const char* name)
CALL(cuLibraryGetKernel, initialised, nullptr) {
    Library* library = state().libraries.find(handle);
    if (!library) return CUDA_ERROR_INVALID_HANDLE;
    if (!out || !name) return CUDA_ERROR_INVALID_VALUE;
    return library_kernel(*library, name, out);
} END_CALL

CUresult CUDAAPI cuLibraryGetKernelCount(unsigned int* out, CUlibrary handle)
CALL(cuLibraryGetKernelCount, initialised, nullptr) {
    Library* library = state().libraries.find(handle);
    if (!library) return CUDA_ERROR_INVALID_HANDLE;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = static_cast<unsigned>(kernel_count(*library->image));
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuLibraryEnumerateKernels(CUkernel* out, unsigned int count, CUlibrary handle)
CALL(cuLibraryEnumerateKernels, initialised, nullptr) {
    Library* library = state().libraries.find(handle);
    if (!library) return CUDA_ERROR_INVALID_HANDLE;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    unsigned i = 0;
    for (const auto* entry = *library->image->table->kernels; entry && i < count; entry = entry->next, ++i)
        if (const CUresult error = library_kernel(*library, entry->name, &out[i])) return error;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuLibraryGetModule(CUmodule* out, CUlibrary handle) CALL(cuLibraryGetModule, context, nullptr) {
    Library* library = state().libraries.find(handle);
    if (!library) return CUDA_ERROR_INVALID_HANDLE;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    uintptr_t& module_handle = library->modules[current_context()];
    if (!module_handle) {
        auto module = make<Module>();
        module->image = library->image;
        module->context = current_context();
        module_handle = state().modules.add(module);
    }
    *out = reinterpret_cast<CUmodule>(module_handle);
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuKernelGetFunction(CUfunction* out, CUkernel handle) CALL(cuKernelGetFunction, context, nullptr) {
    Kernel* kernel = state().kernels.find(handle);
    if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    uintptr_t& function = kernel->functions[current_context()];
    if (!function) function = add_function(kernel->code, current_context(), 0);
    *out = reinterpret_cast<CUfunction>(function);
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuKernelGetLibrary(CUlibrary* out, CUkernel handle) CALL(cuKernelGetLibrary, initialised, nullptr) {
    Kernel* kernel = state().kernels.find(handle);
    if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = handle_of<CUlibrary>(kernel->library);
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuFuncGetModule(CUmodule* out, CUfunction handle) CALL(cuFuncGetModule, context, nullptr) {
    Function* function = state().functions.find(handle);
    if (!function || !function->module) return CUDA_ERROR_INVALID_HANDLE;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = reinterpret_cast<CUmodule>(function->module);
    return CUDA_SUCCESS;
} END_CALL

}  // extern "C"
}  // namespace emulator
