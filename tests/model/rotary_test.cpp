// Are rotary frequencies of every kind those of their definitions?
#include "model/words/rotary.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <numbers>

namespace versieve {
namespace {

constexpr std::int64_t kHead = 64;

double plain(std::size_t pair) {
  return std::pow(10000.0, -2.0 * static_cast<double>(pair) / kHead);
}

TEST_CASE("default and linear frequencies are powers of theta") {
  const std::vector<double> own = rotary_frequencies(10000.0, kHead, {});
  const std::vector<double> slow =
      rotary_frequencies(10000.0, kHead, {.kind = RopeKind::kLinear, .factor = 4.0});
  REQUIRE(own.size() == 32);
  for (std::size_t i = 0; i < own.size(); ++i) {
    CHECK(own[i] == plain(i));
    CHECK(slow[i] == plain(i) / 4.0);
  }
}

TEST_CASE("llama3 keeps fast pairs, slows down slow ones and mixes between them") {
  const RopeScaling scaling{.kind = RopeKind::kLlama3, .factor = 8.0, .original_positions = 8192.0};
  const std::vector<double> f = rotary_frequencies(10000.0, kHead, scaling);
  int kept = 0, slowed = 0;
  for (std::size_t i = 0; i < f.size(); ++i) {
    const double turns = 8192.0 * plain(i) / (2.0 * std::numbers::pi);
    if (turns > 4.0) {
      ++kept;
      CHECK(f[i] == plain(i));
    } else if (turns < 1.0) {
      ++slowed;
      CHECK(f[i] == plain(i) / 8.0);
    } else {
      const double smooth = (turns - 1.0) / 3.0;
      CHECK(f[i] == Approx(plain(i) * (smooth + (1.0 - smooth) / 8.0)));
    }
  }
  CHECK(kept > 0);
  CHECK(slowed > 0);
  CHECK(kept + slowed < 32);
}

TEST_CASE("yarn's ramp runs between the pairs that turn beta_fast and beta_slow times") {
  const RopeScaling scaling{.kind = RopeKind::kYarn, .factor = 4.0, .original_positions = 4096.0};
  const std::vector<double> f = rotary_frequencies(10000.0, kHead, scaling);
  const auto pair_of = [](double turns) {
    return kHead * std::log(4096.0 / (turns * 2.0 * std::numbers::pi)) / (2.0 * std::log(10000.0));
  };
  const double low = std::floor(pair_of(32.0));
  const double high = std::ceil(pair_of(1.0));
  for (std::size_t i = 0; i < f.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    CHECK(f[i] == Approx(plain(i) * (ramp / 4.0 + 1.0 - ramp)));
  }
  CHECK(f[0] == plain(0));
  CHECK(f[31] == plain(31) / 4.0);
  CHECK(yarn_attention_factor(4.0) == Approx(0.1 * std::log(4.0) + 1.0));
  CHECK(yarn_attention_factor(0.5) == 1.0);
}

}  // namespace
}  // namespace versieve
