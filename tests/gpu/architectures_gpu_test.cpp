// Does the CUDA engine compute every dense architecture as the ecosystem's own code does?
#include <catch2/catch.hpp>

#include "tests/gpu/gpu_ops.h"
#include "tests/support/architecture_parity.h"

namespace versieve::test {
namespace {

template <class T>
void check_architectures(double bound) {
  const std::unique_ptr<kernels::Ops<T>> ops = try_gpu_ops<T>();
  for (const std::string& name : ops ? architecture_names() : std::vector<std::string>()) {
    CAPTURE(name);
    const engine::Checkpoint checkpoint = engine::load_target(architectures_folder() / name);
    const ExpectedText expected(name);
    CHECK(logit_error(*ops, checkpoint, expected) < bound);
    CHECK(pieces_give_the_same_bits(*ops, checkpoint, expected.tokens));
  }
}

}  // namespace

TEST_CASE("every dense architecture's logits on a GPU are those of transformers", "[parity]") {
  check_architectures<float>(1e-4);
}

// A layer's rounding to 8 bits, a few layers deep.
TEST_CASE("every dense architecture's logits in bf16 are close to those of transformers",
          "[parity]") {
  check_architectures<Bf16>(5e-2);
}

}  // namespace versieve::test
