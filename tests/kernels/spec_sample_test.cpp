// spec_sample on the CPU: the rules one by one, and the law of its output.
#include <catch2/catch.hpp>
#include <limits>

#include "kernels/cpu.h"
#include "kernels/spec_sample/categorical.h"
#include "tests/kernels/chi_square.h"
#include "tests/kernels/random_tensor.h"

namespace versieve::kernels {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

struct Chain {
  SpecSampleVariant variant = SpecSampleVariant::kBaseline;
  double alpha = -1.0, beta = 1.0;
  std::int64_t samples = 1, gamma = 0, vocab = 0;
  double temperature = 1.0;
  std::vector<float> target, draft;
  std::vector<std::int32_t> drafted;
  std::vector<float> uniforms;

  std::vector<std::int32_t> accepted = {}, tokens = {};
  std::vector<float> tau = {};

  void run() {
    accepted.assign(static_cast<std::size_t>(samples), -9);
    tokens.assign(static_cast<std::size_t>(samples * (gamma + 1)), -9);
    tau.assign(static_cast<std::size_t>(samples * gamma), -9.0F);
    spec_sample_cpu(SpecSampleParams<float>{.variant = variant,
                                            .samples = samples,
                                            .gamma = gamma,
                                            .vocab = vocab,
                                            .temperature = temperature,
                                            .alpha = alpha,
                                            .beta = beta,
                                            .target_logits = target.data(),
                                            .draft_logits = draft.data(),
                                            .draft_tokens = drafted.data(),
                                            .uniforms = uniforms.data(),
                                            .accepted = accepted.data(),
                                            .tokens = tokens.data(),
                                            .tau = tau.data()},
                    2);
  }
};

using Ints = std::vector<std::int32_t>;

float log_of(double p) {
  return static_cast<float>(std::log(p));
}

}  // namespace

TEST_CASE("spec_sample accepts at r = tau and rejects above it", "[spec_sample]") {
  Chain c{.gamma = 1,
          .vocab = 2,
          .target = {0, 0, 0, 0},
          .draft = {kNever, 0},
          .drafted = {1},
          .uniforms = {0.5F, 0.0F}};
  c.run();
  CHECK(c.tau[0] == 0.5F);
  CHECK(c.accepted == Ints{1});
  CHECK(c.tokens == Ints{1, 0});
  c.uniforms[0] = std::nextafter(0.5F, 1.0F);
  c.run();
  CHECK(c.accepted == Ints{0});
  CHECK(c.tokens == Ints{0, -1});  // the residual holds token 0 alone
}

TEST_CASE("spec_sample rejects what the target cannot say, even at r = 0", "[spec_sample]") {
  Chain c{.gamma = 1,
          .vocab = 2,
          .target = {0, kNever, 0, 0},
          .draft = {0, 0},
          .drafted = {1},
          .uniforms = {0.0F, 0.999F}};
  c.run();
  CHECK(c.tau[0] == 0.0F);
  CHECK(c.accepted == Ints{0});
  CHECK(c.tokens == Ints{0, -1});
}

TEST_CASE("spec_sample with q = 0 accepts if the target can say it, else not", "[spec_sample]") {
  Chain c{.gamma = 2,
          .vocab = 3,
          .target = {0, 0, 0, 0, 0, kNever, 0, 0, 0},
          .draft = {0, 0, kNever, 0, 0, kNever},
          .drafted = {2, 2},
          .uniforms = {0.999F, 0.0F, 0.4F}};
  c.run();
  CHECK(c.tau == std::vector<float>{1.0F, 0.0F});
  CHECK(c.accepted == Ints{1});
  CHECK(c.tokens == Ints{2, 0, -1});  // p = q there: drawn from the target's row
}

TEST_CASE("spec_sample reports tau at every position, also after a rejection", "[spec_sample]") {
  Chain c{.gamma = 3,
          .vocab = 2,
          .target = {log_of(0.25), log_of(0.75), log_of(0.5), log_of(0.5), 0, 0, 0, 0},
          .draft = {log_of(0.75), log_of(0.25), 0, 0, log_of(0.2), log_of(0.8)},
          .drafted = {0, 0, 1},
          .uniforms = {0.9F, 0.1F, 0.1F, 0.5F}};
  c.run();
  CHECK(c.accepted == Ints{0});
  CHECK(c.tau[0] == Approx(1.0 / 3.0));
  CHECK(c.tau[1] == Approx(1.0));
  CHECK(c.tau[2] == Approx(0.625));
}

TEST_CASE("spec_sample at temperature 0 follows the lowest argmax", "[spec_sample]") {
  Chain c{.gamma = 2,
          .vocab = 3,
          .temperature = 0.0,
          .target = {1, 5, 5, 0, 2, 2, 3, 3, 1},
          .draft = {0, 1, 0, 0, 0, 1},
          .drafted = {1, 2},
          .uniforms = {0.99F, 0.0F, 0.99F}};
  c.run();
  CHECK(c.tau == std::vector<float>{1.0F, 0.0F});
  CHECK(c.tokens == Ints{1, 1, -1});
}

TEST_CASE("spec_sample with nothing drafted is the bonus draw alone", "[spec_sample]") {
  for (const auto& [u, token] : {std::pair{0.0F, 1}, {0.24F, 1}, {0.26F, 3}, {0.99F, 3}}) {
    Chain c{.gamma = 0,
            .vocab = 5,
            .target = {kNever, 0, kNever, log_of(3.0), kNever},
            .uniforms = {u}};
    c.run();
    CHECK(c.accepted == Ints{0});
    CHECK(c.tokens == Ints{token});
  }
}

TEST_CASE("the draw takes the lowest token whose running sum exceeds u, else the last positive",
          "[spec_sample]") {
  CHECK(draw({0.0, 1.0, 1.0, 0.0}, 0.0) == 1);
  CHECK(draw({0.0, 1.0, 1.0, 0.0}, 0.5) == 2);  // strictly greater
  CHECK(draw({0.0, 1.0, 1.0, 0.0}, 1.0) == 2);  // no sum exceeds it
  CHECK(draw({0.0, 0.0}, 0.3) == -1);
}

TEST_CASE("sigmoid tests and redraws by sigmoids that are not normalised", "[spec_sample]") {
  // sigmoid((z + 1) / 2): target 0.731, 0.5; draft 0.5, 0.731.
  Chain c{.variant = SpecSampleVariant::kSigmoid,
          .gamma = 1,
          .vocab = 2,
          .target = {1, -1, 0, 0},
          .draft = {-1, 1},
          .drafted = {1},
          .uniforms = {0.7F, 0.999F}};
  const double high = 1.0 / (1.0 + std::exp(-1.0));
  c.run();
  CHECK(c.tau[0] == Approx(0.5 / high));
  CHECK(c.tokens == Ints{0, -1});  // all that is left
  c.uniforms[0] = 0.68F;
  c.run();
  CHECK(c.tokens == Ints{1, 1});
  c.temperature = 0.5;  // sigmoid((2 z + 1) / 2)
  c.run();
  CHECK(c.tau[0] == Approx((1.0 + std::exp(-1.5)) / (1.0 + std::exp(0.5))));
}

TEST_CASE("sigmoid draws the last token from the softmax, also where nothing is left",
          "[spec_sample]") {
  for (const auto& [u, token] : {std::pair{0.24F, 0}, {0.26F, 1}}) {
    Chain bonus{.variant = SpecSampleVariant::kSigmoid,
                .vocab = 2,
                .target = {0, log_of(3.0)},
                .uniforms = {u}};
    bonus.run();
    CHECK(bonus.tokens == Ints{token});
    Chain nothing_left{.variant = SpecSampleVariant::kSigmoid,
                       .gamma = 1,
                       .vocab = 2,
                       .target = {0, log_of(3.0), 0, 0},
                       .draft = {5, 5},
                       .drafted = {0},
                       .uniforms = {0.9F, u}};
    nothing_left.run();
    CHECK(nothing_left.accepted == Ints{0});
    CHECK(nothing_left.tokens[0] == token);
  }
}

TEST_CASE("sigmoid leaves the target's law, which exact keeps", "[spec_sample]") {
  const std::int64_t samples = 100000, vocab = 24;
  for (const SpecSampleVariant variant : {SpecSampleVariant::kExact, SpecSampleVariant::kSigmoid}) {
    Chain c{.variant = variant,
            .samples = samples,
            .gamma = 1,
            .vocab = vocab,
            .target = test::random_tensor<float>(2 * vocab, 25, 1.5),
            .draft = test::random_tensor<float>(vocab, 26, 1.5),
            .uniforms = test::random_uniforms<float>(samples * 2, 27)};
    const std::vector<double> q = softmax_row(c.draft.data(), vocab, 1.0);
    for (const float u : test::random_uniforms<float>(samples, 28)) {
      c.drafted.push_back(draw(q, static_cast<double>(u)));
    }
    c.run();
    std::vector<std::int64_t> first(24);
    for (std::size_t i = 0; i < static_cast<std::size_t>(samples); ++i) {
      ++first[static_cast<std::size_t>(c.tokens[2 * i])];
    }
    const double deviate =
        test::chi_square_deviate(first, softmax_row(c.target.data(), vocab, 1.0));
    CHECK((variant == SpecSampleVariant::kExact ? deviate < 4.0 : deviate > 20.0));
  }
}

// The first token of many independent samples must follow the target's law exactly.
TEST_CASE("spec_sample's output follows the target's law and a wrong sampler's does not",
          "[spec_sample]") {
  const std::int64_t samples = 200000, vocab = 24;
  for (const double temperature : {1.0, 0.7}) {
    Chain c{.samples = samples,
            .gamma = 2,
            .vocab = vocab,
            .temperature = temperature,
            .target = test::random_tensor<float>(3 * vocab, 21, 1.5),
            .draft = test::random_tensor<float>(2 * vocab, 22, 1.5),
            .uniforms = test::random_uniforms<float>(samples * 3, 23)};
    const std::vector<double> q = softmax_row(c.draft.data(), vocab, temperature);
    const std::vector<float> choice = test::random_uniforms<float>(samples * 2, 24);
    for (const float u : choice) {
      c.drafted.push_back(draw(q, static_cast<double>(u)));
    }
    const std::vector<double> second = softmax_row(c.draft.data() + vocab, vocab, temperature);
    for (std::size_t i = 1; i < choice.size(); i += 2) {
      c.drafted[i] = draw(second, static_cast<double>(choice[i]));
    }
    c.run();
    const std::vector<double> first_law = softmax_row(c.target.data(), vocab, temperature);
    const std::vector<double> next_law = softmax_row(c.target.data() + vocab, vocab, temperature);
    std::vector<std::int64_t> first(24), next(24), wrong(24);
    for (std::size_t i = 0; i < static_cast<std::size_t>(samples); ++i) {
      ++first[static_cast<std::size_t>(c.tokens[3 * i])];
      if (c.accepted[i] >= 1) {
        ++next[static_cast<std::size_t>(c.tokens[3 * i + 1])];
      }
      // Wrong on purpose: on rejection it draws from p instead of max(0, p - q).
      const bool kept = c.accepted[i] >= 1;
      const double u = static_cast<double>(c.uniforms[3 * i + 2]);
      ++wrong[static_cast<std::size_t>(kept ? c.drafted[2 * i] : draw(first_law, u))];
    }
    CHECK(test::chi_square_deviate(first, first_law) < 4.0);
    CHECK(test::chi_square_deviate(next, next_law) < 4.0);
    CHECK(test::chi_square_deviate(wrong, first_law) > 20.0);
  }
}

TEST_CASE("samples of one call are those of calls of their own", "[spec_sample]") {
  const std::int64_t samples = 40, vocab = 50, gamma = 3;
  Chain all{.samples = samples,
            .gamma = gamma,
            .vocab = vocab,
            .target = test::random_tensor<float>((gamma + 1) * vocab, 31),
            .draft = test::random_tensor<float>(gamma * vocab, 32),
            .uniforms = test::random_uniforms<float>(samples * (gamma + 1), 33)};
  for (std::int32_t i = 0; i < samples * gamma; ++i) {
    all.drafted.push_back(i * 7 % 50);
  }
  all.run();
  for (std::int64_t r = 0; r < samples; ++r) {
    Chain one = all;
    one.samples = 1;
    one.drafted.assign(all.drafted.begin() + r * gamma, all.drafted.begin() + (r + 1) * gamma);
    one.uniforms.assign(all.uniforms.begin() + r * (gamma + 1),
                        all.uniforms.begin() + (r + 1) * (gamma + 1));
    one.run();
    CHECK(one.accepted[0] == all.accepted[static_cast<std::size_t>(r)]);
    CHECK(std::equal(one.tokens.begin(), one.tokens.end(), all.tokens.begin() + r * (gamma + 1)));
  }
}

}  // namespace versieve::kernels
