// Are the numbers of a verified tree those of decoding its paths, bit for bit?
#include <catch2/catch.hpp>

#include <cstring>
#include <numeric>

#include "tests/engine/run/tiny_engine.h"

namespace versieve::engine {
namespace {

using tiny::Engine;

template <class T>
std::vector<T> logits_of(Engine<T>& engine, std::int64_t rows) {
  std::vector<T> values(static_cast<std::size_t>(rows * engine.target.shape().vocab));
  engine.ops->download(values.data(), engine.target.logits(), values.size() * sizeof(T));
  return values;
}

template <class T>
bool same_bits(const T* a, const T* b, std::int64_t count) {
  return std::memcmp(a, b, static_cast<std::size_t>(count) * sizeof(T)) == 0;
}

// Token by token through trees of one node; leaves the last token's logits.
template <class T>
void decode(Engine<T>& engine, const std::vector<std::int32_t>& tokens) {
  for (const std::int32_t token : tokens) {
    engine.target.verify(chain_tree({token}), {});
    engine.target.commit(std::vector<std::int32_t>{0});
  }
}

template <class T>
void check_tree(Engine<T>& engine, std::int64_t context_len, const DraftTree& tree,
                const std::string& schedule) {
  const std::int64_t vocab = engine.target.shape().vocab;
  engine.target.cache().truncate(context_len);
  engine.target.verify(tree, {.schedule = schedule});
  const std::vector<T> logits = logits_of(engine, tree.size());
  for (std::int32_t node = 0; node < tree.size(); ++node) {
    engine.target.cache().truncate(context_len);
    for (const std::int32_t ancestor : path_to(tree, node)) {
      engine.target.verify(chain_tree({tree.token[static_cast<std::size_t>(ancestor)]}),
                           {.schedule = schedule});
      engine.target.commit(std::vector<std::int32_t>{0});
    }
    INFO("context " << context_len << ", node " << node << ", schedule " << schedule);
    REQUIRE(same_bits(logits.data() + node * vocab, logits_of(engine, 1).data(), vocab));
  }
}

TEMPLATE_TEST_CASE("a node's logits are those of decoding its path", "", float, double) {
  Engine<TestType> engine;
  std::mt19937_64 random(9);
  decode(engine, tiny::prompt(131));
  for (const std::int64_t context_len : {131, 100, 63, 31, 8, 5, 0}) {
    const DraftTree tree = tiny::random_tree(24, 12, 7, random);
    for (const char* schedule : {"", "FRF", "FRR"}) {
      check_tree(engine, context_len, tree, schedule);
    }
  }
}

TEST_CASE("a node's logits do not depend on the order of the tree") {
  Engine<float> engine;
  std::mt19937_64 random(21);
  decode(engine, tiny::prompt(77));
  const DraftTree tree = tiny::random_tree(40, 10, 3, random);
  engine.target.verify(tree, {});
  const std::vector<float> logits = logits_of(engine, tree.size());
  const std::int64_t vocab = engine.target.shape().vocab;
  for (const Traversal traversal : {Traversal::kBfs, Traversal::kDfs}) {
    const std::vector<std::int32_t> order = traversal_order(tree, traversal);
    engine.target.verify(reordered(tree, order), {});
    const std::vector<float> moved = logits_of(engine, tree.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      REQUIRE(same_bits(logits.data() + order[i] * vocab,
                        moved.data() + static_cast<std::int64_t>(i) * vocab, vocab));
    }
  }
}

TEMPLATE_TEST_CASE("exact groups of any size leave a tree's logits as they are", "", float,
                   double) {
  Engine<TestType> engine;
  std::mt19937_64 random(13);
  decode(engine, tiny::prompt(131));
  const DraftTree tree = tiny::random_tree(29, 8, 7, random);
  for (const char* schedule : {"", "FRF"}) {
    engine.target.verify(tree, {.schedule = schedule});
    const std::vector<TestType> single = logits_of(engine, tree.size());
    for (const std::int64_t size : {2, 4, 8, 64}) {
      engine.target.verify(tree, {.schedule = schedule, .group_size = size});
      CHECK(same_bits(single.data(), logits_of(engine, tree.size()).data(),
                      static_cast<std::int64_t>(single.size())));
    }
  }
}

TEST_CASE("nodes of an approximate group attend to the same blocks, in reuse layers too") {
  Engine<float> engine;
  std::mt19937_64 random(17);
  decode(engine, tiny::prompt(300));
  const DraftTree tree = tiny::random_tree(30, 6, 7, random);
  const std::int64_t row = engine.target.shape().num_kv_heads * engine.target.shape().nsa.sel_count;
  engine.target.verify(tree, {.schedule = "FRF"});
  const std::vector<std::int32_t> own = engine.target.selected_blocks(0);
  for (const std::int64_t size : {2, 4, 8}) {
    engine.target.verify(tree,
                         {.schedule = "FRF", .group_size = size, .group_mode = GroupMode::kApprox});
    const std::vector<std::int32_t> shared = engine.target.selected_blocks(0);
    CHECK(shared != own);
    for (std::int64_t node = 0; node < tree.size(); ++node) {
      const std::int64_t first = node / size * size;
      CHECK(std::equal(shared.begin() + node * row, shared.begin() + (node + 1) * row,
                       shared.begin() + first * row));
    }
    CHECK(engine.target.selected_blocks(1) == shared);
  }
}

// Every committed bit: keys, values, raw keys and compressed tokens of all layers.
template <class T>
std::vector<T> committed_rows(Engine<T>& engine) {
  KvCache<T>& cache = engine.target.cache();
  const std::int64_t width = engine.target.shape().kv_width();
  std::vector<T> all;
  const auto add = [&](const T* rows, std::int64_t count) {
    std::vector<T> values(static_cast<std::size_t>(count * width));
    engine.ops->download(values.data(), rows, values.size() * sizeof(T));
    all.insert(all.end(), values.begin(), values.end());
  };
  for (std::int64_t layer = 0; layer < engine.target.shape().layers; ++layer) {
    add(cache.k(layer), cache.length());
    add(cache.v(layer), cache.length());
    add(cache.k_raw(layer), cache.length());
    add(cache.k_cmp(layer), cache.compressed_length());
    add(cache.v_cmp(layer), cache.compressed_length());
  }
  return all;
}

TEST_CASE("prefill in chunks leaves the bits of decoding token by token") {
  const std::vector<std::int32_t> prompt = tiny::prompt(600);
  Engine<float> decoded;
  decode(decoded, prompt);
  const std::vector<float> logits = logits_of(decoded, 1);
  const std::vector<float> rows = committed_rows(decoded);
  Engine<float> prefilled;
  prefilled.generator.prefill(prompt);
  CHECK(prefilled.target.length() == 600);
  CHECK(same_bits(logits.data(), logits_of(prefilled, 1).data(), prefilled.target.shape().vocab));
  const std::vector<float> prefilled_rows = committed_rows(prefilled);
  REQUIRE(rows.size() == prefilled_rows.size());
  CHECK(same_bits(rows.data(), prefilled_rows.data(), static_cast<std::int64_t>(rows.size())));
}

TEST_CASE("a committed path leaves the bits of decoding it") {
  std::mt19937_64 random(4);
  for (int round = 0; round < 20; ++round) {
    Engine<float> stepped;
    Engine<float> decoded;
    const std::vector<std::int32_t> prompt = tiny::prompt(20 + round * 3);
    decode(stepped, prompt);
    decode(decoded, prompt);
    const DraftTree tree = tiny::random_tree(30, 14, 1, random);
    const std::int32_t deepest = static_cast<std::int32_t>(
        std::max_element(tree.depth.begin(), tree.depth.end()) - tree.depth.begin());
    stepped.target.verify(tree, {});
    stepped.target.commit(path_to(tree, deepest));
    std::vector<std::int32_t> tokens;
    for (const std::int32_t node : path_to(tree, deepest)) {
      tokens.push_back(tree.token[static_cast<std::size_t>(node)]);
    }
    decode(decoded, tokens);
    const std::vector<float> rows = committed_rows(stepped);
    const std::vector<float> expected = committed_rows(decoded);
    REQUIRE(rows.size() == expected.size());
    CHECK(same_bits(rows.data(), expected.data(), static_cast<std::int64_t>(rows.size())));
  }
}

}  // namespace
}  // namespace versieve::engine
