// A draft level's best tokens and growth in one launch, against the two launches.
#include <catch2/catch.hpp>

#include "tests/gpu/gpu_ops.h"
#include "tests/support/growth_check.h"

using namespace versieve;

TEMPLATE_TEST_CASE("CUDA grows the same trees from logits as from lists", "[draft_tree]", float,
                   Bf16) {
  const std::unique_ptr<kernels::Ops<TestType>> ops = test::try_gpu_ops<TestType>();
  if (ops != nullptr) {
    test::check_growth_from_logits(*ops);
  }
}

TEST_CASE("CUDA grows a small tree from logits", "[draft_tree][race]") {
  const std::unique_ptr<kernels::Ops<Bf16>> ops = test::try_gpu_ops<Bf16>();
  if (ops != nullptr) {
    test::check_growth_from_logits(*ops, DraftChoice{3, 8, 16}, 272, false, 7);
  }
}
