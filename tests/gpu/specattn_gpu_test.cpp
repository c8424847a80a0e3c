// layer_map, token lists, attention weights and attention over chosen tokens on CUDA against the
// CPU; work that runs beside.
#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <numeric>

#include "kernels/cpu.h"
#include "kernels/ops_cuda.h"
#include "tests/gpu/top_p_run.h"
#include "tests/support/nsa_case.h"
#include "tests/support/tree_attention_case.h"

namespace versieve::kernels {
namespace {

using testing::TreeAttentionCase;

// Windowless, with head sizes the CUDA kernels take.
TreeAttentionCase windowless_case(std::mt19937_64& rng) {
  TreeAttentionCase c = testing::random_tree_attention_case(rng, true);
  c.window = 0;
  c.first_position = 0;
  return c;
}
// About every third committed token, at random.
Ints third_of_tokens(const TreeAttentionCase& c, std::mt19937_64& rng) {
  Ints tokens;
  for (std::int32_t t = 0; t < c.context_len; ++t) {
    if (rng() % 3 == 0) {
      tokens.push_back(t);
    }
  }
  return tokens;
}

TreeAttentionCase kept(const TreeAttentionCase& c, const Ints& tokens) {
  const std::int64_t width = c.kv_heads * c.head_dim;
  TreeAttentionCase r = c;
  r.k.clear();
  r.v.clear();
  for (const std::int32_t token : tokens) {
    r.k.insert(r.k.end(), c.k.begin() + token * width, c.k.begin() + (token + 1) * width);
    r.v.insert(r.v.end(), c.v.begin() + token * width, c.v.begin() + (token + 1) * width);
  }
  r.context_len = static_cast<std::int64_t>(tokens.size());
  return r;
}

// Runs of neighbours of many lengths, so that tiles of the list are whole, runs, and neither.
Ints runs_of_tokens(const TreeAttentionCase& c, std::mt19937_64& rng) {
  Ints tokens;
  for (std::int32_t t = 0; t < c.context_len;) {
    const std::int32_t length = 1 + static_cast<std::int32_t>(rng() % (rng() % 2 == 0 ? 200 : 20));
    for (std::int32_t i = 0; i < length && t < c.context_len; ++i) {
      tokens.push_back(t++);
    }
    t += 1 + static_cast<std::int32_t>(rng() % 9);
  }
  return tokens;
}

// A case's tensors on the device.
template <class T>
struct DeviceCase {
  DeviceCase(Ops<T>& ops, const TreeAttentionCase& c)
      : host(c),
        q(ops, host.q),
        k(ops, host.k.empty() ? host.k_tree : host.k),
        v(ops, host.v.empty() ? host.v_tree : host.v),
        k_tree(ops, host.k_tree),
        v_tree(ops, host.v_tree),
        out(test::poisoned<T>(ops, static_cast<std::int64_t>(host.out.size()))),
        parent(ops, c.parent),
        position(ops, c.position),
        query_node(ops, c.query_node) {}

  testing::TreeAttentionBuffers<T> host;
  OpsBuffer<T> q, k, v, k_tree, v_tree, out;
  OpsBuffer<T, std::int32_t> parent, position, query_node;
};

template <class T>
std::vector<double> attend_on_gpu(Ops<T>& ops, const TreeAttentionCase& c, const Ints& tokens,
                                  bool count_on_device = false, bool listed = true) {
  DeviceCase<T> device(ops, c);
  const OpsBuffer<T, std::int32_t> list(ops, tokens.empty() ? Ints{0} : tokens);
  const OpsBuffer<T, std::int32_t> count(ops, Ints{static_cast<std::int32_t>(tokens.size())});
  const OpsBuffer<T, StepCounts> counts(
      ops, std::vector<StepCounts>{{.context_len = static_cast<std::int32_t>(c.context_len)}});
  TreeAttentionParams<T> p = device.host.params();
  if (listed) {
    p.selected = {.token = list.data(), .count = static_cast<std::int64_t>(tokens.size())};
  }
  if (count_on_device) {
    p.selected.count = c.context_len;
    p.selected.known_count = count.data();
    p.counts = counts.data();
  }
  p.query_node = device.query_node.data();
  p.parent = device.parent.data();
  p.position = device.position.data();
  p.q = device.q.data();
  p.k = device.k.data();
  p.v = device.v.data();
  p.k_tree = device.k_tree.data();
  p.v_tree = device.v_tree.data();
  p.out = device.out.data();
  ops.tree_attention(p);
  return test::widen_all(device.out.read());
}

}  // namespace

TEST_CASE("CUDA layer_map gives the CPU's map and score, ties and forbidden pairs included") {
  const auto ops = test::try_gpu_ops<float>();
  if (!ops) {
    return;
  }
  std::mt19937_64 random(17);
  for (int round = 0; round < 150; ++round) {
    const std::int64_t m = 1 + static_cast<std::int64_t>(random() % 80);
    const std::int64_t n = 1 + static_cast<std::int64_t>(random() % 40);
    std::vector<double> similarity;
    for (std::int64_t i = 0; i < m * n; ++i) {
      const double value = -static_cast<double>(random() % 4);
      similarity.push_back(random() % 5 == 0 ? -std::numeric_limits<double>::infinity() : value);
    }
    Ints want(static_cast<std::size_t>(n));
    double score = 0.0;
    LayerMapParams p{.draft_layers = m,
                     .verifier_layers = n,
                     .similarity = similarity.data(),
                     .map = want.data(),
                     .score = &score};
    layer_map_cpu(p);
    const OpsBuffer<float, double> table(*ops, similarity);
    OpsBuffer<float, std::int32_t> map(*ops, Ints(static_cast<std::size_t>(n), -9));
    OpsBuffer<float, double> sum(*ops, std::vector<double>{-9.0});
    p.similarity = table.data();
    p.map = map.data();
    p.score = sum.data();
    ops->layer_map(p);
    CAPTURE(round, m, n);
    CHECK(map.read() == want);
    CHECK(sum.read()[0] == score);
  }
}

// What runs beside sees what was enqueued before it and is seen after it was joined, also when it
// is recorded; launches on both sides start early (kernels/common/dependent_launch.cuh).
TEST_CASE("CUDA work beside comes after what is before it and before what joins it", "[beside]") {
  const auto ops = test::try_gpu_ops<float>();
  if (!ops) {
    return;
  }
  constexpr std::int64_t kLength = 9000, kRows = 3;  // three blocks a row
  const std::vector<float> weights = test::random_tensor<float>(kRows * kLength, 37);
  std::vector<float> squares;
  for (const float w : weights) {
    squares.push_back(w * w);
  }
  const TopPAnswer want = top_p_on_cpu(top_p_params(kRows, kLength, kLength, 0.8), squares);
  const OpsBuffer<float> source(*ops, squares);
  OpsBuffer<float> copied = test::poisoned<float>(*ops, kRows * kLength);
  OpsBuffer<float> other = test::poisoned<float>(*ops, kRows * kLength);
  OpsBuffer<float> mass = test::poisoned<float>(*ops, kRows);
  OpsBuffer<float> joined = test::poisoned<float>(*ops, kRows);
  OpsBuffer<float, std::int32_t> mask(*ops, Ints(static_cast<std::size_t>(kLength), -5));
  const auto copy = [&](std::int64_t rows, std::int64_t width, const float* from, float* to) {
    ops->copy_rows({.rows = rows, .width = width, .src = from, .dst = to});
  };
  const auto step = [&] {
    copy(kRows, kLength, source.data(), copied.data());
    ops->enqueue_beside([&] {
      TopPParams<float> p = top_p_params(kRows, kLength, kLength, 0.8);
      p.weights = copied.data();
      p.mask = mask.data();
      p.mass = mass.data();
      ops->top_p(p);
    });
    for (int i = 0; i < 5; ++i) {
      copy(kRows, kLength, source.data(), other.data());
    }
    ops->join_beside();
    copy(1, kRows, mass.data(), joined.data());
  };
  const auto forget = [&] {
    const std::vector<float> poison(static_cast<std::size_t>(kRows * kLength), -1.0F);
    ops->upload(copied.data(), poison.data(), poison.size() * sizeof(float));
    ops->upload(mass.data(), poison.data(), kRows * sizeof(float));
    ops->upload(joined.data(), poison.data(), kRows * sizeof(float));
  };
  const auto check_all = [&] {
    CHECK(joined.read() == mass.read());
    CHECK(mask.read() == want.mask);
    CHECK(testing::relative_norm({want.mass.begin(), want.mass.end()},
                                 test::widen_all(joined.read())) < 1e-6);
  };
  step();
  check_all();
  forget();
  const std::unique_ptr<Recording> recorded = ops->record(step);
  for (int i = 0; i < 3; ++i) {
    recorded->launch();
  }
  ops->synchronize();
  check_all();
}

namespace {

// token_list of random masks, by the CPU and on the GPU.
void check_lists(Ops<float>& ops, std::int64_t lists, std::int64_t length, std::int64_t chunk,
                 std::uint64_t one_in, std::mt19937_64& random) {
  Ints mask(static_cast<std::size_t>(lists * length));
  for (std::int32_t& m : mask) {
    m = random() % one_in == 0 ? 1 : 0;
  }
  const std::int64_t stride = length + 3;
  Ints token(static_cast<std::size_t>(lists * stride), -9);
  Ints count(static_cast<std::size_t>(lists), -9);
  std::vector<std::int64_t> total(static_cast<std::size_t>(lists), 5);
  const OpsBuffer<float, std::int32_t> masks(ops, mask), tokens(ops, token), counts(ops, count);
  const OpsBuffer<float, std::int64_t> totals(ops, total);
  const OpsBuffer<float, StepCounts> length_there(
      ops, std::vector<StepCounts>{{.context_len = static_cast<std::int32_t>(length)}});
  TokenListParams p{.lists = lists,
                    .length = length,
                    .chunk = chunk,
                    .token_stride = stride,
                    .mask = masks.data(),
                    .token = tokens.data(),
                    .count = counts.data(),
                    .total = totals.data()};
  ops.token_list(p);
  p.length = length + 2;  // a bound
  p.mask_stride = length;
  p.counts = length_there.data();
  ops.token_list(p);
  p.length = length;
  p.counts = nullptr;
  p.mask = mask.data();
  p.token = token.data();
  p.count = count.data();
  p.total = total.data();
  token_list_cpu(p, 1);
  token_list_cpu(p, 1);
  CAPTURE(lists, length, chunk, one_in);
  CHECK(counts.read() == count);
  CHECK(tokens.read() == token);  // nothing behind the lists
  CHECK(totals.read() == total);
}

}  // namespace

TEST_CASE("CUDA token_list gives the CPU's lists") {
  const auto ops = test::try_gpu_ops<float>();
  if (!ops) {
    return;
  }
  std::mt19937_64 random(23);
  for (const std::int64_t length : {1, 15, 16, 17, 255, 4096, 4113, 65536, 262145}) {
    for (const std::int64_t chunk : {1, 3, 16, 1000}) {
      for (const std::uint64_t one_in : {1U, 5U, 100U, 1U << 30}) {
        check_lists(*ops, 1 + static_cast<std::int64_t>(random() % 4), length, chunk, one_in,
                    random);
      }
    }
  }
}

TEMPLATE_TEST_CASE("CUDA attention over a list whose count is on the device has the same bits", "",
                   float, Bf16) {
  const auto ops = test::try_gpu_ops<TestType>();
  if (!ops) {
    return;
  }
  std::mt19937_64 rng(testing::test_seed());
  for (int i = 0; i < 20; ++i) {
    const TreeAttentionCase c = windowless_case(rng);
    const Ints tokens = third_of_tokens(c, rng);
    CAPTURE(c.text(), testing::test_seed());
    CHECK(attend_on_gpu<TestType>(*ops, c, tokens, true) ==
          attend_on_gpu<TestType>(*ops, c, tokens));
  }
}

TEMPLATE_TEST_CASE("CUDA attention over a list of all tokens has the bits of no list", "", float,
                   Bf16) {
  const auto ops = test::try_gpu_ops<TestType>();
  if (!ops) {
    return;
  }
  std::mt19937_64 rng(testing::test_seed());
  for (int i = 0; i < 10; ++i) {
    const TreeAttentionCase c = windowless_case(rng);
    Ints all(static_cast<std::size_t>(c.context_len));
    std::iota(all.begin(), all.end(), 0);
    CAPTURE(c.text(), testing::test_seed());
    CHECK(attend_on_gpu<TestType>(*ops, c, all) ==
          attend_on_gpu<TestType>(*ops, c, {}, false, /*listed=*/false));
  }
}

TEMPLATE_TEST_CASE("CUDA attention over chosen tokens sees them and the path", "", float, Bf16) {
  const auto ops = test::try_gpu_ops<TestType>();
  if (!ops) {
    return;
  }
  std::mt19937_64 rng(testing::test_seed());
  for (int i = 0; i < 40; ++i) {
    const TreeAttentionCase c = windowless_case(rng);
    const Ints tokens = i % 2 == 0 ? third_of_tokens(c, rng) : runs_of_tokens(c, rng);
    CAPTURE(c.text(), testing::test_seed());
    CHECK(testing::relative_norm(testing::plain_tree_attention<TestType>(kept(c, tokens)),
                                 attend_on_gpu<TestType>(*ops, c, tokens)) <=
          testing::tolerance_of<TestType>().norm);
  }
}

namespace {

template <class T>
void check_weights(Ops<T>& ops, const TreeAttentionCase& c) {
  DeviceCase<T> device(ops, c);
  const std::int64_t node = c.query_node[0];
  const std::int64_t length = c.position[static_cast<std::size_t>(node)] + 1;
  std::vector<float> want(static_cast<std::size_t>(length + 1), -3.0F);
  OpsBuffer<T, float> got(ops, want);
  AttentionWeightsParams<T> p{.num_heads = c.heads,
                              .num_kv_heads = c.kv_heads,
                              .head_dim = c.head_dim,
                              .context_len = c.context_len,
                              .num_nodes = static_cast<std::int64_t>(c.parent.size()),
                              .query_node = node,
                              .parent = c.parent.data(),
                              .q = device.host.q.data(),
                              .k = device.host.k.data(),
                              .k_tree = device.host.k_tree.data(),
                              .weights = want.data()};
  attention_weights_cpu(p, 2);
  p.parent = device.parent.data();
  p.q = device.q.data();
  p.k = device.k.data();
  p.k_tree = device.k_tree.data();
  p.weights = got.data();
  ops.attention_weights(p);
  const std::vector<float> all = got.read();
  CHECK(all.back() == -3.0F);  // nothing is written beyond the node
  CHECK(testing::relative_norm({want.begin(), want.end() - 1}, {all.begin(), all.end() - 1}) <
        1e-5);
}

}  // namespace

TEMPLATE_TEST_CASE("CUDA attention weights agree with the CPU's", "", float, Bf16) {
  const auto ops = test::try_gpu_ops<TestType>();
  if (!ops) {
    return;
  }
  std::mt19937_64 rng(testing::test_seed());
  for (int i = 0; i < 40; ++i) {
    const TreeAttentionCase c = windowless_case(rng);
    CAPTURE(c.text(), testing::test_seed());
    check_weights<TestType>(*ops, c);
  }
}

// For checkers that slow kernels a thousandfold.
TEST_CASE("CUDA's choice of tokens agrees with the CPU's on one small case", "[race]") {
  const auto ops = test::try_gpu_ops<float>();
  if (!ops) {
    return;
  }
  std::mt19937_64 rng(testing::test_seed());
  TreeAttentionCase c = windowless_case(rng);
  check_weights<float>(*ops, c);
  std::vector<float> weights;
  for (int i = 0; i < 3 * 700; ++i) {
    weights.push_back(static_cast<float>(rng() % 64 * (rng() % 64)));
  }
  const TopPParams<float> params = top_p_params(3, 700, 700, 0.9);
  const TopPAnswer got = top_p_on_gpu(*ops, params, weights);
  const TopPAnswer want = top_p_on_cpu(params, weights);
  CHECK(got.mask == want.mask);
  CHECK(got.mass == want.mass);
  const TopPParams<float> wide = top_p_params(1, 5000, 5000, 0.9);  // two blocks a row
  std::vector<float> row;
  for (int i = 0; i < 5000; ++i) {
    row.push_back(static_cast<float>(rng() % 64 * (rng() % 64)));
  }
  CHECK(top_p_on_gpu(*ops, wide, row).mask == top_p_on_cpu(wide, row).mask);
  check_lists(*ops, 2, 9000, 16, 100, rng);
}

}  // namespace versieve::kernels
