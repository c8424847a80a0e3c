// Groups of queries in nsa_verify on CUDA, in both forms: against the plain rule, bit for bit
// against C = 1, and against reuse.
#include <catch2/catch.hpp>

#include "tests/gpu/nsa_run.h"
#include "tests/support/nsa_group_case.h"

using namespace versieve;
using namespace versieve::testing;

namespace {

constexpr kernels::NsaForm kForms[] = {kernels::NsaForm::kVanilla, kernels::NsaForm::kFused};

}  // namespace

TEMPLATE_TEST_CASE("approximate groups on CUDA agree with the plain rule", "", float, Bf16) {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  const auto check = [&](const NsaCaseShape& shape) {
    const NsaCase c = rounded<TestType>(make_nsa_case(shape, rng));
    for (const kernels::NsaForm form : kForms) {
      CAPTURE(shape.text(), name_of(form), test_seed());
      CHECK(disagreement(c, run_nsa<TestType>(c, {form}), tolerance_of<TestType>()) == "");
    }
  };
  for (int i = 0; i < 60; ++i) {
    check(with_random_groups(random_nsa_shape(rng, true), rng));
  }
  for (const NsaCaseShape& shape : adversarial_nsa_shapes()) {
    check(with_random_groups(shape, rng));
  }
}

TEMPLATE_TEST_CASE("groups on CUDA keep the bits that they promise", "", float, Bf16) {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  for (int i = 0; i < 40; ++i) {
    const NsaCaseShape shape = random_nsa_shape(rng, true);
    const NsaCase c = rounded<TestType>(make_nsa_case(shape, rng));
    for (const kernels::NsaForm form : kForms) {
      CAPTURE(shape.text(), name_of(form), test_seed());
      const auto run = [form](const NsaCase& x) { return run_nsa<TestType>(x, {form}); };
      CHECK(group_failure(c, run,
                          form == kernels::NsaForm::kFused ? ReuseOutput::kRounded
                                                           : ReuseOutput::kSameBits) == "");
    }
  }
}
