#include "arithmetic.h"

#include <algorithm>
#include <cstddef>

namespace kernel_library {

#if defined(__x86_64__)
namespace {

struct Registers {
    const char* low;   // dividend, then quotient
    const char* high;  // remainder
};

constexpr Registers words[] = {{"%ax", "%dx"}, {"%eax", "%edx"}, {"%rax", "%rdx"}};

// Divisor 0: the quotient is all ones, the remainder the dividend. Divisor -1: no division, so no overflow.
// The flags are free: a division leaves them undefined.
std::string division(std::string_view mnemonic, std::string_view divisor, size_t number) {
    const bool is_signed = mnemonic[0] == 'i';
    const char width = mnemonic.back();
    const std::string label = ".Lgraphcap" + std::to_string(number), of(divisor), w(1, width);
    std::string low = "%al", high = "%ah";
    if (width != 'b') {
        const Registers& names = words[width == 'w' ? 0 : width == 'l' ? 1 : 2];
        low = names.low;
        high = names.high;
    }
    std::string out = "\tcmp" + w + "\t$0, " + of + "\n\tje\t" + label + "z\n";
    if (is_signed) out += "\tcmp" + w + "\t$-1, " + of + "\n\tje\t" + label + "m\n";
    out += "\t" + std::string(mnemonic) + "\t" + of + "\n\tjmp\t" + label + "e\n";
    out += label + "z:\n\tmov" + w + "\t" + low + ", " + high + "\n\tmov" + w + "\t$-1, " + low + "\n";
    if (is_signed) {
        out += "\tjmp\t" + label + "e\n" + label + "m:\n\tneg" + w + "\t" + low + "\n";
        out += "\tmov" + w + "\t$0, " + high + "\n";
    }
    return out + label + "e:\n";
}

// Compilers write the width into the mnemonic, or leave it to the register: %rax and %r9 are wide, %eax and %r9d are not.
bool is_wide(std::string_view mnemonic, std::string_view to) {
    if (mnemonic.back() != 'i') return mnemonic.back() == 'q';
    return to.substr(0, 2) == "%r" && to.back() != 'd';
}

// A scalar conversion with truncation; only the registers set aside, no flags.
std::string conversion(std::string_view mnemonic, std::string_view operands) {
    const size_t comma = operands.rfind(", ");
    const std::string from(operands.substr(0, comma)), to(operands.substr(comma + 2));
    const bool single = mnemonic.substr(0, 8) == "vcvttss2", wide = is_wide(mnemonic, to);
    std::string out;
    if (single)
        out = "\tvcvtss2sd\t" + from + ", %xmm15, %xmm15\n";
    else if (from[0] == '%')
        out = "\tvmovapd\t" + from + ", %xmm15\n";
    else
        out = "\tvmovsd\t" + from + ", %xmm15\n";
    if (!wide)
        return out + "\tvcmpordsd\t%xmm15, %xmm15, %xmm14\n\tvandpd\t%xmm14, %xmm15, %xmm15\n"
                     "\tvminsd\t.Lgraphcap_largest(%rip), %xmm15, %xmm15\n\tvcvttsd2sil\t%xmm15, " + to + "\n";
    // Too large gives the smallest number; all its bits turned over make the largest.
    return out + "\tvcvttsd2siq\t%xmm15, " + to + "\n\tvcmpgesd\t.Lgraphcap_two63(%rip), %xmm15, %xmm15\n"
                 "\tvmovq\t" + to + ", %xmm14\n\tvpxor\t%xmm15, %xmm14, %xmm14\n\tvmovq\t%xmm14, " + to + "\n";
}

constexpr char constants[] =
    "\t.section\t.rodata.graphcap,\"a\",@progbits\n\t.align 8\n"
    ".Lgraphcap_largest:\n\t.quad\t0x41dfffffffc00000\n"
    ".Lgraphcap_two63:\n\t.quad\t0x43e0000000000000\n";

// Memory operands name no register that the sequences change, the divisor's included: eax and edx hold the dividend.
bool is_division(std::string_view m) {
    if (!m.empty() && m[0] == 'i') m.remove_prefix(1);
    return m == "divb" || m == "divw" || m == "divl" || m == "divq";
}

bool is_conversion(std::string_view m) {
    if (!m.empty() && (m.back() == 'l' || m.back() == 'q')) m.remove_suffix(1);
    return m == "vcvttss2si" || m == "vcvttsd2si";
}

}  // namespace

std::string gpu_arithmetic(std::string_view assembly) {
    std::string out;
    out.reserve(assembly.size() + 1024);
    bool converted = false;
    size_t divisions = 0;
    for (size_t begin = 0; begin < assembly.size();) {
        const size_t end = std::min(assembly.find('\n', begin), assembly.size());
        const std::string_view line = assembly.substr(begin, end - begin);
        begin = end + 1;
        const size_t tab = line.find('\t', 1);
        const std::string_view mnemonic =
            !line.empty() && line[0] == '\t' && tab != std::string_view::npos ? line.substr(1, tab - 1) : std::string_view();
        if (is_division(mnemonic)) {
            out += division(mnemonic, line.substr(tab + 1), divisions++);
        } else if (is_conversion(mnemonic) && line.rfind(", ") != std::string_view::npos) {
            converted = true;
            out += conversion(mnemonic, line.substr(tab + 1));
        } else {
            out.append(line);
            out += '\n';
        }
    }
    return converted ? out + constants : out;
}

#else

// Here a division never stops the process, and conversions saturate, by the architecture.
std::string gpu_arithmetic(std::string_view assembly) { return std::string(assembly); }

#endif

}  // namespace kernel_library
