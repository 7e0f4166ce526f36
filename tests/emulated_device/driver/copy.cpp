#include "copy.h"

#include <cstring>

#include "graph_build.h"
#include "memory.h"
#include "protection.h"

namespace emulator {
namespace copy {

// A copy's one side, as rows of bytes.
struct Side {
    uintptr_t first = 0;  // address of the first byte
    size_t pitch = 0, slice = 0;
    bool device = false;
};

uintptr_t source_of(const CUDA_MEMCPY3D& p) {
    return p.srcMemoryType == CU_MEMORYTYPE_HOST ? reinterpret_cast<uintptr_t>(p.srcHost) : static_cast<uintptr_t>(p.srcDevice);
}
uintptr_t target_of(const CUDA_MEMCPY3D& p) {
    return p.dstMemoryType == CU_MEMORYTYPE_HOST ? reinterpret_cast<uintptr_t>(p.dstHost) : static_cast<uintptr_t>(p.dstDevice);
}

bool device_side(CUmemorytype type, uintptr_t pointer) {
    if (type == CU_MEMORYTYPE_DEVICE) return true;
    if (type == CU_MEMORYTYPE_HOST) return false;
    const auto* allocation = memory::containing(pointer);
    return memory::in_arena(pointer) || (allocation && allocation->space != memory::Space::host);
}

namespace {

CUresult side(CUmemorytype type, uintptr_t base, size_t pitch, size_t height, size_t x, size_t y, size_t z,
              const CUDA_MEMCPY3D& p, Side& out) {
    if (type == CU_MEMORYTYPE_ARRAY) return CUDA_ERROR_NOT_SUPPORTED;
    if (type != CU_MEMORYTYPE_HOST && type != CU_MEMORYTYPE_DEVICE && type != CU_MEMORYTYPE_UNIFIED) return CUDA_ERROR_INVALID_VALUE;
    if (!base) return CUDA_ERROR_INVALID_VALUE;
    if ((p.Height > 1 || p.Depth > 1) && pitch && pitch < x + p.WidthInBytes) return CUDA_ERROR_INVALID_VALUE;
    out.pitch = pitch ? pitch : p.WidthInBytes;
    out.slice = out.pitch * (height ? height : p.Height);
    out.first = base + x + y * out.pitch + z * out.slice;
    out.device = device_side(type, base);
    if (type == CU_MEMORYTYPE_HOST && memory::in_arena(base)) return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult sides(const CUDA_MEMCPY3D& p, Side& source, Side& target) {
    if (p.srcLOD || p.dstLOD) return CUDA_ERROR_INVALID_VALUE;
    // Sizes whose products would run over are refused before anything is computed from them.
    constexpr size_t huge = size_t{1} << 40;
    if (p.WidthInBytes > huge || p.Height > (size_t{1} << 20) || p.Depth > (size_t{1} << 20) || p.srcPitch > huge || p.dstPitch > huge ||
        p.srcHeight > (size_t{1} << 20) || p.dstHeight > (size_t{1} << 20) || p.srcXInBytes > huge || p.dstXInBytes > huge ||
        p.srcY > (size_t{1} << 20) || p.dstY > (size_t{1} << 20) || p.srcZ > (size_t{1} << 20) || p.dstZ > (size_t{1} << 20))
        return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult error = side(p.srcMemoryType, source_of(p), p.srcPitch, p.srcHeight, p.srcXInBytes, p.srcY, p.srcZ, p, source))
        return error;
    return side(p.dstMemoryType, target_of(p), p.dstPitch, p.dstHeight, p.dstXInBytes, p.dstY, p.dstZ, p, target);
}

// From the first byte to the last.
size_t extent(const Side& side, const CUDA_MEMCPY3D& p) {
    return (p.Depth - 1) * side.slice + (p.Height - 1) * side.pitch + p.WidthInBytes;
}

bool in_bounds(const Side& side, const CUDA_MEMCPY3D& p) {
    if (memory::containing(side.first)) return memory::covered(side.first, extent(side, p));
    return !side.device;  // the program's own memory: its own business
}

// The same, of memory that an allocation node may still have to give.
bool known(const Side& side) { return !side.device || memory::planned(side.first); }
bool planned(const Side& side, const CUDA_MEMCPY3D& p) {
    return memory::planned(side.first) ? memory::planned(side.first, extent(side, p)) : !side.device;
}

}  // namespace

CUDA_MEMCPY3D linear(CUmemorytype to, uintptr_t target, CUmemorytype from, uintptr_t source, size_t bytes) {
    CUDA_MEMCPY3D p{};
    p.srcMemoryType = from;
    p.dstMemoryType = to;
    if (from == CU_MEMORYTYPE_HOST)
        p.srcHost = reinterpret_cast<const void*>(source);
    else
        p.srcDevice = source;
    if (to == CU_MEMORYTYPE_HOST)
        p.dstHost = reinterpret_cast<void*>(target);
    else
        p.dstDevice = target;
    p.WidthInBytes = bytes;
    p.Height = p.Depth = 1;
    return p;
}

size_t bytes_of(const CUDA_MEMCPY3D& p) { return p.WidthInBytes && p.Height && p.Depth ? p.WidthInBytes * p.Height * p.Depth : 0; }

const char* direction(const CUDA_MEMCPY3D& p, bool& source_pinned, bool& target_pinned) {
    const bool from = device_side(p.srcMemoryType, source_of(p)), to = device_side(p.dstMemoryType, target_of(p));
    source_pinned = !from && memory::containing(source_of(p));
    target_pinned = !to && memory::containing(target_of(p));
    return from ? (to ? "DtoD" : "DtoH") : (to ? "HtoD" : "HtoH");
}

}  // namespace copy

CUresult CopyOperation::run(Work&) const {
    copy::Side source, target;
    {
        Lock lock(driver_mutex());
        if (copy::sides(parameters, source, target) != CUDA_SUCCESS) return CUDA_ERROR_ILLEGAL_ADDRESS;
        if (staged.empty() && !copy::in_bounds(source, parameters)) return CUDA_ERROR_ILLEGAL_ADDRESS;
        if (!copy::in_bounds(target, parameters)) return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    if (!staged.empty()) {
        source.first = reinterpret_cast<uintptr_t>(staged.data());
        source.pitch = parameters.WidthInBytes;
        source.slice = source.pitch * parameters.Height;
    }
    for (size_t z = 0; z < parameters.Depth; ++z)
        for (size_t y = 0; y < parameters.Height; ++y)
            std::memmove(reinterpret_cast<void*>(target.first + z * target.slice + y * target.pitch),
                         reinterpret_cast<const void*>(source.first + z * source.slice + y * source.pitch), parameters.WidthInBytes);
    return CUDA_SUCCESS;
}

CUresult FillOperation::run(Work&) const {
    const auto& p = parameters;
    const size_t row = p.width * p.elementSize;
    {
        Lock lock(driver_mutex());
        if (!memory::covered(p.dst, (p.height - 1) * p.pitch + row)) return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    for (size_t y = 0; y < p.height; ++y) {
        auto* out = reinterpret_cast<unsigned char*>(p.dst + y * p.pitch);
        if (p.elementSize == 1)
            std::memset(out, static_cast<int>(p.value), p.width);
        else
            for (size_t x = 0; x < p.width; ++x) std::memcpy(out + x * p.elementSize, &p.value, p.elementSize);
    }
    return CUDA_SUCCESS;
}

namespace build {

CUresult copy(const CUDA_MEMCPY3D& parameters, Context* context, Ref<Operation>& out, bool check_ranges) {
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    if (!parameters.WidthInBytes || !parameters.Height || !parameters.Depth) return CUDA_ERROR_INVALID_VALUE;
    emulator::copy::Side source, target;
    if (const CUresult error = emulator::copy::sides(parameters, source, target)) return error;
    if (!emulator::copy::known(source) || !emulator::copy::known(target)) return CUDA_ERROR_INVALID_VALUE;
    if (check_ranges && (!emulator::copy::planned(source, parameters) || !emulator::copy::planned(target, parameters)))
        return CUDA_ERROR_INVALID_VALUE;
    auto operation = make<CopyOperation>();
    operation->parameters = parameters;
    operation->context = context;
    out = operation;
    return CUDA_SUCCESS;
}

CUresult fill(const CUDA_MEMSET_NODE_PARAMS& given, Context* context, Ref<Operation>& out, bool check_ranges) {
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    CUDA_MEMSET_NODE_PARAMS p = given;
    if (!p.width || !p.height || (p.elementSize != 1 && p.elementSize != 2 && p.elementSize != 4)) return CUDA_ERROR_INVALID_VALUE;
    if (p.width > (size_t{1} << 40) || p.height > (size_t{1} << 20) || p.pitch > (size_t{1} << 40)) return CUDA_ERROR_INVALID_VALUE;
    if (p.dst % p.elementSize) return CUDA_ERROR_INVALID_VALUE;
    if (p.height > 1 && p.pitch < p.width * p.elementSize) return CUDA_ERROR_INVALID_VALUE;
    if (!memory::planned(p.dst)) return CUDA_ERROR_INVALID_VALUE;
    if (check_ranges && !memory::planned(p.dst, (p.height - 1) * p.pitch + p.width * p.elementSize)) return CUDA_ERROR_INVALID_VALUE;
    auto operation = make<FillOperation>();
    operation->parameters = p;
    operation->context = context;
    out = operation;
    return CUDA_SUCCESS;
}

}  // namespace build
}  // namespace emulator
