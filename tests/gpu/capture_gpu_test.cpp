// The weights of a chain's newest query that attention gives beside itself, against the op that
// gives them alone, which specattn_gpu_test.cpp compares with the CPU.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/gpu/gpu_ops.h"
#include "tests/support/tree_attention_case.h"

namespace versieve::kernels {

namespace {

constexpr std::int64_t kBeyond = 700;  // rows that a bound names and no token has

// A chain's attention with and without the newest query's weights, which the op gives alone, too.
template <class T>
void check_capture(Ops<T>& ops, std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim,
                   std::int64_t length, std::int64_t nodes) {
  CAPTURE(heads, kv_heads, head_dim, length, nodes);
  const std::uint32_t seed = static_cast<std::uint32_t>(length + nodes);
  const auto elements = [&](std::int64_t count, std::uint32_t more) {
    return OpsBuffer<T>(ops, test::random_elements<T>(count, seed + more, 1.5));
  };
  const OpsBuffer<T> q = elements(nodes * heads * head_dim, 1);
  const OpsBuffer<T> k = elements((length + kBeyond) * kv_heads * head_dim, 2);
  const OpsBuffer<T> v = elements((length + kBeyond) * kv_heads * head_dim, 3);
  const OpsBuffer<T> tree = elements(nodes * kv_heads * head_dim, 4);
  std::vector<std::int32_t> parents, positions;
  for (std::int32_t i = 0; i < nodes; ++i) {
    parents.push_back(i - 1);
    positions.push_back(static_cast<std::int32_t>(length) + i);
  }
  const OpsBuffer<T, std::int32_t> parent(ops, parents), position(ops, positions);
  const std::vector<float> blank(static_cast<std::size_t>(length + nodes + 1), -3.0F);
  const OpsBuffer<T, float> alone(ops, blank), beside(ops, blank);
  OpsBuffer<T> out(ops, nodes * heads * head_dim), out_beside(ops, nodes * heads * head_dim);
  TreeAttentionParams<T> p{.num_heads = heads, .num_kv_heads = kv_heads, .head_dim = head_dim};
  p.context_len = length;
  p.num_queries = p.num_nodes = nodes;
  p.parent = parent.data();
  p.position = position.data();
  p.q = q.data();
  p.k = k.data();
  p.v = v.data();
  p.k_tree = p.v_tree = tree.data();
  p.splits_chain = true;
  p.out = out.data();
  ops.tree_attention(p);
  p.out = out_beside.data();
  p.weights = beside.data();
  ops.tree_attention(p);
  AttentionWeightsParams<T> weights = weights_of(p);
  weights.weights = alone.data();
  ops.attention_weights(weights);
  // The same, the length in memory and a bound of it here.
  const OpsBuffer<T, StepCounts> counts(
      ops, std::vector<StepCounts>{{.context_len = static_cast<std::int32_t>(length)}});
  OpsBuffer<T> out_counted(ops, nodes * heads * head_dim);
  const OpsBuffer<T, float> counted(ops, blank);
  p.counts = counts.data();
  p.context_len = length + kBeyond;
  p.out = out_counted.data();
  p.weights = counted.data();
  ops.tree_attention(p);
  const auto bits = [](const std::vector<T>& x) {
    std::vector<float> wide;
    for (const T e : x) {
      wide.push_back(static_cast<float>(test::widen(e)));
    }
    return wide;
  };
  CHECK(bits(out.read()) == bits(out_beside.read()));
  CHECK(bits(out.read()) == bits(out_counted.read()));
  CHECK(beside.read() == counted.read());
  const std::vector<float> want = alone.read(), got = beside.read();
  CHECK(got.back() == -3.0F);  // nothing is written beyond the node
  CHECK(testing::relative_norm({want.begin(), want.end() - 1}, {got.begin(), got.end() - 1}) <
        1e-5);
}

}  // namespace

TEMPLATE_TEST_CASE("CUDA attention gives its newest query's weights beside itself", "[capture]",
                   float, Bf16) {
  const auto ops = test::try_gpu_ops<TestType>();
  if (!ops) {
    return;
  }
  for (const std::int64_t length : {0, 1, 62, 63, 64, 127, 128, 1000, 16383, 16384, 16385, 40000}) {
    check_capture<TestType>(*ops, 32, 8, 64, length, 1);
  }
  for (const std::int64_t nodes : {2, 4, 7}) {  // 7: more rows than one warp's
    check_capture<TestType>(*ops, 12, 4, 128, 3000, nodes);
    check_capture<TestType>(*ops, 8, 8, 64, 16383, nodes);
    check_capture<TestType>(*ops, 6, 2, 32, 500, nodes);  // another launch's
  }
}

TEST_CASE("CUDA attention gives its newest query's weights on one small case", "[race]") {
  const auto ops = test::try_gpu_ops<Bf16>();
  if (!ops) {
    return;
  }
  check_capture<Bf16>(*ops, 8, 2, 64, 300, 2);
}

}  // namespace versieve::kernels
