#include "engine/analyse/serve/draft_yields.h"

#include <algorithm>
#include <cmath>

namespace versieve::engine {
namespace {

// Of steps of a mean between 1 and `most`: no law has a greater variance.
double step_variance(double mean, double most) {
  return std::max(0.0, (mean - 1.0) * (most - mean));
}

double token_error(double mean, double most, double steps, std::int64_t texts) {
  const double of_steps = step_variance(mean, most) / (mean * mean * steps);
  return std::sqrt(of_steps + kTextShare * kTextShare / static_cast<double>(texts));
}

// 1 + a + ... + a^levels
double geometric(double a, std::int64_t levels) {
  double sum = 1.0, term = 1.0;
  for (std::int64_t i = 0; i < levels; ++i) {
    term *= a;
    sum += term;
  }
  return sum;
}

// The rate at which such a chain yields `mean` tokens.
double rate_of(double mean, std::int64_t levels) {
  double low = 0.0, high = 1.0;
  for (int i = 0; i < 60; ++i) {
    const double middle = 0.5 * (low + high);
    (geometric(middle, levels) < mean ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

// What the first `levels` tokens of a chain yield.
DraftYield cut_yield(const DraftTokens& of, const DraftChoice& draft, std::int64_t levels) {
  const double steps = of.steps;
  if (levels == draft.levels()) {
    return {{of.mean(), token_error(of.mean(), static_cast<double>(levels + 1), steps, of.texts)},
            TokenSource::kCounted,
            of.at_least};
  }
  if (of.counted > 0.0) {
    double sum = 0.0;
    for (std::size_t a = 0; a < of.emitted.size(); ++a) {
      sum += of.emitted[a] * std::min(static_cast<double>(a), static_cast<double>(levels + 1));
    }
    const double mean = sum / of.counted;
    return {{mean, token_error(mean, static_cast<double>(levels + 1), of.counted, of.texts)},
            TokenSource::kCut,
            of.at_least};
  }
  const double mean = geometric(rate_of(of.mean(), draft.levels()), levels);
  const double cut = kCutShare * static_cast<double>(draft.levels() - levels);
  return {
      {mean, std::hypot(token_error(mean, static_cast<double>(levels + 1), steps, of.texts), cut)},
      TokenSource::kGeometric,
      of.at_least};
}

DraftChoice chain_of(std::int64_t levels) {
  return {.depth = levels, .width = 1, .nodes = levels + 1};
}

}  // namespace

std::map<DraftChoice, DraftYield, ByDraft> draft_yields(
    const std::map<DraftChoice, DraftTokens, ByDraft>& measured) {
  std::map<DraftChoice, DraftYield, ByDraft> out;
  for (const auto& [draft, tokens] : measured) {
    out[draft] = cut_yield(tokens, draft, draft.levels());
  }
  for (const auto& [draft, tokens] : measured) {  // the shortest chain that holds it comes first
    if (draft.width != 1 || tokens.at_least) {
      continue;
    }
    for (std::int64_t levels = 1; levels < draft.levels(); ++levels) {
      out.emplace(chain_of(levels), cut_yield(tokens, draft, levels));
    }
  }
  return out;
}

}  // namespace versieve::engine
