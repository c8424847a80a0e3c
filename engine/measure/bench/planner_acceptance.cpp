#include "engine/measure/bench/planner_acceptance.h"

#include <algorithm>
#include <memory>

#include "engine/measure/bench/planner_cells.h"
#include "engine/run/model/uniform.h"
#include "model/cost/acceptance.h"

namespace versieve::engine {
namespace {

bool accepts_the_same(const Strategy& a, const Strategy& b) {
  const std::int64_t group = approximate_group(a);
  return a.attention == b.attention && a.draft == b.draft && a.schedule == b.schedule &&
         a.sampling == b.sampling && group == approximate_group(b) &&
         (group == 1 || a.order == b.order);
}

std::optional<double> expected_from(const PlanTable& table, std::int64_t bucket,
                                    const Strategy& strategy) {
  std::optional<double> expected;
  for (; !expected && bucket < static_cast<std::int64_t>(table.buckets.size()); ++bucket) {
    expected = expected_tokens(table, bucket, strategy);
  }
  return expected;
}

}  // namespace

std::optional<double> expected_tokens(const PlanTable& table, std::int64_t bucket,
                                      const Strategy& strategy) {
  if (const Evaluation* const told = prediction_of(table, bucket, strategy)) {
    return told->expected_accepted;
  }
  for (const PlanEntry& e : table.entries) {
    if (e.bucket == bucket && accepts_the_same(e.evaluation.strategy, strategy)) {
      return e.evaluation.expected_accepted;
    }
  }
  for (const PlanBaseline& b : table.baselines) {
    if (b.bucket == bucket && accepts_the_same(b.evaluation.strategy, strategy)) {
      return b.evaluation.expected_accepted;
    }
  }
  return {};
}

SyntheticPlay law_play(const PlanTable& table, std::uint64_t seed) {
  SyntheticPlay play{.from = AcceptanceFrom::kLaw,
                     .source = "the table's tokens a step, " + acceptance_text(table) + ", seed " +
                               std::to_string(seed)};
  play.texts = [kept = std::make_shared<const PlanTable>(table), seed](const ContextBucket& range,
                                                                       std::int64_t count) {
    const std::int64_t bucket =
        std::find(kept->buckets.begin(), kept->buckets.end(), range) - kept->buckets.begin();
    const ExpectedOf expected_of = [kept, bucket](const Strategy& strategy) {
      return expected_from(*kept, bucket, strategy);
    };
    std::vector<SyntheticText> out;
    for (std::int64_t i = 0; i < count; ++i) {
      out.push_back({.name = "text " + std::to_string(i),
                     .context_len = sampled_context(range, i % kBucketSamples),
                     .acceptance = law_acceptance(expected_of,
                                                  mix_bits(seed + static_cast<std::uint64_t>(i)))});
    }
    return out;
  };
  return play;
}

}  // namespace versieve::engine
