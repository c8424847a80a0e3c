#include "engine/run/speculate/synthetic_acceptance.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "engine/run/model/uniform.h"
#include "model/words/assert.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

std::vector<std::int32_t> plain_yields(std::int64_t count) {
  return std::vector<std::int32_t>(static_cast<std::size_t>(count), 1);
}

class RecordedAcceptance final : public SyntheticAcceptance {
 public:
  explicit RecordedAcceptance(WalkOf walk_of) : walk_of_(std::move(walk_of)) {}

  std::string lacking_because(const Strategy& strategy) const override {
    return strategy.draft.speculates() && walk_of_(strategy).empty()
               ? "no walk of it is recorded along this text"
               : "";
  }

  std::vector<std::int32_t> yields(const Strategy& strategy, std::int64_t count) const override {
    if (!strategy.draft.speculates()) {
      return plain_yields(count);
    }
    const std::vector<std::int64_t>& walk = walk_of_(strategy);
    VERSIEVE_ASSERT(!walk.empty() && std::all_of(walk.begin(), walk.end(),
                                                 [](std::int64_t yield) { return yield >= 1; }),
                    "a walk has steps that move on");
    std::vector<std::int32_t> out;
    std::int64_t begins = 0;  // the step, and behind it those to come
    for (std::size_t step = 0; static_cast<std::int64_t>(out.size()) < count; ++step) {
      const std::int64_t yield = walk[step % walk.size()];
      while (static_cast<std::int64_t>(out.size()) <= std::min(begins, count - 1)) {
        out.push_back(static_cast<std::int32_t>(yield));
      }
      begins += yield;
    }
    return out;
  }

 private:
  WalkOf walk_of_;
};

class LawAcceptance final : public SyntheticAcceptance {
 public:
  LawAcceptance(ExpectedOf expected_of, std::uint64_t seed)
      : expected_of_(std::move(expected_of)), seed_(seed) {
    // Box and Muller; places of the text begin at 0.
    const double u = 1.0 - uniform_at(seed, -1, UniformUse::kTest, 0);
    const double angle = 2.0 * std::numbers::pi * uniform_at(seed, -1, UniformUse::kTest, 1);
    share_ = 1.0 + kTextSpread * std::sqrt(-2.0 * std::log(u)) * std::cos(angle);
  }

  std::string lacking_because(const Strategy& strategy) const override {
    return strategy.draft.speculates() && !expected_of_(strategy)
               ? "nothing says how many tokens a step of it yields"
               : "";
  }

  std::vector<std::int32_t> yields(const Strategy& strategy, std::int64_t count) const override {
    if (!strategy.draft.speculates()) {
      return plain_yields(count);
    }
    const std::int64_t levels = strategy.draft.levels();
    const double q = level_probability(share_ * *expected_of_(strategy), levels);
    std::vector<std::int32_t> out;
    for (std::int64_t i = 0; i < count; ++i) {
      const double u = uniform_at(seed_, i, UniformUse::kTest, 0);
      std::int32_t yield = 1;
      for (double reached = q; yield <= levels && u < reached; reached *= q) {
        ++yield;
      }
      out.push_back(yield);
    }
    return out;
  }

 private:
  ExpectedOf expected_of_;
  std::uint64_t seed_;
  double share_ = 1.0;
};

double mean_at(double probability, std::int64_t levels) {
  double sum = 1.0, reached = 1.0;
  for (std::int64_t level = 0; level < levels; ++level) {
    reached *= probability;
    sum += reached;
  }
  return sum;
}

}  // namespace

const char* name_of(AcceptanceFrom from) {
  return from == AcceptanceFrom::kRecorded ? "recorded" : "law";
}

AcceptanceFrom parse_acceptance_from(const std::string& name) {
  for (const AcceptanceFrom from : {AcceptanceFrom::kRecorded, AcceptanceFrom::kLaw}) {
    if (name == name_of(from)) {
      return from;
    }
  }
  throw Error(ExitCode::kUsage,
              "unknown synthetic acceptance '" + name + "': it is recorded or law");
}

std::unique_ptr<SyntheticAcceptance> recorded_acceptance(WalkOf walk_of) {
  return std::make_unique<RecordedAcceptance>(std::move(walk_of));
}

std::unique_ptr<SyntheticAcceptance> law_acceptance(ExpectedOf expected_of, std::uint64_t seed) {
  return std::make_unique<LawAcceptance>(std::move(expected_of), seed);
}

double level_probability(double mean, std::int64_t levels) {
  double low = 0.0, high = 1.0;
  for (int halving = 0; halving < 60; ++halving) {
    const double middle = 0.5 * (low + high);
    (mean_at(middle, levels) < mean ? low : high) = middle;
  }
  return mean <= 1.0 ? 0.0 : high;
}

}  // namespace versieve::engine
