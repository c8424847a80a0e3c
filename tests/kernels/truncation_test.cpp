// What top-k, top-p and min-p leave of a row on the CPU, and the law of chains and trees whose rows
// are cut.
#include <catch2/catch.hpp>
#include <limits>

#include "kernels/cpu.h"
#include "kernels/spec_sample/categorical.h"
#include "tests/kernels/chi_square.h"
#include "tests/kernels/random_tensor.h"

namespace versieve::kernels {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();
using Ints = std::vector<std::int32_t>;

// Which tokens of a row are kept.
Ints kept(const std::vector<double>& row, const Truncation& cuts, double temperature = 1.0) {
  const std::vector<double> law =
      softmax_row(row.data(), static_cast<std::int64_t>(row.size()), temperature, cuts);
  Ints tokens;
  for (std::size_t x = 0; x < law.size(); ++x) {
    if (law[x] > 0.0) {
      tokens.push_back(static_cast<std::int32_t>(x));
    }
  }
  return tokens;
}

std::vector<double> logs_of(std::vector<double> p) {
  for (double& x : p) {
    x = std::log(x);
  }
  return p;
}

template <class Real>
Ints drafted_from(const std::vector<double>& law, std::int64_t samples, std::uint32_t seed) {
  Ints tokens;
  for (const Real u : test::random_uniforms<Real>(samples, seed)) {
    tokens.push_back(draw(law, static_cast<double>(u)));
  }
  return tokens;
}

}  // namespace

TEST_CASE("top-k keeps the k largest logits and those equal to the last", "[truncation]") {
  const std::vector<double> row = {1, 4, 2, 2, 0, kNever};
  CHECK(kept(row, {.top_k = 1}) == Ints{1});
  CHECK(kept(row, {.top_k = 2}) == Ints{1, 2, 3});
  CHECK(kept(row, {.top_k = 3}) == Ints{1, 2, 3});
  CHECK(kept(row, {.top_k = 4}) == Ints{0, 1, 2, 3});
  CHECK(kept(row, {.top_k = 6}) == Ints{0, 1, 2, 3, 4});
  CHECK(kept(row, {.top_k = 0}) == Ints{0, 1, 2, 3, 4});
}

TEST_CASE("top-p keeps the fewest tokens that have the mass, and those equal to the last",
          "[truncation]") {
  const std::vector<double> row = logs_of({0.5, 0.2, 0.2, 0.06, 0.04});
  CHECK(kept(row, {.top_p = 0.4}) == Ints{0});
  CHECK(kept(row, {.top_p = 0.6}) == Ints{0, 1, 2});
  CHECK(kept(row, {.top_p = 0.95}) == Ints{0, 1, 2, 3});
  CHECK(kept(row, {.top_p = 0.97}) == Ints{0, 1, 2, 3, 4});
  CHECK(kept(row, {.top_p = 1.0}) == Ints{0, 1, 2, 3, 4});
  // At temperature 1/2 the first has 0.25 of 0.3352.
  CHECK(kept(row, {.top_p = 0.7}, 0.5) == Ints{0});
}

TEST_CASE("min-p keeps what is at least that share of the likeliest", "[truncation]") {
  const std::vector<double> row = logs_of({0.5, 0.26, 0.2, 0.04});
  CHECK(kept(row, {.min_p = 0.5}) == Ints{0, 1});
  CHECK(kept(row, {.min_p = 0.1}) == Ints{0, 1, 2});
  CHECK(kept(row, {.min_p = 1.0}) == Ints{0});
  CHECK(kept(row, {.min_p = 0.3}, 2.0) == Ints{0, 1, 2});  // shares are roots at temperature 2
}

TEST_CASE("top-p counts the mass of what top-k leaves, and min-p goes last", "[truncation]") {
  const std::vector<double> row = logs_of({0.4, 0.3, 0.2, 0.1});
  CHECK(kept(row, {.top_p = 0.5}) == Ints{0, 1});
  CHECK(kept(row, {.top_k = 2, .top_p = 0.5}) == Ints{0});  // 0.4 of 0.7
  CHECK(kept(row, {.top_k = 3, .top_p = 0.9, .min_p = 0.7}) == Ints{0, 1});
  const std::vector<double> law = softmax_row(row.data(), 4, 1.0, {.top_k = 2});
  CHECK(law[0] == Approx(4.0 / 7.0));
  CHECK(law[2] == 0.0);
}

TEST_CASE("a cut at temperature 0 leaves the lowest argmax", "[truncation]") {
  const std::vector<double> row = {1, 3, 3, 2};
  CHECK(kept(row, {.top_k = 3, .top_p = 0.5}, 0.0) == Ints{1});
}

TEST_CASE("a chain's output follows the target's cut law, and a wrong sampler's does not",
          "[truncation][spec_sample]") {
  const std::int64_t samples = 200000, vocab = 40;
  const double temperature = 0.8;
  const std::vector<float> target = test::random_tensor<float>(2 * vocab, 61, 1.5);
  const std::vector<float> draft = test::random_tensor<float>(vocab, 62, 1.5);
  const std::vector<float> uniforms = test::random_uniforms<float>(samples * 2, 63);
  for (const Truncation& cuts :
       {Truncation{.top_k = 12}, Truncation{.top_p = 0.8}, Truncation{.min_p = 0.1},
        Truncation{.top_k = 20, .top_p = 0.9, .min_p = 0.02}}) {
    const std::vector<double> law = softmax_row(target.data(), vocab, temperature, cuts);
    const auto deviate = [&](const Ints& drafted) {
      Ints accepted(static_cast<std::size_t>(samples)), tokens(accepted.size() * 2);
      std::vector<float> tau(accepted.size());
      spec_sample_cpu(SpecSampleParams<float>{.samples = samples,
                                              .gamma = 1,
                                              .vocab = vocab,
                                              .temperature = temperature,
                                              .target_logits = target.data(),
                                              .draft_logits = draft.data(),
                                              .draft_tokens = drafted.data(),
                                              .uniforms = uniforms.data(),
                                              .accepted = accepted.data(),
                                              .tokens = tokens.data(),
                                              .tau = tau.data(),
                                              .truncation = cuts},
                      2);
      std::vector<std::int64_t> first(static_cast<std::size_t>(vocab));
      for (std::size_t i = 0; i < accepted.size(); ++i) {
        ++first[static_cast<std::size_t>(tokens[2 * i])];
      }
      return test::chi_square_deviate(first, law);
    };
    INFO("k " << cuts.top_k << " p " << cuts.top_p << " min " << cuts.min_p);
    const std::vector<double> q = softmax_row(draft.data(), vocab, temperature, cuts);
    CHECK(deviate(drafted_from<float>(q, samples, 64)) < 4.0);
    // Wrong on purpose: the draft was not cut.
    const std::vector<double> whole = softmax_row(draft.data(), vocab, temperature);
    CHECK(deviate(drafted_from<float>(whole, samples, 64)) > 6.0);
  }
}

TEST_CASE("a tree's output follows the target's cut law", "[truncation][tree_sample]") {
  const std::int64_t samples = 100000, vocab = 16;
  const std::vector<float> logits = test::random_tensor<float>(3 * vocab, 65, 1.5);
  const std::vector<float> uniforms = test::random_uniforms<float>(samples * 3, 66);
  const Ints parent = {-1, 0, 0};
  Ints token;
  for (std::int64_t r = 0; r < samples; ++r) {
    token.insert(token.end(), {0, 3, 11});
  }
  const Truncation cuts{.top_k = 9, .top_p = 0.9};
  Ints accepted(static_cast<std::size_t>(samples)), tokens(token.size()), path(token.size());
  std::vector<float> tau(token.size());
  tree_sample_cpu(TreeSampleParams<float>{.samples = samples,
                                          .num_nodes = 3,
                                          .vocab = vocab,
                                          .temperature = 0.8,
                                          .target_logits = logits.data(),
                                          .parent = parent.data(),
                                          .token = token.data(),
                                          .uniforms = uniforms.data(),
                                          .accepted = accepted.data(),
                                          .tokens = tokens.data(),
                                          .path = path.data(),
                                          .tau = tau.data(),
                                          .truncation = cuts},
                  2);
  std::vector<std::int64_t> first(static_cast<std::size_t>(vocab));
  for (std::size_t i = 0; i < accepted.size(); ++i) {
    ++first[static_cast<std::size_t>(tokens[3 * i])];
  }
  CHECK(test::chi_square_deviate(first, softmax_row(logits.data(), vocab, 0.8, cuts)) < 4.0);
  CHECK(test::chi_square_deviate(first, softmax_row(logits.data(), vocab, 0.8)) > 20.0);
}

TEST_CASE("sequences of a batch are chains of their own", "[spec_sample]") {
  const std::int64_t batch = 3, samples = 5, gamma = 2, vocab = 30;
  SpecSampleParams<float> all{.samples = samples, .gamma = gamma, .vocab = vocab, .batch = batch};
  const auto target = test::random_tensor<float>(batch * (gamma + 1) * vocab, 71);
  const auto draft = test::random_tensor<float>(batch * gamma * vocab, 72);
  const auto uniforms = test::random_uniforms<float>(batch * samples * (gamma + 1), 73);
  Ints drafted;
  for (std::int32_t i = 0; i < batch * samples * gamma; ++i) {
    drafted.push_back(i * 7 % 30);
  }
  const auto run = [&](SpecSampleParams<float> p, std::int64_t first) {
    const std::size_t count = static_cast<std::size_t>(p.batch * samples);
    Ints accepted(count), tokens(count * 3);
    std::vector<float> tau(count * 2);
    p.target_logits = target.data() + first * (gamma + 1) * vocab;
    p.draft_logits = draft.data() + first * gamma * vocab;
    p.draft_tokens = drafted.data() + first * samples * gamma;
    p.uniforms = uniforms.data() + first * samples * (gamma + 1);
    p.accepted = accepted.data();
    p.tokens = tokens.data();
    p.tau = tau.data();
    spec_sample_cpu(p, 1);
    return tokens;
  };
  const Ints whole = run(all, 0);
  all.batch = 1;
  for (std::int64_t b = 0; b < batch; ++b) {
    const Ints one = run(all, b);
    CHECK(std::equal(one.begin(), one.end(), whole.begin() + b * samples * (gamma + 1)));
  }
}

TEST_CASE("half precision goes to f32 and back, and rounds to the nearest", "[f16]") {
  for (int bits = 0; bits < 65536; ++bits) {
    const F16 half{static_cast<std::uint16_t>(bits)};
    const float wide = to_float(half);
    if (std::isnan(wide)) {
      CHECK(std::isnan(to_float(to_f16(wide))));
    } else if (to_f16(wide).bits != bits) {
      FAIL("f16 bits " << bits << " come back as " << to_f16(wide).bits);
    }
    // Halfway to the next of the same sign goes to the even one.
    const float next = to_float(F16{static_cast<std::uint16_t>(bits + 1)});
    if (std::isfinite(wide) && std::isfinite(next) && (bits + 1) % 0x8000 != 0) {
      const double middle = (static_cast<double>(wide) + static_cast<double>(next)) / 2.0;
      if (to_f16(middle).bits != bits + bits % 2) {
        FAIL("halfway above f16 bits " << bits << " goes to " << to_f16(middle).bits);
      }
    }
  }
  CHECK(to_f16(65519.0).bits == 0x7BFF);
  CHECK(to_f16(65520.0).bits == 0x7C00);
  CHECK(to_f16(-1e300).bits == 0xFC00);
  CHECK(to_f16(1e-30F).bits == 0);
}

}  // namespace versieve::kernels
