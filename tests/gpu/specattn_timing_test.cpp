// What dense attention takes by the number of nodes, and what choosing tokens and reading them
// takes.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <numeric>

#include "kernels/ops_cuda.h"
#include "tests/gpu/gpu_ops.h"
#include "tests/gpu/sorted_top_p.h"

namespace versieve::kernels {

using test::random_elements;
using Ints = std::vector<std::int32_t>;

namespace {

// Microseconds a call, the median of batches.
template <class Work>
double micros(Ops<Bf16>& ops, const Work& work) {
  constexpr int kCalls = 50;
  work();
  const std::unique_ptr<Recording> calls = ops.record([&] {
    for (int i = 0; i < kCalls; ++i) {
      work();
    }
  });
  std::vector<double> taken;
  for (int batch = 0; batch < 9; ++batch) {
    ops.synchronize();
    const auto begin = std::chrono::steady_clock::now();
    calls->launch();
    ops.synchronize();
    taken.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
            .count() /
        kCalls);
  }
  std::nth_element(taken.begin(), taken.begin() + 4, taken.end());
  return taken[4];
}

// Of rows like attention's: few large weights.
std::vector<float> attention_like(std::int64_t count) {
  std::vector<float> rows = test::random_tensor<float>(count, 7);
  for (float& x : rows) {
    x = x * x * x * x;
  }
  return rows;
}

}  // namespace

TEST_CASE("times of choosing tokens and of reading them", "[timing]") {
  const auto ops = test::try_gpu_ops<Bf16>();
  if (!ops) {
    return;
  }
  constexpr std::int64_t kHeads = 32, kKvHeads = 8, kWidth = 64, kNodes = 8, kSteps = 7;
  std::printf(
      "H 32, G 8, d 64, bf16, 8 nodes, warm; us\n      L   tree chain   all   1/2   1/4   1/8"
      " 1 of 2 weights top_p of 7 rows, its list, one node: attention, with its weights\n");
  for (const std::int64_t length : {4096, 16384, 65536}) {
    const std::int64_t width = kKvHeads * kWidth;
    const OpsBuffer<Bf16> q(*ops, random_elements<Bf16>(kNodes * kHeads * kWidth, 1));
    const OpsBuffer<Bf16> k(*ops, random_elements<Bf16>(length * width, 2));
    const OpsBuffer<Bf16> tree(*ops, random_elements<Bf16>(kNodes * width, 3));
    OpsBuffer<Bf16> out(*ops, kNodes * kHeads * kWidth);
    Ints parents(kNodes), positions(kNodes);
    std::iota(parents.begin(), parents.end(), -1);
    std::iota(positions.begin(), positions.end(), static_cast<std::int32_t>(length));
    const OpsBuffer<Bf16, std::int32_t> parent(*ops, parents), position(*ops, positions);
    TreeAttentionParams<Bf16> p{.num_heads = kHeads, .num_kv_heads = kKvHeads, .head_dim = kWidth};
    p.context_len = length;
    p.num_queries = p.num_nodes = kNodes;
    p.parent = parent.data();
    p.position = position.data();
    p.q = q.data();
    p.k = p.v = k.data();
    p.k_tree = p.v_tree = tree.data();
    p.out = out.data();
    const double tree_us = micros(*ops, [&] { ops->tree_attention(p); });
    p.splits_chain = true;
    std::printf("%7lld %6.1f %5.1f", static_cast<long long>(length), tree_us,
                micros(*ops, [&] { ops->tree_attention(p); }));
    for (const std::int64_t part : {1, 2, 4, 8}) {
      Ints tokens;  // 16 of every 16 * part
      for (std::int32_t t = 0; t < length; ++t) {
        if (t / 16 % part == 0) {
          tokens.push_back(t);
        }
      }
      const OpsBuffer<Bf16, std::int32_t> list(*ops, tokens);
      p.selected = {.token = list.data(), .count = static_cast<std::int64_t>(tokens.size())};
      std::printf(" %5.1f", micros(*ops, [&] { ops->tree_attention(p); }));
    }
    {
      Ints tokens;  // no two together
      for (std::int32_t t = 0; t < length; t += 2) {
        tokens.push_back(t);
      }
      const OpsBuffer<Bf16, std::int32_t> list(*ops, tokens);
      p.selected = {.token = list.data(), .count = static_cast<std::int64_t>(tokens.size())};
      std::printf(" %6.1f", micros(*ops, [&] { ops->tree_attention(p); }));
    }
    OpsBuffer<Bf16, float> weights(*ops, kSteps * (length + kNodes));
    const double capture = micros(*ops, [&] {
      ops->attention_weights({.num_heads = kHeads,
                              .num_kv_heads = kKvHeads,
                              .head_dim = kWidth,
                              .context_len = length,
                              .num_nodes = kNodes,
                              .query_node = 0,
                              .parent = parent.data(),
                              .q = q.data(),
                              .k = k.data(),
                              .k_tree = tree.data(),
                              .weights = weights.data()});
    });
    const OpsBuffer<Bf16, float> made(*ops, attention_like(kSteps * length));
    OpsBuffer<Bf16, std::int32_t> mask(*ops, length);
    OpsBuffer<Bf16, float> mass(*ops, kSteps);
    TopPParams<float> choice{.rows = kSteps, .length = length, .p = 0.95};
    choice.weights = made.data();
    choice.mask = mask.data();
    choice.mass = mass.data();
    const OpsBuffer<Bf16, std::int32_t> token(*ops, length), count(*ops, 1);
    const TokenListParams lists{.lists = 1,
                                .length = length,
                                .mask = mask.data(),
                                .token = token.data(),
                                .count = count.data()};
    p.selected = {};
    p.num_queries = p.num_nodes = 1;
    const double step = micros(*ops, [&] { ops->tree_attention(p); });
    p.weights = weights.data();
    std::printf(" %7.1f %7.1f %6.1f %6.1f %6.1f\n", capture,
                micros(*ops, [&] { ops->top_p(choice); }),
                micros(*ops, [&] { ops->token_list(lists); }), step,
                micros(*ops, [&] { ops->tree_attention(p); }));
  }
}

namespace {

double sorted_micros(Ops<Bf16>& ops, testing::SortedTopP choice, bool segmented) {
  choice.segmented = segmented;
  const std::size_t bytes = testing::sorted_top_p_bytes(choice);
  OpsBuffer<Bf16, std::int8_t> storage(ops, static_cast<std::int64_t>(bytes) + 1);
  choice.storage = storage.data();
  return micros(ops, [&] {
    testing::enqueue_sorted_top_p(choice, bytes, static_cast<cudaStream_t>(stream_of(ops)));
  });
}

}  // namespace

TEST_CASE("times of top_p beside a choice that sorts", "[timing]") {
  const auto ops = test::try_gpu_ops<Bf16>();
  if (!ops) {
    return;
  }
  std::printf(
      "p 0.95, warm; us\n   rows       L  top_p  row by row  segmented  ratio to the best\n");
  for (const std::int64_t rows : {1, 7, 21}) {
    for (const std::int64_t length : {1024, 2048, 4096, 8192, 16384, 65536, 262144}) {
      const OpsBuffer<Bf16, float> weights(*ops, attention_like(rows * length));
      OpsBuffer<Bf16, std::int32_t> mask(*ops, length);
      OpsBuffer<Bf16, float> mass(*ops, rows), sorted(*ops, rows * length), least(*ops, rows);
      OpsBuffer<Bf16, double> prefix(*ops, rows * length);
      const double ours = micros(*ops, [&] {
        ops->top_p({.rows = rows,
                    .length = length,
                    .p = 0.95,
                    .weights = weights.data(),
                    .mask = mask.data(),
                    .mass = mass.data()});
      });
      const testing::SortedTopP choice{.rows = rows,
                                       .length = length,
                                       .p = 0.95,
                                       .weights = weights.data(),
                                       .sorted = sorted.data(),
                                       .prefix = prefix.data(),
                                       .least = least.data(),
                                       .mask = mask.data()};
      const double by_row = sorted_micros(*ops, choice, false);
      const double segmented = sorted_micros(*ops, choice, true);
      std::printf("%7lld %7lld %6.1f %11.1f %10.1f %6.2f\n", static_cast<long long>(rows),
                  static_cast<long long>(length), ours, by_row, segmented,
                  std::min(by_row, segmented) / ours);
    }
  }
}

TEST_CASE("times of dense attention by the number of nodes", "[timing]") {
  const auto ops = test::try_gpu_ops<Bf16>();
  if (!ops) {
    return;
  }
  constexpr std::int64_t kHeads = 32, kKvHeads = 8, kWidth = 64, kMost = 128;
  constexpr std::int64_t kKv = kKvHeads * kWidth;
  std::printf("us, as a tree of two children a node and as a chain\n      L nodes   tree  chain\n");
  for (const std::int64_t length : {4096, 16384, 65536}) {
    const OpsBuffer<Bf16> q(*ops, random_elements<Bf16>(kMost * kHeads * kWidth, 1));
    const OpsBuffer<Bf16> k(*ops, random_elements<Bf16>(length * kKv, 2));
    const OpsBuffer<Bf16> v(*ops, random_elements<Bf16>(length * kKv, 3));
    const OpsBuffer<Bf16> tree(*ops, random_elements<Bf16>(kMost * kKv, 4));
    OpsBuffer<Bf16> out(*ops, kMost * kHeads * kWidth);
    for (const std::int64_t nodes : {1, 2, 4, 8, 16, 32, 64, 128}) {
      Ints parents{-1}, positions{static_cast<std::int32_t>(length)}, query_nodes{0};
      for (std::int32_t i = 1; i < nodes; ++i) {
        parents.push_back((i - 1) / 2);
        positions.push_back(positions[static_cast<std::size_t>(parents.back())] + 1);
        query_nodes.push_back(i);
      }
      const OpsBuffer<Bf16, std::int32_t> parent(*ops, parents), position(*ops, positions),
          query_node(*ops, query_nodes);
      TreeAttentionParams<Bf16> p{
          .num_heads = kHeads, .num_kv_heads = kKvHeads, .head_dim = kWidth};
      p.context_len = length;
      p.num_queries = p.num_nodes = nodes;
      p.query_node = query_node.data();
      p.parent = parent.data();
      p.position = position.data();
      p.q = q.data();
      p.k = k.data();
      p.v = v.data();
      p.k_tree = p.v_tree = tree.data();
      p.out = out.data();
      const double tree_us = micros(*ops, [&] { ops->tree_attention(p); });
      p.query_node = nullptr;
      p.splits_chain = true;
      std::printf("%7lld %5lld %6.1f %6.1f\n", static_cast<long long>(length),
                  static_cast<long long>(nodes), tree_us,
                  micros(*ops, [&] { ops->tree_attention(p); }));
    }
  }
}

}  // namespace versieve::kernels
