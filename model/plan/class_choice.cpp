#include "model/plan/class_choice.h"

#include <algorithm>

#include "model/words/assert.h"
#include "model/words/formatted.h"

namespace versieve {

ClassChoice class_choice(const PlanTable& table, std::int64_t bucket, PrecisionClass precision) {
  const std::vector<const PlanEntry*> entries = entries_of(table, bucket, precision);
  const auto own = std::find_if(entries.begin(), entries.end(),
                                [](const PlanEntry* entry) { return entry->baseline.empty(); });
  if (own == entries.end()) {
    return {.best = entries.empty() ? nullptr : entries.front()};
  }
  return {.best = *own, .ahead = own == entries.begin() ? nullptr : entries.front()};
}

std::string below_text(const PlanEntry& baseline) {
  VERSIEVE_ASSERT(!baseline.baseline.empty(), "a baseline's entry says which of them it is");
  return formatted("below the %s baseline, %.0f tokens/s", baseline.baseline.c_str(),
                   baseline.evaluation.throughput);
}

std::string own_text(const ClassChoice& choice) {
  return "the best of its own is " + below_text(*choice.ahead) + ": " +
         choice.best->evaluation.strategy.text() +
         formatted(", %.0f tokens/s", choice.best->evaluation.throughput);
}

}  // namespace versieve
