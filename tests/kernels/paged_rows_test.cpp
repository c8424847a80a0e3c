// Has a sequence whose rows lie in scattered pages the bits that it has side by side, on the CPU?
#include <catch2/catch.hpp>

#include "tests/support/paged_case.h"

using namespace versieve;
using namespace versieve::testing;

TEST_CASE("a row of a sequence is found in its page") {
  const std::vector<std::int32_t> page = {7, 0, 3};
  const kernels::PageTable table{.page = page.data(), .count = 8};
  CHECK(table.row(0) == 7 * 64);
  CHECK(table.row(63) == 7 * 64 + 63);
  CHECK(table.row(64) == 0);
  CHECK(table.row(130) == 3 * 64 + 2);
  CHECK(table.rows(130) == 8 * 64);
  CHECK(kernels::PageTable{}.row(130) == 130);
  CHECK(kernels::PageTable{}.rows(130) == 130);
}

TEMPLATE_TEST_CASE("scattered pages change no bit of nsa_verify", "", double, float) {
  const auto ops = kernels::make_cpu_ops<TestType>(2);
  std::mt19937_64 rng(test_seed());
  for (int i = 0; i < 30; ++i) {
    NsaCaseShape shape = random_nsa_shape(rng, false);
    shape.context_len += pick(rng, 0, 300);
    const NsaCase c = make_nsa_case(shape, rng);
    CAPTURE(shape.text(), test_seed());
    CHECK(same_bits<TestType>(*ops, c, kernels::NsaForm::kFused, rng));
  }
}

TEMPLATE_TEST_CASE("scattered pages change no bit of tree_attention", "", double, float) {
  const auto ops = kernels::make_cpu_ops<TestType>(2);
  std::mt19937_64 rng(test_seed());
  for (int i = 0; i < 30; ++i) {
    const TreeAttentionCase c = random_tree_attention_case(rng, false);
    CAPTURE(c.text(), test_seed());
    CHECK(same_bits<TestType>(*ops, c, {}, rng));
    CHECK(same_bits<TestType>(*ops, c, {.calls = 2, .step = true}, rng));
  }
  const TreeAttentionCase c = dense_case(300, 9, 16, false, rng);
  const std::vector<std::int32_t> tokens = listed_tokens(300, rng);
  CHECK(same_bits<TestType>(*ops, c, {.tokens = &tokens}, rng));
  CHECK(same_bits<TestType>(*ops, dense_case(300, 9, 16, true, rng),
                            {.chain = true, .weights = true}, rng));
}

TEMPLATE_TEST_CASE("scattered pages change no bit of block_keys and resa_decode", "", double,
                   float) {
  const auto ops = kernels::make_cpu_ops<TestType>(2);
  std::mt19937_64 rng(test_seed());
  for (int i = 0; i < 30; ++i) {
    const ResaCase c = random_resa_case(rng, false);
    CAPTURE(c.text(), test_seed());
    CHECK(same_bits<TestType>(*ops, c, false, rng));
  }
}
