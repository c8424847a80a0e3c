#include "engine/analyse/plan/entry_aims.h"

#include "engine/io/formatted.h"

namespace versieve::engine {

std::array<std::optional<double>, 7> EntryAims::numbers() const {
  std::array<std::optional<double>, 7> out;
  if (first) {
    out[0] = first->ms;
    out[1] = first->interval.low;
    out[2] = first->interval.high;
  }
  if (energy) {
    out[3] = energy->tokens_per_joule;
    out[4] = energy->interval.low;
    out[5] = energy->interval.high;
    out[6] = energy->watts;
  }
  return out;
}

EntryAims aims_of(const PlanTable& table, const PlanEntry& entry) {
  EntryAims out;
  if (table.aims.prompts) {
    const std::int64_t tokens = table.buckets[static_cast<std::size_t>(entry.bucket)].high;
    out.first = first_token(*table.aims.prompts, entry.evaluation, table.concurrency, tokens);
  }
  if (table.energy.sampled()) {
    out.energy = energy_yield(table.energy, entry.evaluation, table.concurrency);
  }
  return out;
}

const char* objective_of(const PlanAims& aims) {
  return aims.objective == Objective::kTokens && aims.bounds() ? "latency"
                                                               : name_of(aims.objective);
}

std::string within_text(const PlanAims& aims) {
  std::string out;
  if (aims.itl_ms) {
    out = formatted(" within %g ms a token", *aims.itl_ms);
  }
  if (aims.ttft_ms) {
    out += (out.empty() ? " within " : " and ") + formatted("%g ms to the first", *aims.ttft_ms);
  }
  return out;
}

}  // namespace versieve::engine
