// Have calls of several sequences in one launch the bits that each has alone, in scattered pages
// that some of them share: keys to choose by, an indexer's choice, attention over what was chosen?
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "kernels/choose_together.h"
#include "kernels/ops_together.h"
#include "tests/gpu/call_pool.h"

using namespace versieve;
using namespace versieve::kernels;
using namespace versieve::test;

namespace {

constexpr std::int64_t kLayers = 2;

template <class T>
void check_resa(Ops<T>& ops, Heads heads, const std::vector<std::int64_t>& lengths,
                std::mt19937_64& rng) {
  const Pool<T> pool(ops, heads, lengths, rng);
  const OpsBuffer<T> q(ops, random_elements<T>(std::ssize(lengths) * heads.query * heads.dim, 3)),
      fresh(ops, random_elements<T>(2 * std::ssize(lengths) * heads.width(), 4));
  std::vector<Twice<T, T>> kmin, kmax, out;
  std::vector<Twice<T, std::int32_t>> indices;
  std::vector<BlockKeysParams<T>> keys[2];
  std::vector<ResaDecodeParams<T>> calls[2];
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const std::int64_t at = static_cast<std::int64_t>(i);
    const ResaSelection selection{.key_block = i % 4 == 3 ? 8 : 16, .n_min = 1 + at % 5};
    const std::int64_t rows = key_block_count(lengths[i] + 1, selection.key_block);
    kmin.push_back(unwritten(ops, kLayers * rows * heads.width()));
    kmax.push_back(unwritten(ops, kLayers * rows * heads.width()));
    out.push_back(unwritten(ops, heads.query * heads.dim));
    indices.push_back(numbers(ops, heads.kv * rows));
    for (const bool both : {false, true}) {
      keys[both].push_back({.layers = kLayers,
                            .num_kv_heads = heads.kv,
                            .head_dim = heads.dim,
                            .key_block = selection.key_block,
                            .first_token = i % 2 == 0 ? 0 : lengths[i] / 2,
                            .length = lengths[i],
                            .k_layer_rows = pool.rows(),
                            .key_layer_rows = rows,
                            .pages = pool.table(i),
                            .k = pool.k.data(),
                            .kmin = kmin[i].at(both),
                            .kmax = kmax[i].at(both)});
      calls[both].push_back({.selection = selection,
                             .num_heads = heads.query,
                             .num_kv_heads = heads.kv,
                             .head_dim = heads.dim,
                             .context_len = lengths[i],
                             .vanilla = i % 5 == 4,
                             .q = q.data() + at * heads.query * heads.dim,
                             .pages = pool.table(i),
                             .k = pool.k.data() + pool.rows() * heads.width(),
                             .v = pool.v.data() + pool.rows() * heads.width(),
                             .k_new = fresh.data() + 2 * at * heads.width(),
                             .v_new = fresh.data() + (2 * at + 1) * heads.width(),
                             .kmin = kmin[i].at(both) + rows * heads.width(),
                             .kmax = kmax[i].at(both) + rows * heads.width(),
                             .out = out[i].at(both),
                             .indices = indices[i].at(both)});
    }
  }
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    ops.block_keys(keys[0][i]);
    ops.resa_decode(calls[0][i]);
  }
  block_keys_together<T>(ops, keys[1]);
  resa_decode_together<T>(ops, calls[1]);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    CAPTURE(i, lengths[i], sizeof(T));
    CHECK(kmin[i].same());
    CHECK(kmax[i].same());
    CHECK(indices[i].same());
    CHECK(out[i].same());
  }
}

template <class T>
void check_indexer(Ops<T>& ops, Heads heads, const std::vector<std::int64_t>& lengths,
                   std::mt19937_64& rng) {
  const Pool<T> pool(ops, heads, lengths, rng);
  const IndexShape index = index_shape(heads.query, heads.kv, heads.dim);
  const OpsBuffer<T> q(ops, random_elements<T>(std::ssize(lengths) * heads.query * heads.dim, 5));
  const OpsBuffer<T, float> ones(ops,
                                 std::vector<float>(static_cast<std::size_t>(index.heads), 1.0F));
  std::vector<Twice<T, T>> keys, query, scores, values;
  std::vector<Twice<T, std::int32_t>> list, hint, count;
  std::vector<IndexKeysParams<T>> made[2];
  std::vector<IndexQueryParams<T>> asked[2];
  std::vector<IndexScoresParams<T>> scored[2];
  std::vector<TopkParams<T>> chosen[2];
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const std::int64_t at = static_cast<std::int64_t>(i), length = lengths[i];
    const std::int64_t newest = 1 + at % 8;
    const std::int64_t k = std::max<std::int64_t>(1, length / (i % 3 == 0 ? 2 : 9) - newest);
    keys.push_back(unwritten(ops, kLayers * length * index.dim));
    query.push_back(unwritten(ops, index.heads * index.dim));
    scores.push_back(unwritten(ops, length));
    values.push_back(unwritten(ops, k));
    list.push_back(numbers(ops, k + newest, i % 2 == 0 ? -1 : 3));
    hint.push_back(numbers(ops, k));
    count.push_back(numbers(ops, 1));
    const TopkVariant variant = i % 7 == 3   ? TopkVariant::kSort
                                : i % 3 == 1 ? TopkVariant::kRadix
                                             : TopkVariant::kGvr;
    for (const bool both : {false, true}) {
      made[both].push_back({.layers = kLayers,
                            .num_kv_heads = heads.kv,
                            .head_dim = heads.dim,
                            .index = index,
                            .first_token = i % 2 == 0 ? 0 : length / 3,
                            .length = length,
                            .k_layer_rows = pool.rows(),
                            .key_layer_rows = length,
                            .pages = pool.table(i),
                            .k = pool.k.data(),
                            .keys = keys[i].at(both)});
      asked[both].push_back({.context_len = length,
                             .num_heads = heads.query,
                             .num_kv_heads = heads.kv,
                             .head_dim = heads.dim,
                             .index = index,
                             .chosen = k,
                             .newest = newest,
                             .q = q.data() + at * heads.query * heads.dim,
                             .index_q = query[i].at(both),
                             .list = list[i].at(both),
                             .hint = hint[i].at(both),
                             .count = count[i].at(both)});
      scored[both].push_back({.newest = newest,
                              .rows = 1,
                              .length = length - newest,
                              .num_heads = index.heads,
                              .head_dim = index.dim,
                              .q = query[i].at(both),
                              .weights = ones.data(),
                              .keys = keys[i].at(both) + length * index.dim,
                              .scores = scores[i].at(both)});
      chosen[both].push_back({.variant = variant,
                              .rows = 1,
                              .length = length - newest,
                              .k = k,
                              .scores = scores[i].at(both),
                              .hint = variant == TopkVariant::kGvr ? hint[i].at(both) : nullptr,
                              .indices = list[i].at(both),
                              .values = values[i].at(both)});
    }
  }
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    ops.index_keys(made[0][i]);
    ops.index_query(asked[0][i]);
    ops.index_scores(scored[0][i]);
    ops.topk(chosen[0][i]);
  }
  index_keys_together<T>(ops, made[1]);
  index_query_together<T>(ops, asked[1]);
  index_scores_together<T>(ops, scored[1]);
  topk_together<T>(ops, chosen[1]);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    CAPTURE(i, lengths[i], sizeof(T));
    CHECK(keys[i].same());
    CHECK(query[i].same());
    CHECK(hint[i].same());
    CHECK(count[i].same());
    CHECK(scores[i].same());
    CHECK(list[i].same());
    CHECK(values[i].same());
  }
}

// Layers of a step in which some calls read lists of their own, others all tokens.
template <class T>
void check_listed_step(Ops<T>& ops, Heads heads, const std::vector<std::int64_t>& lengths,
                       std::int64_t nodes, std::mt19937_64& rng) {
  const Pool<T> pool(ops, heads, lengths, rng);
  const std::int64_t calls = std::ssize(lengths), q_width = heads.query * heads.dim;
  const OpsBuffer<T> q(ops, random_elements<T>(calls * nodes * q_width, 6)),
      k_tree(ops, random_elements<T>(kLayers * calls * nodes * heads.width(), 7)),
      v_tree(ops, random_elements<T>(kLayers * calls * nodes * heads.width(), 8));
  const std::int64_t tree_rows = calls * nodes;
  std::vector<OpsBuffer<T, std::int32_t>> lists, parents, positions;
  std::vector<Twice<T, T>> out;
  DenseStepParams<T> step{.layers = kLayers,
                          .cache_rows = pool.rows(),
                          .tree_rows = tree_rows,
                          .k = pool.k.data(),
                          .v = pool.v.data(),
                          .windows = {},
                          .calls = {},
                          .call_layers = {}};
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    std::vector<std::int32_t> listed, parent, position;
    const std::int64_t count = std::max<std::int64_t>(1, lengths[i] / 3);
    for (std::int64_t layer = 0; layer < kLayers; ++layer) {
      std::vector<std::int32_t> all(static_cast<std::size_t>(lengths[i]));
      std::iota(all.begin(), all.end(), 0);
      std::vector<std::int32_t> own;
      std::sample(all.begin(), all.end(), std::back_inserter(own), count, rng);
      listed.insert(listed.end(), own.begin(), own.end());
    }
    for (std::int32_t node = 0; node < nodes; ++node) {
      parent.push_back(node == 0 ? -1
                                 : static_cast<std::int32_t>(rng() % static_cast<unsigned>(node)));
      position.push_back(node == 0 ? static_cast<std::int32_t>(lengths[i])
                                   : position[static_cast<std::size_t>(parent.back())] + 1);
    }
    lists.emplace_back(ops, listed);
    parents.emplace_back(ops, parent);
    positions.emplace_back(ops, position);
    out.push_back(unwritten(ops, nodes * q_width));
    const std::int64_t first = static_cast<std::int64_t>(i) * nodes;
    TreeAttentionParams<T> call{.num_heads = heads.query,
                                .num_kv_heads = heads.kv,
                                .head_dim = heads.dim,
                                .context_len = lengths[i],
                                .num_queries = nodes,
                                .num_nodes = nodes,
                                .parent = parents.back().data(),
                                .position = positions.back().data(),
                                .q = q.data() + first * q_width,
                                .pages = pool.table(i),
                                .k = pool.k.data(),
                                .v = pool.v.data(),
                                .k_tree = k_tree.data() + first * heads.width(),
                                .v_tree = v_tree.data() + first * heads.width(),
                                .out = out.back().together.data()};
    if (i % 4 != 1) {
      call.selected = {.token = lists.back().data(), .count = count};
    }
    step.calls.push_back(call);
    step.call_layers.push_back({.list_stride = count});
  }
  prepare_dense_step<T>(ops, step);
  for (std::int64_t layer = 0; layer < kLayers; ++layer) {
    dense_attention_layer<T>(ops, step, layer);
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      TreeAttentionParams<T> alone = call_in_layer(step, i, layer);
      alone.out = out[i].alone.data();
      ops.tree_attention(alone);
      CAPTURE(i, layer, lengths[i], nodes, sizeof(T));
      CHECK(out[i].same());
    }
  }
}

std::vector<std::int64_t> random_lengths(int count, std::int64_t longest, std::mt19937_64& rng) {
  std::vector<std::int64_t> lengths;
  for (int i = 0; i < count; ++i) {
    lengths.push_back(20 + static_cast<std::int64_t>(rng() % static_cast<unsigned>(longest)));
  }
  return lengths;
}

}  // namespace

TEMPLATE_TEST_CASE("ReSA of several sequences in one launch has the bits that each has alone",
                   "[together]", float, Bf16) {
  const auto ops = try_gpu_ops<TestType>();
  if (ops == nullptr) {
    return;
  }
  std::mt19937_64 rng(versieve::testing::test_seed());
  for (const Heads heads : {Heads{}, Heads{.query = 8, .kv = 4, .dim = 128}}) {
    check_resa<TestType>(*ops, heads, random_lengths(9, 3000, rng), rng);
    check_resa<TestType>(*ops, heads, random_lengths(70, 700, rng), rng);
  }
  check_resa<TestType>(*ops, {.query = 6, .kv = 2, .dim = 32}, random_lengths(5, 400, rng), rng);
  check_resa<TestType>(*ops, {}, {40000, 300, 17000}, rng);
}

TEMPLATE_TEST_CASE("an indexer of several sequences chooses in one launch what each chooses alone",
                   "[together]", float, Bf16) {
  const auto ops = try_gpu_ops<TestType>();
  if (ops == nullptr) {
    return;
  }
  std::mt19937_64 rng(versieve::testing::test_seed());
  check_indexer<TestType>(*ops, {}, random_lengths(9, 3000, rng), rng);
  check_indexer<TestType>(*ops, {}, random_lengths(70, 900, rng), rng);
  check_indexer<TestType>(*ops, {.query = 9, .kv = 3, .dim = 64}, random_lengths(5, 400, rng), rng);
  // rows in one block's registers, by 8 and by 16 scores a thread, and over clusters
  check_indexer<TestType>(*ops, {}, {9000, 16000, 40000, 300, 12000, 30000}, rng);
}

TEMPLATE_TEST_CASE("calls of a step that read lists have the bits that each has alone",
                   "[together]", float, Bf16) {
  const auto ops = try_gpu_ops<TestType>();
  if (ops == nullptr) {
    return;
  }
  std::mt19937_64 rng(versieve::testing::test_seed());
  for (const std::int64_t nodes : {1, 6, 40}) {
    for (const std::int64_t dim : {64, 128}) {
      check_listed_step<TestType>(*ops, {.dim = dim}, random_lengths(9, 3000, rng), nodes, rng);
    }
  }
  check_listed_step<TestType>(*ops, {}, {30000, 500, 9000}, 1, rng);
}

TEMPLATE_TEST_CASE("choices of three sequences, for the checker of races [race]",
                   "[together_race][race]", float, Bf16) {
  const auto ops = try_gpu_ops<TestType>();
  if (ops == nullptr) {
    return;
  }
  std::mt19937_64 rng(5);
  check_resa<TestType>(*ops, {}, {700, 90, 400, 130}, rng);
  check_indexer<TestType>(*ops, {}, {300, 70, 150, 500}, rng);
  check_listed_step<TestType>(*ops, {}, {200, 64, 90}, 3, rng);
}
