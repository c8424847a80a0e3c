// Laws of a token against sums written out, and the law of sigmoids against draws of the kernel.
#include "engine/run/quality/token_law.h"
#include "engine/run/speculate/drafter.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "kernels/cpu.h"

namespace versieve::engine {

TEST_CASE("a law is the softmax, and what it says of another is the sum of its terms") {
  const std::vector<double> a = {1.0, -2.0, 0.5}, b = {0.0, 0.0, 3.0};
  const Law exact = law_of(std::span<const double>(a)), own = law_of(std::span<const double>(b));
  const double za = std::exp(1.0) + std::exp(-2.0) + std::exp(0.5);
  const double zb = 2.0 + std::exp(3.0);
  double divergence = 0.0;
  for (std::size_t x = 0; x < 3; ++x) {
    CHECK(static_cast<double>(exact[x]) == Approx(a[x] - std::log(za)));
    divergence += std::exp(a[x]) / za * ((a[x] - std::log(za)) - (b[x] - std::log(zb)));
  }
  const TokenScore score = score_token(own, 0, &exact);
  CHECK(score.divergence == Approx(divergence));
  CHECK(score.loss == Approx(std::log(zb)));
  CHECK(score.likeliest == 2);
  CHECK(score_token(exact, 1, &exact).divergence == 0.0);
  CHECK(score_token(own, 1, nullptr).divergence == 0.0);
}

TEST_CASE("tokens that cannot come have no part in a divergence") {
  const std::vector<float> logits = {0.0F, -INFINITY, 1.0F};
  const Law law = law_of(std::span<const float>(logits));
  CHECK(law[1] == -INFINITY);
  CHECK(score_token(law, 0, &law).divergence == 0.0);
}

TEMPLATE_TEST_CASE("logits are scored as their law is, whatever their count", "", double, float) {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal(0.0, 9.0);
  for (const std::size_t vocab : {1U, 2U, 15U, 16U, 17U, 511U, 512U, 513U, 5000U}) {
    CAPTURE(vocab);
    std::vector<TestType> a(vocab), b(vocab);
    std::generate(a.begin(), a.end(), [&] { return static_cast<TestType>(normal(random)); });
    std::generate(b.begin(), b.end(), [&] { return static_cast<TestType>(normal(random)); });
    const std::span<const TestType> logits(b);
    const Law exact = law_of(std::span<const TestType>(a)), own = law_of(logits);
    const std::int32_t token = static_cast<std::int32_t>(vocab / 3);
    const TokenScore of_law = score_token(own, token, &exact);
    const TokenScore score = score_logits(logits, token, &exact);
    CHECK(score.loss == of_law.loss);
    CHECK(score.likeliest == of_law.likeliest);
    CHECK(score.divergence == of_law.divergence);
    CHECK(loss_of(logits, token) == of_law.loss);
    double whole = 0.0;
    for (const TestType logit : b) {
      whole += std::exp(static_cast<double>(logit) - static_cast<double>(b[0]));
    }
    CHECK(score.loss == Approx(static_cast<double>(b[0]) + std::log(whole) -
                               static_cast<double>(b[static_cast<std::size_t>(token)]))
                            .epsilon(1e-6)
                            .margin(1e-6));
    CHECK(score_logits(std::span<const TestType>(a), token, &exact).divergence == 0.0);
  }
}

TEST_CASE("numbers that are none make no finite score") {
  const std::vector<float> logits = {0.0F, NAN, 1.0F};
  CHECK(!std::isfinite(loss_of(std::span<const float>(logits), 0)));
}

TEST_CASE("a token that the draft has not comes by the residual alone") {
  const std::vector<double> target = {2.0, 1.0, 3.0, 0.0};
  const std::vector<double> draft = {1.0, 2.0, never_proposed<double>(), never_proposed<double>()};
  const Law law = sigmoid_law(std::span<const double>(target), std::span<const double>(draft));
  // Written out: only token 1 is less the target's than the draft's; of the residual tokens 2 and 3
  // have all but a hair, as their sigmoids are of the whole.
  const auto sigmoid = [](double z) { return 1.0 / (1.0 + std::exp(-(z + 1e3) / 2e3)); };
  const double q1 = std::exp(1.0) / (1.0 + std::exp(1.0));
  const double redrawn = q1 * (1.0 - sigmoid(1.0) / sigmoid(2.0));
  const double first = sigmoid(2.0) - sigmoid(1.0);
  const double residual = first + sigmoid(3.0) + sigmoid(0.0);
  CHECK(std::exp(static_cast<double>(law[0])) ==
        Approx(1.0 - q1 + redrawn * first / residual).epsilon(1e-5));
  CHECK(std::exp(static_cast<double>(law[2])) ==
        Approx(redrawn * sigmoid(3.0) / residual).epsilon(1e-5));
  CHECK(std::exp(static_cast<double>(law[3])) ==
        Approx(redrawn * sigmoid(0.0) / residual).epsilon(1e-5));
}

TEST_CASE("what sigmoids never yield has the least of laws, not none") {
  // Nothing that the draft proposes is less the target's, so nothing is drawn anew.
  const std::vector<double> target = {2.0, 3.0, 1.0};
  const std::vector<double> draft = {1.0, 2.0, never_proposed<double>()};
  double stays = 0.0;
  const Law law =
      sigmoid_law(std::span<const double>(target), std::span<const double>(draft), &stays);
  CHECK(stays == Approx(1.0).epsilon(1e-14));
  CHECK(law[2] <= -30.0F);
  CHECK(law[2] >= kLeastLog);
  const Law exact = law_of(std::span<const double>(target));
  const double never = std::exp(static_cast<double>(exact[2]));
  const TokenScore score = score_token(law, 2, &exact);
  CHECK(score.divergence > never * 20.0);
  CHECK(std::isfinite(score.loss));
  // A drafted token stays as often as the smaller of both sigmoids lets it.
  const std::vector<double> below = {1.0, 0.0, 3.0};
  sigmoid_law(std::span<const double>(below), std::span<const double>(draft), &stays);
  const auto sigmoid = [](double z) { return 1.0 / (1.0 + std::exp(-(z + 1e3) / 2e3)); };
  const double q1 = std::exp(1.0) / (1.0 + std::exp(1.0));
  CHECK(stays == Approx(1.0 - q1 * (1.0 - sigmoid(0.0) / sigmoid(2.0))).epsilon(1e-12));
}

TEST_CASE("the law of sigmoids is that of the tokens that the kernel yields") {
  constexpr std::int64_t kSamples = 200'000, kVocab = 4;
  const std::vector<double> target = {400.0, -300.0, 900.0, 0.0, 0, 0, 0, 0};
  const std::vector<double> draft = {-800.0, -799.0, -801.0, -800.5};
  const Law law =
      sigmoid_law(std::span<const double>(target).first(kVocab), std::span<const double>(draft));
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> uniform(0.0, 1.0);
  const Law proposes = law_of(std::span<const double>(draft));
  std::vector<double> mass;
  std::transform(proposes.begin(), proposes.end(), std::back_inserter(mass),
                 [](float log) { return std::exp(static_cast<double>(log)); });
  std::discrete_distribution<std::int32_t> proposal(mass.begin(), mass.end());
  std::vector<std::int32_t> drafted(kSamples), accepted(kSamples), tokens(2 * kSamples);
  std::vector<double> uniforms(2 * kSamples), tau(kSamples);
  std::generate(drafted.begin(), drafted.end(), [&] { return proposal(random); });
  std::generate(uniforms.begin(), uniforms.end(), [&] { return uniform(random); });
  kernels::spec_sample_cpu<double>({.variant = kernels::SpecSampleVariant::kSigmoid,
                                    .samples = kSamples,
                                    .gamma = 1,
                                    .vocab = kVocab,
                                    .target_logits = target.data(),
                                    .draft_logits = draft.data(),
                                    .draft_tokens = drafted.data(),
                                    .uniforms = uniforms.data(),
                                    .accepted = accepted.data(),
                                    .tokens = tokens.data(),
                                    .tau = tau.data()},
                                   1);
  std::vector<double> seen(kVocab, 0.0);
  for (std::int64_t i = 0; i < kSamples; ++i) {
    seen[static_cast<std::size_t>(tokens[static_cast<std::size_t>(2 * i)])] += 1.0 / kSamples;
  }
  double whole = 0.0;
  for (std::size_t x = 0; x < kVocab; ++x) {
    const double p = std::exp(static_cast<double>(law[x]));
    whole += p;
    CHECK(std::abs(seen[x] - p) < 5.0 * std::sqrt(p * (1.0 - p) / kSamples));
  }
  CHECK(whole == Approx(1.0));
}

}  // namespace versieve::engine
