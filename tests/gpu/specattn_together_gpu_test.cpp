// Have the calls of SpecAttn of several sequences in shared launches the bits that each has alone:
// shares and lists, attention over lists that a map names by layer, and kept weights?
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <functional>
#include <numeric>
#include <random>

#include "kernels/choose_together.h"
#include "kernels/ops_together.h"
#include "tests/gpu/call_pool.h"

namespace versieve::kernels {
namespace {

using test::Heads;
using test::Pool;
using test::Twice;
using Ints = std::vector<std::int32_t>;

// What several calls write, one behind the other with a gap of one between.
class Places {
 public:
  std::int64_t take(std::int64_t count) {
    const std::int64_t at = next_;
    next_ += count + 1;
    return at;
  }
  std::int64_t count() const { return next_; }

 private:
  std::int64_t next_ = 0;
};

std::vector<std::int64_t> lengths_of(std::size_t calls, const std::vector<std::int64_t>& some) {
  std::vector<std::int64_t> lengths;
  while (lengths.size() < calls) {
    lengths.push_back(some[lengths.size() % some.size()]);
  }
  return lengths;
}

// Few large weights, as attention's are.
std::vector<float> weights_like_attention(std::int64_t count, std::mt19937_64& rng) {
  std::vector<float> weights = test::even_elements<float>(count, rng);
  for (float& w : weights) {
    w = w * w * w * w;
  }
  return weights;
}

// Shares and lists of choices of these lengths, of which every fifth has its length on the device
// and a bound here that asks for other blocks.
template <class T>
void check_choices(Ops<T>& ops, const std::vector<std::int64_t>& lengths, std::mt19937_64& rng) {
  struct Choice {
    std::int64_t length, bound, rows, lists, chunk, mask, mass, token, count;
  };
  Places masks, masses, tokens, counts;
  std::vector<Choice> choices;
  std::int64_t most = 0;
  std::vector<StepCounts> known;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const std::int64_t at = static_cast<std::int64_t>(i);
    Choice c{.length = lengths[i], .bound = lengths[i], .rows = 1 + at % 4, .lists = 1 + at % 2};
    c.bound += i % 5 == 4 ? 5000 : 0;
    c.chunk = i % 3 == 0 ? 16 : 1 + at % 7;
    c.mask = masks.take(c.lists * c.bound);
    c.mass = masses.take(c.lists * c.rows);
    c.token = tokens.take(c.lists * c.bound);
    c.count = counts.take(c.lists);
    most = std::max(most, c.lists * c.rows * c.bound);
    known.push_back({.context_len = static_cast<std::int32_t>(c.length)});
    choices.push_back(c);
  }
  const OpsBuffer<T, float> weights(ops, weights_like_attention(most + 1000, rng));
  const OpsBuffer<T, StepCounts> lengths_there(ops, known);
  const auto ints = [&](const Places& places) {
    return Twice<T, std::int32_t>(ops, Ints(static_cast<std::size_t>(places.count()), -7));
  };
  const Twice<T, std::int32_t> mask = ints(masks), token = ints(tokens), count = ints(counts);
  const Twice<T, float> mass(ops, std::vector<float>(static_cast<std::size_t>(masses.count()), -7));
  const Twice<T, std::int64_t> total(
      ops, std::vector<std::int64_t>(static_cast<std::size_t>(counts.count()), 5));
  std::vector<TopPParams<float>> shares[2];
  std::vector<TokenListParams> lists[2];
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const Choice& c = choices[i];
    const StepCounts* const length_there = i % 5 == 4 ? lengths_there.data() + i : nullptr;
    for (const bool both : {false, true}) {
      shares[both].push_back({.rows = c.rows,
                              .length = c.bound,
                              .row_stride = c.bound,
                              .lists = c.lists,
                              .counts = length_there,
                              .p = i % 6 == 5 ? 1.0 : 0.5 + 0.09 * static_cast<double>(i % 6),
                              .weights = weights.data() + i % 900,
                              .mask = mask.at(both) + c.mask,
                              .mass = mass.at(both) + c.mass});
      lists[both].push_back({.lists = c.lists,
                             .length = c.bound,
                             .chunk = c.chunk,
                             .counts = length_there,
                             .mask = mask.at(both) + c.mask,
                             .token = token.at(both) + c.token,
                             .count = count.at(both) + c.count,
                             .total = total.at(both) + c.count});
    }
  }
  for (std::size_t i = 0; i < choices.size(); ++i) {
    ops.top_p(shares[0][i]);
    ops.token_list(lists[0][i]);
  }
  top_p_together<T>(ops, shares[1]);
  token_list_together<T>(ops, lists[1]);
  CAPTURE(lengths.size());
  CHECK(mask.same());
  CHECK(mass.same());
  CHECK(token.same());
  CHECK(count.same());
  CHECK(total.same());
}

// A step over a pool whose calls read lists that a map names or keep their weights, some of them;
// others do neither.
template <class T>
class SharedStep {
 public:
  SharedStep(Ops<T>& ops, Heads heads, const std::vector<std::int64_t>& lengths,
             std::int64_t nodes, bool keeps, std::mt19937_64& rng)
      : ops_(&ops),
        keeps_(keeps),
        pool_(ops, heads, lengths, rng, kLayers),
        q_(ops, test::random_elements<T>(std::ssize(lengths) * nodes * width(), 6)),
        k_tree_(ops, tree_elements(nodes, 7)),
        v_tree_(ops, tree_elements(nodes, 8)),
        step_{.layers = kLayers,
              .cache_rows = pool_.rows(),
              .tree_rows = std::ssize(lengths) * nodes,
              .k = pool_.k.data(),
              .v = pool_.v.data(),
              .windows = {},
              .calls = {}} {
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      add_call(i, nodes, rng);
    }
  }

  const DenseStepParams<T>& step() const { return step_; }
  std::vector<std::int64_t> layers() const { return {0, 1, 2, 3}; }
  // Of that layer alone, one after the other.
  void run_alone(std::int64_t layer) {
    for (std::size_t i = 0; i < step_.calls.size(); ++i) {
      TreeAttentionParams<T> alone = call_in_layer(step_, i, layer);
      alone.out = out_[i].alone.data();
      if (alone.weights != nullptr) {
        alone.weights = weights_[i].alone.data() + layer * step_.call_layers[i].weights_stride;
      }
      ops_->tree_attention(alone);
    }
  }
  void check() {
    prepare_dense_step<T>(*ops_, step_);
    for (const std::int64_t layer : layers()) {
      dense_attention_layer<T>(*ops_, step_, layer);
      run_alone(layer);
      for (std::size_t i = 0; i < step_.calls.size(); ++i) {
        CAPTURE(i, layer, pool_.lengths[i], step_.calls.size(), sizeof(T));
        CHECK(out_[i].same());
      }
    }
    for (std::size_t i = 0; i < step_.calls.size(); ++i) {
      CAPTURE(i, pool_.lengths[i], step_.calls.size(), sizeof(T));
      CHECK(weights_[i].same());
    }
  }

 private:
  static constexpr std::int64_t kLayers = 4;
  static constexpr std::int64_t kLists = 3;

  std::int64_t width() const { return pool_.heads.query * pool_.heads.dim; }
  std::vector<T> tree_elements(std::int64_t nodes, std::uint32_t seed) const {
    return test::random_elements<T>(
        kLayers * std::ssize(pool_.lengths) * nodes * pool_.heads.width(), seed);
  }
  void add_call(std::size_t i, std::int64_t nodes, std::mt19937_64& rng) {
    const std::int64_t length = pool_.lengths[i];
    const std::int64_t first = static_cast<std::int64_t>(i) * nodes;
    Ints parent, position;
    for (std::int32_t node = 0; node < nodes; ++node) {  // every other call a chain
      const std::uint64_t below = static_cast<std::uint64_t>(std::max(node, 1));
      const std::int32_t of_tree = static_cast<std::int32_t>(rng() % below);
      parent.push_back(node == 0 ? -1 : keeps_ || i % 2 == 0 ? node - 1 : of_tree);
      position.push_back(node == 0 ? static_cast<std::int32_t>(length)
                                   : position[static_cast<std::size_t>(parent.back())] + 1);
    }
    parents_.emplace_back(*ops_, parent);
    positions_.emplace_back(*ops_, position);
    out_.push_back(test::unwritten(*ops_, nodes * width()));
    const std::int64_t stride = length + nodes + 1;
    weights_.emplace_back(*ops_,
                          std::vector<float>(static_cast<std::size_t>(kLayers * stride), -3));
    TreeAttentionParams<T> call{.num_heads = pool_.heads.query,
                                .num_kv_heads = pool_.heads.kv,
                                .head_dim = pool_.heads.dim,
                                .context_len = length,
                                .num_queries = nodes,
                                .num_nodes = nodes,
                                .parent = parents_.back().data(),
                                .position = positions_.back().data(),
                                .q = q_.data() + first * width(),
                                .pages = pool_.table(i),
                                .k = pool_.k.data(),
                                .v = pool_.v.data(),
                                .k_tree = k_tree_.data() + first * pool_.heads.width(),
                                .v_tree = v_tree_.data() + first * pool_.heads.width(),
                                .out = out_.back().together.data(),
                                .splits_chain = keeps_ || i % 2 == 0};
    CallLayers layers;
    if (keeps_ && i % 4 != 3) {
      call.weights = weights_.back().together.data();
      layers = {.weights_stride = stride, .first_weights = static_cast<std::int64_t>(i % 3)};
    } else if (!keeps_ && i % 4 != 3) {
      add_lists(length, rng);
      call.selected = {.token = lists_.back().data(),
                       .count = length,
                       .known_count = counts_.back().data()};
      layers = {.list_stride = length + 5, .list_of_layer = maps_[i % 8 == 2 ? 1 : 0]};
    }
    step_.calls.push_back(call);
    step_.call_layers.push_back(layers);
  }
  // Of different lengths, of runs and of single tokens.
  void add_lists(std::int64_t length, std::mt19937_64& rng) {
    Ints tokens(static_cast<std::size_t>(kLists * (length + 5)), -1), counts;
    for (std::int64_t list = 0; list < kLists; ++list) {
      std::int32_t count = 0;
      for (std::int32_t t = static_cast<std::int32_t>(rng() % static_cast<std::uint64_t>(length));
           t < length; ++t) {
        tokens[static_cast<std::size_t>(list * (length + 5) + count++)] = t;
        t += rng() % 40 == 0 ? static_cast<std::int32_t>(rng() % 200) : 0;
      }
      counts.push_back(count);
    }
    lists_.emplace_back(*ops_, tokens);
    counts_.emplace_back(*ops_, counts);
  }

  Ops<T>* ops_;
  bool keeps_;
  Pool<T> pool_;
  OpsBuffer<T> q_, k_tree_, v_tree_;
  DenseStepParams<T> step_;
  const Ints maps_[2] = {{-1, 0, 2, 2}, {-1, -1, 0, 1}};
  std::vector<OpsBuffer<T, std::int32_t>> parents_, positions_, lists_, counts_;
  std::vector<Twice<T, T>> out_;
  std::vector<Twice<T, float>> weights_;
};

const std::vector<std::int64_t> kEdges = {1, 15, 16, 17, 4095, 4097, 70000};

}  // namespace

TEST_CASE("shares and lists of several sequences have the bits that each has alone",
          "[together]") {
  const auto ops = test::try_gpu_ops<Bf16>();
  if (ops == nullptr) {
    return;
  }
  std::mt19937_64 rng(testing::test_seed());
  for (const std::size_t calls : {1U, 2U, 7U, 63U, 64U, 65U, 130U}) {
    std::vector<std::int64_t> lengths = lengths_of(calls, kEdges);
    std::shuffle(lengths.begin(), lengths.end(), rng);
    check_choices<Bf16>(*ops, lengths, rng);
  }
  check_choices<Bf16>(*ops, {300000, 4096, 900000, 8192, 65536, 20}, rng);  // not held in a block
}

TEMPLATE_TEST_CASE("attention over lists that a map names has the bits of each call alone",
                   "[together]", float, Bf16) {
  const auto ops = test::try_gpu_ops<TestType>();
  if (ops == nullptr) {
    return;
  }
  std::mt19937_64 rng(testing::test_seed());
  const auto check = [&](Heads heads, const std::vector<std::int64_t>& lengths,
                         std::int64_t nodes) {
    SharedStep<TestType>(*ops, heads, lengths, nodes, false, rng).check();
  };
  check({}, kEdges, 6);
  check({.dim = 128}, kEdges, 1);
  check({.query = 9, .kv = 3}, kEdges, 5);             // SmolLM2-135M's: nothing of them is even
  check({.query = 6, .kv = 2, .dim = 32}, kEdges, 9);  // a launch of its own form in bf16, too
  for (const std::size_t calls : {1U, 2U, 63U, 64U, 65U, 130U}) {
    check({}, lengths_of(calls, {200, 17, 900, 64, 1}), 5);
  }
  check({.query = 6, .kv = 2, .dim = 32}, lengths_of(65, {200, 17, 900, 64, 1}), 3);
}

TEMPLATE_TEST_CASE("weights that several sequences keep have the bits of each call alone",
                   "[together]", float, Bf16) {
  const auto ops = test::try_gpu_ops<TestType>();
  if (ops == nullptr) {
    return;
  }
  std::mt19937_64 rng(testing::test_seed());
  const auto check = [&](Heads heads, const std::vector<std::int64_t>& lengths,
                         std::int64_t nodes) {
    SharedStep<TestType>(*ops, heads, lengths, nodes, true, rng).check();
  };
  check({}, kEdges, 1);
  check({.dim = 128}, kEdges, 3);
  check({.query = 9, .kv = 3}, kEdges, 1);             // SmolLM2-135M's: nothing of them is even
  check({.query = 9, .kv = 3}, lengths_of(9, {200, 17, 900, 64, 1}), 3);
  check({.query = 16, .kv = 2}, kEdges, 4);            // more rows than a warp's: weights apart
  check({.query = 6, .kv = 2, .dim = 32}, kEdges, 2);  // a launch of its own form in bf16, too
  for (const std::size_t calls : {1U, 2U, 63U, 64U, 65U, 130U}) {
    check({}, lengths_of(calls, {200, 17, 900, 64, 1}), 1);
  }
  check({.query = 6, .kv = 2, .dim = 32}, lengths_of(130, {200, 17, 900, 64, 1}), 1);
}

TEMPLATE_TEST_CASE("SpecAttn's calls of four sequences, for the checker of races [race]",
                   "[together_race][race]", float, Bf16) {
  const auto ops = test::try_gpu_ops<TestType>();
  if (ops == nullptr) {
    return;
  }
  std::mt19937_64 rng(5);
  check_choices<TestType>(*ops, {700, 20, 5000, 90}, rng);
  for (const bool keeps : {false, true}) {
    SharedStep<TestType>(*ops, {}, {200, 64, 90, 30}, 2, keeps, rng).check();
    SharedStep<TestType>(*ops, {.query = 9, .kv = 3}, {100, 30, 70, 40}, 1, keeps, rng).check();
    SharedStep<TestType>(*ops, {.query = 6, .kv = 2, .dim = 32}, {90, 30, 64, 40}, 2, keeps, rng)
        .check();
  }
}

namespace {

// Microseconds a round, the median of recorded ones.
template <class T>
double micros(Ops<T>& ops, const std::function<void()>& round) {
  constexpr int kRounds = 20;
  round();
  const std::unique_ptr<Recording> rounds = ops.record([&] {
    for (int i = 0; i < kRounds; ++i) {
      round();
    }
  });
  std::vector<double> taken;
  for (int batch = 0; batch < 7; ++batch) {
    ops.synchronize();
    const auto begin = std::chrono::steady_clock::now();
    rounds->launch();
    ops.synchronize();
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
    taken.push_back(time.count() / kRounds);
  }
  std::nth_element(taken.begin(), taken.begin() + 3, taken.end());
  return taken[3];
}

// A choice of `lists` lists by seven rows each of every request.
void time_choices(Ops<Bf16>& ops, std::size_t requests, std::int64_t length, std::int64_t lists) {
  constexpr std::int64_t kRows = 7;
  const std::int64_t count = static_cast<std::int64_t>(requests);
  std::mt19937_64 rng(3);
  const OpsBuffer<Bf16, float> weights(ops, weights_like_attention(lists * kRows * length, rng));
  const OpsBuffer<Bf16, std::int32_t> mask(ops, count * lists * length),
      token(ops, count * lists * length), counts(ops, count * lists);
  const OpsBuffer<Bf16, float> mass(ops, count * lists * kRows);
  std::vector<TopPParams<float>> shares;
  std::vector<TokenListParams> listed;
  for (std::int64_t i = 0; i < count; ++i) {
    shares.push_back({.rows = kRows,
                      .length = length,
                      .lists = lists,
                      .p = 0.9,
                      .weights = weights.data(),
                      .mask = mask.data() + i * lists * length,
                      .mass = mass.data() + i * lists * kRows});
    listed.push_back({.lists = lists,
                      .length = length,
                      .mask = mask.data() + i * lists * length,
                      .token = token.data() + i * lists * length,
                      .count = counts.data() + i * lists});
  }
  const double apart = micros<Bf16>(ops, [&] {
    for (std::size_t i = 0; i < requests; ++i) {
      ops.top_p(shares[i]);
      ops.token_list(listed[i]);
    }
  });
  const double together = micros<Bf16>(ops, [&] {
    top_p_together<Bf16>(ops, shares);
    token_list_together<Bf16>(ops, listed);
  });
  std::printf("choices of %lld lists, %zu of %lld: one by one %.1f us, together %.1f\n",
              static_cast<long long>(lists), requests, static_cast<long long>(length), apart,
              together);
}

template <class T>
void time_steps(Ops<T>& ops, Heads heads, std::size_t requests, std::int64_t length, bool keeps) {
  std::mt19937_64 rng(3);
  SharedStep<T> step(ops, heads, lengths_of(requests, {length}), keeps ? 1 : 6, keeps, rng);
  prepare_dense_step<T>(ops, step.step());
  const double apart = micros<T>(ops, [&] { step.run_alone(3); });
  prepare_dense_step<T>(ops, step.step());
  const double together = micros<T>(ops, [&] { dense_attention_layer<T>(ops, step.step(), 3); });
  std::printf(
      "%s, d %lld, %zu-byte elements, a layer, %zu of %lld: one by one %.1f us, together %.1f\n",
      keeps ? "3 of 4 keep weights" : "3 of 4 read lists", static_cast<long long>(heads.dim),
      sizeof(T), requests, static_cast<long long>(length), apart, together);
}

}  // namespace

TEST_CASE("times of SpecAttn's shared launches", "[together_timing][.timing]") {
  const auto ops = test::try_gpu_ops<Bf16>();
  if (ops == nullptr) {
    return;
  }
  for (const std::int64_t length : {4096, 16384, 65536}) {
    for (const std::size_t requests : {1U, 8U, 32U}) {
      time_choices(*ops, requests, length, 1);
      if (length * static_cast<std::int64_t>(requests) <= 4096 * 32) {
        time_choices(*ops, requests, length, 4);
        time_steps<Bf16>(*ops, {.query = 32, .kv = 8}, requests, length, false);
        time_steps<Bf16>(*ops, {.query = 32, .kv = 8}, requests, length, true);
      }
    }
  }
  const auto f32 = test::try_gpu_ops<float>();
  for (const std::size_t requests : {1U, 8U, 32U}) {
    time_steps<float>(*f32, {}, requests, 4096, false);
    time_steps<float>(*f32, {}, requests, 4096, true);
  }
}

}  // namespace versieve::kernels
