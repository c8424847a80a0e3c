#include "engine/analyse/sim/measured_choice.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/measure/sweep/synthetic_draft.h"
#include "engine/measure/sweep/synthetic_random.h"

namespace versieve::engine {
namespace {

constexpr std::uint64_t kRunStream = 7;  // of the seed
constexpr double kSameShare = 1e-9;      // of p

std::int64_t runs_of(std::int64_t context_len) {
  return (context_len + kTokensTogether - 1) / kTokensTogether;
}

}  // namespace

MeasuredChoice::MeasuredChoice(const std::vector<PointMeasurement>& points) {
  for (const PointMeasurement& point : points) {
    if (point.key.workload != WorkloadKind::kAcceptance || point.status != PointStatus::kOk ||
        !point.unique_blocks) {
      continue;
    }
    const Strategy strategy = Strategy::parse(point.key.strategy);
    if (strategy.attention == AttentionMethod::kSpecAttn) {
      const double runs = static_cast<double>(runs_of(point.key.context_len));
      chosen_.push_back({.p = strategy.specattn_p,
                         .levels = strategy.draft.levels(),
                         .context_len = point.key.context_len,
                         .share = std::min(1.0, *point.unique_blocks / runs)});
    }
  }
}

std::optional<double> MeasuredChoice::share(const Strategy& strategy,
                                            std::int64_t context_len) const {
  const auto apart = [context_len](const Chosen& c) {
    return std::abs(std::log(static_cast<double>(c.context_len) /
                             static_cast<double>(std::max<std::int64_t>(1, context_len))));
  };
  double nearest = INFINITY, sum = 0.0, count = 0.0;
  for (const Chosen& c : chosen_) {
    if (std::abs(c.p - strategy.specattn_p) > kSameShare || c.levels != strategy.draft.levels() ||
        apart(c) > nearest) {
      continue;
    }
    if (apart(c) < nearest) {
      nearest = apart(c);
      sum = count = 0.0;
    }
    sum += c.share;
    count += 1.0;
  }
  return count > 0.0 ? std::optional(sum / count) : std::nullopt;
}

std::vector<std::int32_t> tokens_of_share(double share, std::int64_t context_len,
                                          std::uint64_t seed) {
  SyntheticRandom random(seed + kRunStream);
  std::vector<std::int32_t> runs(static_cast<std::size_t>(runs_of(context_len)));
  std::iota(runs.begin(), runs.end(), 0);
  const std::size_t kept = static_cast<std::size_t>(
      std::clamp<std::int64_t>(std::llround(share * static_cast<double>(runs.size())), 1,
                               static_cast<std::int64_t>(runs.size())));
  for (std::size_t i = 0; i < kept; ++i) {
    std::swap(runs[i], runs[i + static_cast<std::size_t>(
                                    random.below(static_cast<std::int64_t>(runs.size() - i)))]);
  }
  std::sort(runs.begin(), runs.begin() + static_cast<std::ptrdiff_t>(kept));
  std::vector<std::int32_t> tokens;
  for (std::size_t i = 0; i < kept; ++i) {
    const std::int64_t first = runs[i] * kTokensTogether;
    for (std::int64_t t = first; t < std::min(context_len, first + kTokensTogether); ++t) {
      tokens.push_back(static_cast<std::int32_t>(t));
    }
  }
  return tokens;
}

}  // namespace versieve::engine
