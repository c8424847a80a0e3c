// A kernel's name as people read it.
#pragma once

#include <string>

namespace versieve::profiler {

// Of a name as compiled (`_ZN8versieve…`) or as CUPTI has it: demangled, without the type that it
// returns, without parameters and without the namespaces of this project and unnamed ones:
// "fused_kernel<128, 4>". A name that is not mangled stays.
std::string readable_kernel_name(const std::string& compiled);

}  // namespace versieve::profiler
