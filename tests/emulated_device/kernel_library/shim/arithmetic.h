// Makes integer division and conversions from floating point behave as on a GPU, in the host compiler's assembly text.
#pragma once

#include <string>
#include <string_view>

namespace kernel_library {

// On x86-64 a division by zero, and the smallest number divided by -1, stop the process; conversions of what does not fit
// give the smallest number. A GPU's give a value, and the largest or smallest number (PTX ISA, cvt: "integer destinations
// are saturated", NaN becomes 0 in 32 bits). Types are gone in the assembly text, so this reaches every division there is;
// conversions to unsigned types of 32 bits or less look like wider signed ones and keep the low bits.
//
// The text must have been compiled with xmm14 and xmm15 set aside (-ffixed-xmm14 -ffixed-xmm15) and without vectorisation.
std::string gpu_arithmetic(std::string_view assembly);

}  // namespace kernel_library
