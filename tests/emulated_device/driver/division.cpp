// Integer division does not fault on a GPU. PTX leaves the quotient by zero open; NVIDIA's devices are known to give all
// ones, and the dividend as remainder. The most negative number by -1 is itself, with remainder 0. Other processors than
// x86 do not fault either.
#include "faults.h"

#if defined(__x86_64__)
#include <ucontext.h>

#include <cstdint>
#include <cstring>
#endif

namespace emulator::division {

#if !defined(__x86_64__)
bool settle(void*) { return false; }
#else
namespace {

// The registers as instructions number them.
constexpr int numbers[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                             REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

struct Instruction {
    unsigned bits = 32;
    bool is_signed = false;
    uint64_t divisor = 0;
    uint64_t behind = 0;  // address of the next one
};

// DIV and IDIV: F6 /6, F6 /7, F7 /6, F7 /7, with prefixes for the size.
bool decode(const greg_t* registers, Instruction& out) {
    auto at = static_cast<uint64_t>(registers[REG_RIP]);
    auto byte = [&] { return *reinterpret_cast<const uint8_t*>(at++); };
    unsigned rex = 0;
    uint8_t code = byte();
    if (code == 0x66) {
        out.bits = 16;
        code = byte();
    }
    if ((code & 0xF0) == 0x40) {
        rex = code;
        if (rex & 8) out.bits = 64;
        code = byte();
    }
    if (code == 0xF6)
        out.bits = 8;
    else if (code != 0xF7)
        return false;
    const uint8_t form = byte();
    const unsigned operation = form >> 3 & 7, mode = form >> 6;
    unsigned base = form & 7;
    if (operation < 6) return false;
    out.is_signed = operation == 7;
    if (mode == 3) {
        const bool high = out.bits == 8 && !rex && base >= 4;  // AH, CH, DH, BH
        const auto value = static_cast<uint64_t>(registers[numbers[high ? base - 4 : base | (rex & 1) << 3]]);
        out.divisor = high ? value >> 8 : value;
    } else {
        uint64_t address = 0;
        bool absolute = false;
        if (base == 4) {
            const uint8_t scaled = byte();
            const unsigned index = (scaled >> 3 & 7u) | (rex & 2u) << 2;
            if (index != 4) address = static_cast<uint64_t>(registers[numbers[index]]) << (scaled >> 6);
            base = scaled & 7;
            absolute = base == 5 && mode == 0;
        }
        const bool relative = (form & 7) == 5 && mode == 0;
        if (!absolute && !relative) address += static_cast<uint64_t>(registers[numbers[base | (rex & 1) << 3]]);
        if (mode == 1) {
            address += static_cast<uint64_t>(static_cast<int64_t>(static_cast<int8_t>(byte())));
        } else if (mode == 2 || absolute || relative) {
            int32_t shift;
            std::memcpy(&shift, reinterpret_cast<const void*>(at), 4);
            at += 4;
            address += static_cast<uint64_t>(static_cast<int64_t>(shift));
        }
        if (relative) address += at;
        std::memcpy(&out.divisor, reinterpret_cast<const void*>(address), out.bits / 8);
    }
    if (out.bits < 64) out.divisor &= (uint64_t{1} << out.bits) - 1;
    out.behind = at;
    return true;
}

}  // namespace

bool settle(void* context) {
    greg_t* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    Instruction division;
    if (!decode(registers, division)) return false;
    const auto dividend = static_cast<uint64_t>(registers[REG_RAX]);
    const bool by_zero = division.divisor == 0;
    const uint64_t quotient = by_zero ? ~uint64_t{0} : dividend, remainder = by_zero ? dividend : 0;
    auto put = [&](int number, uint64_t value) {
        auto& target = registers[number];
        if (division.bits == 64)
            target = static_cast<greg_t>(value);
        else if (division.bits == 32)  // writing the lower half clears the upper one
            target = static_cast<greg_t>(value & 0xFFFFFFFFu);
        else
            target = static_cast<greg_t>((static_cast<uint64_t>(target) & ~uint64_t{0xFFFF}) | (value & 0xFFFF));
    };
    if (division.bits == 8) {
        put(REG_RAX, (quotient & 0xFF) | (remainder & 0xFF) << 8);
    } else {
        put(REG_RAX, quotient);
        put(REG_RDX, remainder);
    }
    registers[REG_RIP] = static_cast<greg_t>(division.behind);
    return true;
}
#endif

}  // namespace emulator::division
