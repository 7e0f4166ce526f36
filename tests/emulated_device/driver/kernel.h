// Images, modules, libraries, kernels and their launch.
#pragma once

#define GRAPHCAP_TABLE_ONLY
#include "../kernels/graphcap_kernel.h"
#include "call.h"

namespace emulator {

// A loaded host shared object.
struct Image : Counted {
    void* object = nullptr;
    graphcap_image_table* table = nullptr;
    uintptr_t low = 0, high = 0;     // where it is mapped
    std::vector<uintptr_t> globals;  // its variables that somebody asked for
    void forget_globals();
    ~Image() override;
};

struct KernelCode : Counted {
    std::string name;
    const graphcap_kernel_entry* entry = nullptr;
    Ref<Image> image;
    std::vector<size_t> offsets;
    size_t bytes = 0;  // of all parameters
    std::map<int, int> attributes;
};

struct Module : Counted {
    Ref<Image> image;
    Context* context = nullptr;
    std::map<std::string, uintptr_t> functions;
};

struct Library : Counted {
    Ref<Image> image;
    std::map<std::string, uintptr_t> kernels;
    std::map<Context*, uintptr_t> modules;
};

struct Kernel : Counted {
    Ref<KernelCode> code;
    Library* library = nullptr;
    std::map<Context*, uintptr_t> functions;
};

struct Function : Counted {
    Ref<KernelCode> code;
    Context* context = nullptr;
    uintptr_t module = 0;
};

namespace kernel {

// A CUkernel may stand where a CUfunction is wanted. `context` becomes the function's, or the current one.
KernelCode* code_of(CUfunction handle, Context*& context);
CUresult take_parameters(const KernelCode& code, void** parameters, void** extra, KernelOperation& operation);
CUresult check_shape(const KernelOperation& operation);
// Threads that a block of it may have.
unsigned most_threads(const KernelCode& code);
CUresult apply_attribute(KernelAttributes& attributes, CUlaunchAttributeID id, const CUlaunchAttributeValue& value);
CUresult read_attribute(const KernelAttributes& attributes, CUlaunchAttributeID id, CUlaunchAttributeValue& value);

}  // namespace kernel

// The replaceable part: how the threads of a grid run. Only one grid runs at a time.
namespace block_executor {

void seed(uint64_t value);
// Runs all blocks; 0 or an error the kernel caused.
CUresult run(const KernelCode& code, const unsigned grid[3], const unsigned block[3], size_t shared, void** parameters,
             Work& work);
// Forgets a grid that was left by a fault, and says where it was: "kernel f, block (…), thread (…): ".
std::string abandon();
// Whether a kernel's own code is what runs at this address. For signal handlers.
bool in_kernel(uintptr_t address);
// Whether the address is in the closed page behind dynamic shared memory.
bool behind_shared(uintptr_t address);
// What went wrong in the last grid, in words; asking forgets it.
std::string trouble();
std::mutex& mutex();

}  // namespace block_executor
}  // namespace emulator
