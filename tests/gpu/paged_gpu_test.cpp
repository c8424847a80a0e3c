// Has a sequence whose rows lie in scattered pages the bits that it has side by side, on the GPU?
#include <catch2/catch.hpp>

#include "tests/gpu/gpu_ops.h"
#include "tests/support/paged_case.h"

using namespace versieve;
using namespace versieve::testing;

namespace {

using kernels::NsaForm;

// The shapes of real models: blocks of 64 and compressed tokens of 32 in 16, of other sizes too.
NsaCaseShape real_shape(std::int64_t context, std::int64_t nodes, std::int64_t head_dim,
                        std::int64_t block, std::mt19937_64& rng) {
  NsaCaseShape shape{.heads = 8,
                     .kv_heads = 2,
                     .head_dim = head_dim,
                     .context_len = context,
                     .nodes = nodes,
                     .tree = nodes == 1 ? TreeForm::kChain : TreeForm::kRandom};
  shape.nsa.cmp_block = 32;
  shape.nsa.cmp_stride = 16;
  shape.nsa.sel_block = block;
  shape.nsa.sel_count = 4 + pick(rng, 0, 8);
  shape.nsa.init_blocks = 1;
  shape.nsa.local_blocks = 2;
  shape.nsa.window = pick(rng, 1, 4) * 100;
  shape.group_size = std::int64_t{1} << pick(rng, 0, 2);
  return shape;
}

// Routed, and with the blocks that it chose given.
template <class T>
void check_nsa(kernels::Ops<T>& ops, const NsaCaseShape& shape, NsaForm form,
               std::mt19937_64& rng) {
  CAPTURE(shape.text(), test_seed(), sizeof(T));
  NsaCase c = make_nsa_case(shape, rng);
  CHECK(same_bits<T>(ops, c, form, rng));
  if (form == NsaForm::kFused) {
    CHECK(same_bits<T>(ops, c, form, rng, true));
  }
  c.indices_in = run_paged<T>(ops, c, form, {}).indices;
  CHECK(same_bits<T>(ops, c, form, rng));
}

}  // namespace

TEMPLATE_TEST_CASE("scattered pages change no bit of nsa_verify on the GPU [paged]", "[paged]",
                   float, Bf16) {
  const auto ops = test::try_gpu_ops<TestType>();
  if (ops == nullptr) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  for (int i = 0; i < 30; ++i) {
    NsaCaseShape shape = random_nsa_shape(rng, true);
    shape.context_len += pick(rng, 0, 300);
    check_nsa<TestType>(*ops, shape, i % 3 == 0 ? NsaForm::kVanilla : NsaForm::kFused, rng);
  }
}

TEST_CASE("scattered pages change no bit of the fused form, blocks of 16 to 128 [paged]",
          "[paged]") {
  const auto ops = test::try_gpu_ops<Bf16>();
  if (ops == nullptr) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  for (const std::int64_t block : {16, 32, 64, 128}) {
    for (const std::int64_t nodes : {1, 1, 5, 16, 64}) {
      for (const std::int64_t head_dim : {64, 128}) {
        const std::int64_t context = pick(rng, 1, 40) * 64 + pick(rng, -3, 3) * pick(rng, 0, 9);
        check_nsa<Bf16>(*ops, real_shape(context, nodes, head_dim, block, rng), NsaForm::kFused,
                        rng);
      }
    }
  }
  check_nsa<Bf16>(*ops, real_shape(16000, 64, 64, 64, rng), NsaForm::kFused, rng);
  check_nsa<Bf16>(*ops, real_shape(66000, 33, 64, 64, rng), NsaForm::kFused, rng);
}

TEMPLATE_TEST_CASE("scattered pages change no bit of tree attention on the GPU [paged]", "[paged]",
                   float, Bf16) {
  const auto ops = test::try_gpu_ops<TestType>();
  if (ops == nullptr) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  for (int i = 0; i < 30; ++i) {
    const TreeAttentionCase c = random_tree_attention_case(rng, true);
    CAPTURE(c.text(), test_seed());
    CHECK(same_bits<TestType>(*ops, c, {}, rng));
    CHECK(same_bits<TestType>(*ops, c, {.calls = 3}, rng));
  }
  for (const std::int64_t nodes : {1, 4, 9, 40, 150}) {
    for (const std::int64_t context : {1, 63, 64, 700, 3000}) {
      for (const bool chain : {false, true}) {
        const TreeAttentionCase c =
            dense_case(context, nodes, nodes % 2 == 0 ? 64 : 128, chain, rng);
        CAPTURE(nodes, context, chain);
        CHECK(same_bits<TestType>(*ops, c, {.chain = chain}, rng));
        CHECK(same_bits<TestType>(*ops, c, {.chain = chain, .calls = 2}, rng));
        CHECK(same_bits<TestType>(*ops, c, {.chain = chain, .calls = 3, .step = true}, rng));
        const std::vector<std::int32_t> tokens = listed_tokens(context, rng);
        CHECK(same_bits<TestType>(*ops, c, {.chain = chain, .tokens = &tokens}, rng));
        if (chain) {
          CHECK(same_bits<TestType>(*ops, c, {.chain = chain, .weights = true}, rng));
        }
      }
    }
  }
}

// So many that a block attends several chunks, and a warp merges a row.
TEST_CASE("a call among many of a step has the bits that it has alone [paged]", "[paged]") {
  const auto ops = test::try_gpu_ops<Bf16>();
  if (ops == nullptr) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  for (const std::int64_t head_dim : {64, 128}) {
    for (const std::int64_t nodes : {1, 3, 7, 16, 33}) {
      for (const std::int64_t context : {130, 4090, 17000}) {
        const bool chain = (nodes + context / 64) % 2 == 0;
        const TreeAttentionCase c = dense_case(context, nodes, head_dim, chain, rng);
        CAPTURE(head_dim, nodes, context, chain, test_seed());
        const std::vector<double> alone = run_paged<Bf16>(*ops, c, {.chain = chain});
        CHECK(run_paged<Bf16>(*ops, c, {.chain = chain, .calls = 70, .step = true}) == alone);
        CHECK(run_paged<Bf16>(*ops, c, {.chain = chain, .calls = 9, .step = true}) == alone);
      }
    }
  }
}

TEMPLATE_TEST_CASE("scattered pages change no bit of ReSA on the GPU [paged]", "[paged]", float,
                   Bf16) {
  const auto ops = test::try_gpu_ops<TestType>();
  if (ops == nullptr) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  for (int i = 0; i < 30; ++i) {
    const ResaCase c = random_resa_case(rng, true);
    CAPTURE(c.text(), test_seed());
    CHECK(same_bits<TestType>(*ops, c, i % 3 == 0, rng));
  }
  for (const std::int64_t block : {16, 24, 32, 64, 128}) {
    for (const std::int64_t length : {1, 63, 64, 1000, 9000}) {
      const ResaCase c = make_resa_case({.heads = 8,
                                         .kv_heads = 2,
                                         .head_dim = 64,
                                         .length = length,
                                         .selection = {.key_block = block},
                                         .q = {},
                                         .k = {},
                                         .v = {}},
                                        rng);
      CAPTURE(c.text(), test_seed());
      CHECK(same_bits<TestType>(*ops, c, false, rng));
    }
  }
}

TEST_CASE("scattered pages, for the checker of races [paged][race]", "[paged_race][race]") {
  const auto ops = test::try_gpu_ops<Bf16>();
  if (ops == nullptr) {
    return;
  }
  std::mt19937_64 rng(5);
  check_nsa<Bf16>(*ops, real_shape(200, 1, 64, 64, rng), NsaForm::kFused, rng);
  check_nsa<Bf16>(*ops, real_shape(150, 3, 64, 64, rng), NsaForm::kFused, rng);
  CHECK(same_bits<Bf16>(*ops, dense_case(150, 3, 64, false, rng), {}, rng));
  // Blocks of several chunks, rows merged by warps.
  CHECK(
      same_bits<Bf16>(*ops, dense_case(1500, 3, 64, false, rng), {.calls = 40, .step = true}, rng));
}
