// Samplers of several requests in few launches on CUDA: every request's decisions are those that it
// has in a launch of its own, bit for bit, whatever it shares the launch with.
#include <catch2/catch.hpp>
#include <random>

#include "kernels/samplers_together.h"
#include "tests/gpu/sampler_run.h"

namespace versieve::test {
namespace {

using kernels::Ops;
using kernels::OpsBuffer;

kernels::Truncation random_cuts(std::mt19937_64& random) {
  kernels::Truncation cuts;
  cuts.top_k = random() % 2 == 0 ? 0 : 7;
  cuts.top_p = random() % 2 == 0 ? 1.0 : 0.8;
  cuts.min_p = random() % 3 == 0 ? 0.01 : 0.0;
  return cuts;
}

double random_temperature(std::mt19937_64& random) {
  constexpr double kTemperatures[] = {0.0, 0.3, 0.8, 1.0, 1.7};
  return kTemperatures[random() % 5];
}

// A call's lists in device memory.
template <class T>
struct Lists {
  OpsBuffer<T> target, draft;
  OpsBuffer<T, std::int32_t> token, parent, accepted, tokens, path;
  OpsBuffer<T, float> uniforms, tau;

  Lists(Ops<T>& ops, const Chain<T>& c, const Outcome& blank)
      : target(ops, c.target),
        draft(ops, c.draft),
        token(ops, c.drafted),
        accepted(ops, blank.accepted),
        tokens(ops, blank.tokens),
        uniforms(ops, c.uniforms),
        tau(ops, blank.tau) {}
  Lists(Ops<T>& ops, const Tree<T>& t, const Outcome& blank)
      : target(ops, t.logits),
        token(ops, t.token),
        parent(ops, t.parent),
        accepted(ops, blank.accepted),
        tokens(ops, blank.tokens),
        path(ops, blank.path),
        uniforms(ops, t.uniforms),
        tau(ops, blank.tau) {}

  kernels::SpecSampleParams<T> call(const Chain<T>& c, kernels::SpecSampleVariant variant) const {
    kernels::SpecSampleParams<T> p = c.params(variant);
    p.target_logits = target.data();
    p.draft_logits = draft.data();
    p.draft_tokens = token.data();
    p.uniforms = uniforms.data();
    p.accepted = accepted.data();
    p.tokens = tokens.data();
    p.tau = tau.data();
    return p;
  }
  kernels::TreeSampleParams<T> call(const Tree<T>& t, kernels::TreeSampleVariant variant) const {
    kernels::TreeSampleParams<T> p = t.params(variant);
    p.target_logits = target.data();
    p.parent = parent.data();
    p.token = token.data();
    p.uniforms = uniforms.data();
    p.accepted = accepted.data();
    p.tokens = tokens.data();
    p.path = path.data();
    p.tau = tau.data();
    return p;
  }
  Outcome chain_outcome() const { return {accepted.read(), tokens.read(), {}, tau.read()}; }
  Outcome tree_outcome() const { return {accepted.read(), tokens.read(), path.read(), tau.read()}; }
};

// Chains of random lengths, laws and cuts, of every variant.
template <class T>
void check_chains(Ops<T>& ops, std::int64_t vocab, int count, std::int64_t longest,
                  std::uint64_t seed) {
  using Variant = kernels::SpecSampleVariant;
  constexpr Variant kVariants[] = {Variant::kExact, Variant::kExact, Variant::kSigmoid,
                                   Variant::kBaseline};
  std::mt19937_64 random(seed);
  std::vector<Chain<T>> chains;
  std::vector<Variant> variants;
  std::vector<Lists<T>> lists;
  std::vector<kernels::SpecSampleParams<T>> calls;
  for (int i = 0; i < count; ++i) {
    const auto gamma =
        static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(longest + 1));
    const Variant variant = kVariants[random() % 4];
    const double temperature = random_temperature(random);
    chains.push_back(random_chain<T>(1, gamma, vocab,
                                     variant == Variant::kSigmoid ? temperature + 0.1 : temperature,
                                     static_cast<std::uint32_t>(random() % 1000)));
    chains.back().truncation = random_cuts(random);
    variants.push_back(variant);
    lists.emplace_back(ops, chains.back(), chains.back().blank());
    calls.push_back(lists.back().call(chains.back(), variant));
  }
  kernels::spec_sample_together<T>(ops, calls);
  std::int64_t accepted = 0;
  for (std::size_t i = 0; i < chains.size(); ++i) {
    CAPTURE(vocab, i, chains[i].gamma, chains[i].temperature, static_cast<int>(variants[i]));
    const Outcome got = lists[i].chain_outcome();
    CHECK(got == chains[i].on_gpu(ops, variants[i]));
    accepted += got.accepted[0];
  }
  CHECK((count < 10 || accepted > 0));
}

template <class T>
void check_trees(Ops<T>& ops, std::int64_t vocab, int count, std::int64_t most,
                 std::uint64_t seed) {
  using Variant = kernels::TreeSampleVariant;
  std::mt19937_64 random(seed);
  std::vector<Tree<T>> trees;
  std::vector<Variant> variants;
  std::vector<Lists<T>> lists;
  std::vector<kernels::TreeSampleParams<T>> calls;
  for (int i = 0; i < count; ++i) {
    trees.push_back(random_tree<T>(
        1, 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most)), vocab,
        random_temperature(random), 1 + static_cast<std::int32_t>(random() % 4),
        static_cast<std::uint32_t>(random() % 1000)));
    trees.back().truncation = random_cuts(random);
    variants.push_back(random() % 5 == 0 ? Variant::kBaseline : Variant::kExact);
    lists.emplace_back(ops, trees.back(), trees.back().blank());
    calls.push_back(lists.back().call(trees.back(), variants.back()));
  }
  for (int turn = 0; turn < 2; ++turn) {  // a launch leaves its words as the next expects them
    kernels::tree_sample_together<T>(ops, calls);
  }
  std::int64_t accepted = 0;
  for (std::size_t i = 0; i < trees.size(); ++i) {
    CAPTURE(vocab, i, trees[i].nodes(), trees[i].temperature, static_cast<int>(variants[i]));
    const Outcome got = lists[i].tree_outcome();
    CHECK(got == trees[i].on_gpu(ops, variants[i]));
    accepted += got.accepted[0];
  }
  CHECK((count < 10 || accepted > 0));
}

// Runs of rows of one request each, some greedy.
template <class T>
void check_rows(Ops<T>& ops, std::int64_t rows, std::int64_t vocab, std::int64_t k, bool own_tokens,
                std::uint64_t seed) {
  CAPTURE(rows, vocab, k, own_tokens);
  std::mt19937_64 random(seed);
  std::vector<kernels::RowDraw> draws;
  Ints position, token;
  while (static_cast<std::int64_t>(draws.size()) < rows) {
    const kernels::RowDraw draw{.seed = random(), .temperature = random_temperature(random)};
    for (std::uint64_t i = 0; i <= random() % 5; ++i) {
      draws.push_back(draw);
    }
  }
  draws.resize(static_cast<std::size_t>(rows));
  for (std::int64_t i = 0; i < rows; ++i) {
    position.push_back(static_cast<std::int32_t>(random() % 5000));
  }
  for (std::int64_t i = 0; i < vocab; ++i) {
    token.push_back(static_cast<std::int32_t>(3 * i + 1));
  }
  const OpsBuffer<T> logits(ops, random_elements<T>(rows * vocab, 5, 3.0));
  const OpsBuffer<T, std::int32_t> positions(ops, position), tokens(ops, token);
  const OpsBuffer<T, kernels::RowDraw> drawn(ops, draws);
  const Ints blank(static_cast<std::size_t>(rows * k), -5);
  OpsBuffer<T, std::int32_t> best(ops, blank), listed(ops, blank), want(ops, blank);
  OpsBuffer<T, float> score(ops, rows * k), want_score(ops, rows * k), perturbed(ops, rows * vocab);
  kernels::GumbelRowsParams<T> p{.rows = rows,
                                 .vocab = vocab,
                                 .k = k,
                                 .draw = drawn.data(),
                                 .logits = logits.data(),
                                 .position = positions.data(),
                                 .token = own_tokens ? tokens.data() : nullptr,
                                 .perturbed = perturbed.data(),
                                 .index = listed.data(),
                                 .log_probability = score.data()};
  kernels::gumbel_rows<T>(ops, p);
  const std::vector<float> scores = score.read();
  for (std::int64_t row = 0; row < rows; ++row) {
    const kernels::RowDraw& draw = draws[static_cast<std::size_t>(row)];
    if (draw.temperature == 0.0) {
      ops.top_logits({.rows = 1,
                      .vocab = vocab,
                      .k = k,
                      .logits = logits.data() + row * vocab,
                      .index = want.data() + row * k,
                      .log_probability = want_score.data() + row * k});
    } else {
      ops.gumbel_top({.rows = 1,
                      .vocab = vocab,
                      .k = k,
                      .temperature = draw.temperature,
                      .seed = draw.seed,
                      .logits = logits.data() + row * vocab,
                      .position = positions.data() + row,
                      .token = p.token,
                      .perturbed = perturbed.data(),
                      .index = want.data() + row * k,
                      .log_probability = want_score.data() + row * k});
    }
  }
  CHECK(listed.read() == want.read());
  const std::vector<float> want_scores = want_score.read();
  for (std::size_t i = 0; i < scores.size(); ++i) {  // undrawn rows are listed in f32 here
    if (draws[i / static_cast<std::size_t>(k)].temperature > 0.0) {
      REQUIRE(scores[i] == want_scores[i]);
    }
  }
  if (k == 1) {
    p.perturbed = nullptr;
    p.index = best.data();
    p.log_probability = nullptr;
    kernels::gumbel_rows<T>(ops, p);
    CHECK(best.read() == want.read());
  }
}

}  // namespace

TEMPLATE_TEST_CASE("chains of several requests are sampled in one launch as alone", "[together]",
                   float, Bf16) {
  const auto ops = try_gpu_ops<TestType>();
  if (!ops) {
    return;
  }
  check_chains(*ops, 1, 4, 3, 1);
  check_chains(*ops, 41, 150, 8, 2);
  check_chains(*ops, 1000, 40, 40, 3);  // more positions than a word has bits
  check_chains(*ops, 32000, 24, 7, 4);
  check_chains(*ops, 151936, 8, 5, 5);  // two rounds
}

TEMPLATE_TEST_CASE("trees of several requests are sampled in one launch as alone", "[together]",
                   float, Bf16) {
  const auto ops = try_gpu_ops<TestType>();
  if (!ops) {
    return;
  }
  check_trees(*ops, 3, 4, 5, 1);
  check_trees(*ops, 41, 150, 128, 2);
  check_trees(*ops, 1000, 40, 64, 3);
  check_trees(*ops, 32000, 24, 16, 4);
  check_trees(*ops, 151936, 6, 12, 5);
}

TEMPLATE_TEST_CASE("rows of several requests are drawn in one launch as alone", "[together]", float,
                   Bf16) {
  const auto ops = try_gpu_ops<TestType>();
  if (!ops) {
    return;
  }
  check_rows(*ops, 1, 1, 1, false, 1);
  check_rows(*ops, 70, 41, 1, true, 2);
  check_rows(*ops, 33, 1025, 4, false, 3);
  check_rows(*ops, 300, 32000, 1, false, 4);
  check_rows(*ops, 6, 151937, 1, true, 5);
  check_rows(*ops, 9, 49152, 8, false, 6);
  check_rows(*ops, 600, 41, 1, true, 10);    // a block a row, without a cluster
  check_rows(*ops, 65600, 3, 1, false, 11);  // more than a grid's second side holds
}

TEST_CASE("samplers of few requests, for the checkers [together_race]", "[race][together_race]") {
  const auto ops = try_gpu_ops<Bf16>();
  if (!ops) {
    return;
  }
  SECTION("chains") {
    check_chains(*ops, 1500, 3, 2, 6);
  }
  SECTION("trees") {
    check_trees(*ops, 1500, 2, 4, 7);
  }
  SECTION("rows") {
    check_rows(*ops, 3, 3000, 1, false, 8);
  }
}

}  // namespace versieve::test
