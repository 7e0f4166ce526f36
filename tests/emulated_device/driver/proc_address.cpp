// cuGetProcAddress: every name gets an address. What is not implemented gets a stub of its own that says so when called.
#include <array>
#include <cstring>

#include "abi_table.h"

namespace emulator {
namespace {

constexpr size_t stub_count = 1024;

std::array<Entry*, stub_count>& stub_entries() {
    static auto* entries = new std::array<Entry*, stub_count>{};
    return *entries;
}

CUresult not_implemented(size_t index) {
    Entry& entry = *stub_entries()[index];
    return run_call(entry, Needs::nothing, nullptr, [&](Lock&) {
        note(std::string("not implemented: ") + entry.name);
        return CUDA_ERROR_NOT_SUPPORTED;
    });
}

// Takes no arguments whatever it is called with: on the machines we build for, the caller owns them.
template <size_t index>
CUresult stub() {
    return not_implemented(index);
}

template <size_t... index>
constexpr std::array<CUresult (*)(), sizeof...(index)> make_stubs(std::index_sequence<index...>) {
    return {&stub<index>...};
}
const auto stubs = make_stubs(std::make_index_sequence<stub_count>());

void* stub_for(const char* name) {
    static auto* known = new std::map<std::string, size_t>;
    auto found = known->find(name);
    if (found == known->end()) {
        const size_t index = known->size();
        if (index == stub_count) return nullptr;
        found = known->emplace(name, index).first;
        stub_entries()[index] = new Entry(found->first.c_str());
    }
    return reinterpret_cast<void*>(stubs[found->second]);
}

// Among the rows of that name, the newest that is not newer than what was asked for.
const AbiRow* select(const char* name, int version) {
    const AbiRow* best = nullptr;
    for (const AbiRow& row : abi_table())
        if (!std::strcmp(row.name, name) && row.version <= version && (!best || row.version > best->version)) best = &row;
    return best;
}

CUresult find(const char* name, void** out, int version, cuuint64_t flags, CUdriverProcAddressQueryResult* status) {
    if (!name || !out || (flags & ~cuuint64_t{3}) || flags == 3) return CUDA_ERROR_INVALID_VALUE;
    if (status) *status = CU_GET_PROC_ADDRESS_SUCCESS;
    const AbiRow* row = select(name, version);
    if (row)
        *out = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM ? row->per_thread : row->function;
    else
        *out = stub_for(name);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuGetProcAddress_v2(const char* name, void** out, int version, cuuint64_t flags,
                                     CUdriverProcAddressQueryResult* status) CALL(cuGetProcAddress, nothing, nullptr) {
    // The two forms of this function are not in the table, for which they would have to be declared twice.
    if (name && out && !std::strcmp(name, "cuGetProcAddress")) {
        *out = version >= 12000 ? reinterpret_cast<void*>(&cuGetProcAddress_v2) : nullptr;
        if (status) *status = *out ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
        return *out ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
    }
    return find(name, out, version, flags, status);
} END_CALL

// By now, which form of a name a request gets: for tests of the table.
EXPORT int graphcap_emulator_abi(const char* name, int version) {
    const AbiRow* row = select(name, version);
    return row ? row->version : 0;
}

}  // extern "C"
}  // namespace emulator
