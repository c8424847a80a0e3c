#include "model/plan/chain_yields.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "model/words/assert.h"

namespace versieve {
namespace {

// Standard deviations of the logarithm of tokens a step: of another depth than was counted, of
// another pair. Assumptions.
constexpr double kOtherDepthError = 0.05, kOtherPairError = 0.1;
constexpr int kHalvings = 60;

bool differ_by_draft_alone(Strategy a, const Strategy& b) {
  a.draft = b.draft;
  return a == b;
}

// The probability that a chain of that depth yields so many tokens by.
double stays_of(double mean, std::int64_t depth) {
  double low = 0.0, high = 1.0;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = 0.5 * (low + high);
    (tokens_kept(middle, depth) < mean ? low : high) = middle;
  }
  return high;
}

double log_apart(std::int64_t a, std::int64_t b) {
  return std::abs(std::log(static_cast<double>(std::max<std::int64_t>(1, a)) /
                           static_cast<double>(std::max<std::int64_t>(1, b))));
}

}  // namespace

double tokens_kept(double stays, std::int64_t depth) {
  double tokens = 1.0;
  for (std::int64_t i = 1; i <= depth; ++i) {
    tokens += std::pow(stays, static_cast<double>(i));
  }
  return tokens;
}

ChainYields::ChainYields(const std::vector<ChainYield>& rows) {
  for (const ChainYield& row : rows) {
    rows_.push_back({Strategy::parse(row.strategy), row});
    VERSIEVE_ASSERT(rows_.back().strategy.draft.width == 1, "yields are of chains");
  }
}

std::optional<ChainYields::Found> ChainYields::of(const Strategy& strategy,
                                                  std::int64_t context_low,
                                                  std::int64_t context_high) const {
  const std::int64_t context = (context_low + context_high) / 2;
  const auto rank = [&](const Row& row) {
    return std::tuple(!row.yield.own, log_apart(row.yield.context_len, context),
                      log_apart(row.strategy.draft.depth, strategy.draft.depth));
  };
  const Row* best = nullptr;
  for (const Row& row : rows_) {
    if (differ_by_draft_alone(row.strategy, strategy) &&
        (best == nullptr || rank(row) < rank(*best))) {
      best = &row;
    }
  }
  if (best == nullptr) {
    return {};
  }
  const std::int64_t depth = strategy.draft.depth, counted = best->strategy.draft.depth;
  const ChainYield& y = best->yield;
  Found out{.tokens = {.mean = y.mean, .log_error = y.log_error}};
  if (depth != counted) {
    out.tokens.mean = tokens_kept(stays_of(y.mean, counted), depth);
    out.tokens.log_error = std::hypot(out.tokens.log_error, kOtherDepthError);
  } else if (y.own) {
    out.tokens.source = Provenance::kMeasured;
  }
  if (!y.own) {
    out.tokens.log_error = std::hypot(out.tokens.log_error, kOtherPairError);
    out.lender = y.pair;
  }
  return out;
}

}  // namespace versieve
