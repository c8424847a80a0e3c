// Names as compiled in, names as read out.
#include "profiler/kernel_name.h"

#include <catch2/catch.hpp>

using versieve::profiler::readable_kernel_name;

TEST_CASE("a kernel's name loses parameters, the returned type and the project's namespaces") {
  CHECK(readable_kernel_name("_ZN8versieve7kernels11rope_kernelIfEEvPT_i") == "rope_kernel<float>");
  CHECK(readable_kernel_name("_ZN8versieve7kernels12_GLOBAL__N_111meet_kernelEv") == "meet_kernel");
  CHECK(readable_kernel_name("void versieve::kernels::(anonymous namespace)::fused_kernel<128, 4>("
                             "versieve::kernels::Params<float>, int (*)(int))") ==
        "fused_kernel<128, 4>");
  CHECK(readable_kernel_name("void versieve::kernels::rows<versieve::Bf16, (bool)1>(int)") ==
        "rows<Bf16, (bool)1>");
}

TEST_CASE("a plain name stays as it is") {
  CHECK(readable_kernel_name("delay_kernel") == "delay_kernel");
  CHECK(readable_kernel_name("") == "");
  CHECK(readable_kernel_name(")") == ")");
  CHECK(readable_kernel_name("a)") == "");
}
