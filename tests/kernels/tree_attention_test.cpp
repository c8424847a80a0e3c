// tree_attention on the CPU against plain loops, and a draft token against the same token
// committed.
#include <catch2/catch.hpp>

#include "kernels/cpu.h"
#include "tests/kernels/random_tensor.h"
#include "tests/support/joint_attention_case.h"
#include "tests/support/nsa_case.h"
#include "tests/support/tree_attention_case.h"

using namespace versieve;
using namespace versieve::testing;

namespace {

template <class T>
std::vector<double> run(const TreeAttentionCase& c, int threads = 1) {
  TreeAttentionBuffers<T> buffers(c);
  kernels::tree_attention_cpu<T>(buffers.params(), threads);
  return buffers.result();
}

}  // namespace

TEMPLATE_TEST_CASE("tree_attention agrees with plain loops", "", double, float, Bf16) {
  std::mt19937_64 rng(test_seed());
  for (int i = 0; i < 60; ++i) {
    const TreeAttentionCase c = random_tree_attention_case(rng, false);
    CAPTURE(c.text(), test_seed());
    CHECK(relative_norm(plain_tree_attention<TestType>(c), run<TestType>(c, 1 + i % 3)) <=
          tolerance_of<TestType>().norm);
  }
}

TEMPLATE_TEST_CASE("joint rows are taken apart as rope_append would before", "[joint]", double,
                   float) {
  const auto fill = [](std::int64_t count, std::uint64_t seed) {
    return test::random_tensor<TestType>(count, seed);
  };
  const std::unique_ptr<kernels::Ops<TestType>> ops = kernels::make_cpu_ops<TestType>(2);
  for (const JointAttentionShape& s :
       {JointAttentionShape{.context_len = 90, .window = 60, .level = 4},
        JointAttentionShape{.heads = 6, .kv_heads = 3, .head_dim = 10, .context_len = 5}}) {
    const auto apart = joint_attention<TestType>(*ops, s, fill, false);
    const auto joint = joint_attention<TestType>(*ops, s, fill, true);
    CHECK(joint.out == apart.out);
    CHECK(joint.k_tree == apart.k_tree);
    CHECK(joint.v_tree == apart.v_tree);
    CHECK(joint.out[0] != 0.0);
    CHECK(joint.k_tree.back() != fill(static_cast<std::int64_t>(joint.k_tree.size()), 3).back());
  }
}

TEMPLATE_TEST_CASE("a query of tree_attention has the same bits once its path is committed", "",
                   double, float, Bf16) {
  std::mt19937_64 rng(test_seed());
  for (int i = 0; i < 40; ++i) {
    const TreeAttentionCase c = random_tree_attention_case(rng, false);
    CAPTURE(c.text(), test_seed());
    const std::vector<double> whole = run<TestType>(c);
    const std::int64_t width = c.heads * c.head_dim;
    for (std::size_t query = 0; query < c.query_node.size(); ++query) {
      const std::int64_t row = static_cast<std::int64_t>(query);
      const std::vector<double> alone = run<TestType>(decoded_last(c, row));
      CHECK(std::equal(alone.begin(), alone.end(), whole.begin() + row * width));
    }
  }
}
