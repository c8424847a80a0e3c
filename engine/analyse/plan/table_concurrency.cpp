// A planner table's numbers of requests at a time, for people.
#include <cmath>

#include "engine/analyse/plan/entry_aims.h"
#include "engine/analyse/plan/prefill_file.h"
#include "engine/analyse/plan/table_file.h"
#include "engine/io/formatted.h"
#include "model/plan/class_choice.h"
#include "model/plan/concurrency.h"
#include "model/words/normal_law.h"
#include "model/words/range_text.h"

namespace versieve::engine {
namespace {

std::string aims_text(const PlanTable& t, const PlanEntry& e) {
  const EntryAims aims = aims_of(t, e);
  std::string out;
  if (aims.first) {
    out += formatted("  first token in %.0f ms [%.0f, %.0f]", aims.first->ms,
                     aims.first->interval.low, aims.first->interval.high);
  }
  if (aims.energy) {
    out += formatted("  %.1f tokens/J [%.1f, %.1f]", aims.energy->tokens_per_joule,
                     aims.energy->interval.low, aims.energy->interval.high);
  }
  return out;
}

std::string best_line(const PlanTable& t, const PlanEntry& e) {
  const Evaluation& v = e.evaluation;
  std::string even = formatted("%30s", "");
  if (const Evaluation* plain = plain_of(t, e.bucket);
      plain != nullptr && v.strategy.draft.speculates()) {
    const Speculation s = speculation_of(v, *plain);
    even = formatted("  even at %5.2f [%.2f, %.2f], loses p %.2f", s.break_even,
                     s.break_even_interval.low, s.break_even_interval.high, s.loses);
  }
  const std::string out =
      formatted(
          "  %4lld at a time  %-28s %9.1f tok/s [%.1f, %.1f]  %8.1f each  %7.3f ms a token  "
          "%5.2f tokens a step  %.2fx ar",
          static_cast<long long>(t.concurrency), v.strategy.text().c_str(), v.throughput,
          v.throughput_interval.low, v.throughput_interval.high,
          request_throughput(v, t.concurrency), inter_token_ms(v, t.concurrency),
          v.expected_accepted, e.gain_over_ar) +
      even;
  return out.substr(0, out.find_last_not_of(' ') + 1) + aims_text(t, e) + "\n";
}

std::string limits_text(const PlanTable& t, std::int64_t bucket, PrecisionClass precision) {
  std::string out;
  for (const UnavailableCell& u : t.unavailable) {
    if (u.bucket == bucket && u.precision == precision) {
      out +=
          formatted("  %4lld at a time  ", static_cast<long long>(t.concurrency)) + u.reason + "\n";
    }
  }
  return out;
}

std::string cell_text(const PlanTable& t, std::int64_t bucket, PrecisionClass precision) {
  const ContextBucket& range = t.buckets[static_cast<std::size_t>(bucket)];
  std::string out = name_of(range) + " tokens, " + name_of(precision) + ", by requests at a time\n";
  for (const PlanTable* of : by_concurrency(t)) {
    if (const PlanEntry* best = best_of(*of, bucket, precision)) {
      out += best_line(*of, *best);
    }
    if (const ClassChoice choice = class_choice(*of, bucket, precision); choice.ahead != nullptr) {
      out += "                  " + own_text(choice) + "\n";
    }
    out += limits_text(*of, bucket, precision);
  }
  for (const SwitchPoint& s : t.switches) {
    if (s.bucket == bucket && s.precision == precision) {
      out += "  " + text_of(s, t) + "\n";
    }
  }
  const OperatingPoint point = operating_point(t, bucket, precision);
  const bool energy = t.aims.objective == Objective::kEnergy;
  if ((t.aims.bounds() || energy) && point.entry != nullptr) {
    const Evaluation& best = point.entry->evaluation;
    out +=
        std::string("  most tokens ") + (energy ? "a joule" : "a second") + within_text(t.aims) +
        formatted(": %lld at a time, %.1f tok/s", static_cast<long long>(point.table->concurrency),
                  best.throughput) +
        (energy ? formatted(", %.1f tokens/J",
                            energy_yield(t.energy, best, point.table->concurrency).tokens_per_joule)
                : "") +
        "\n";
  }
  return out;
}

}  // namespace

std::string concurrency_text(const PlanTable& t) {
  std::string out = t.batched.empty() ? "" : batch_text(t) + ".\n";
  if (t.aims.bounds()) {
    out += "Only tuples that 90 % of such requests see" + within_text(t.aims) + ".\n";
  }
  if (t.aims.prompts) {
    const PromptTimes& p = *t.aims.prompts;
    out += formatted(
        "A first token's time is of a prompt of a range's longest context, %lld tokens a forward, "
        "as %s took %s tokens of %s, and of the others' steps between; waiting for a place is not "
        "in it.\n",
        static_cast<long long>(p.rows), origin_text(p).c_str(),
        range_text(std::to_string(p.points.front().tokens), std::to_string(p.points.back().tokens))
            .c_str(),
        p.geometry.c_str());
    out += p.warning.empty() ? "" : "Warning: " + p.warning + ".\n";
  }
  if (t.energy.sampled()) {
    out += formatted(
        "Energy by a law fitted to %lld sampled steps of up to %lld requests: %.0f W, %.0f pJ a "
        "byte of DRAM, %.2f pJ an operation; a step's is known within %.1f %% (90 %%), and %.2f in "
        "log "
        "less surely for each doubling of the requests beyond (an assumption).\n",
        static_cast<long long>(t.energy.points), static_cast<long long>(t.energy.most_requests),
        t.energy.watts, 1e12 * t.energy.joules_per_byte, 1e12 * t.energy.joules_per_flop,
        100.0 * std::expm1(kNinety * t.energy.log_error), kEnergyRequestsError);
  }
  for (std::size_t b = 0; b < t.buckets.size(); ++b) {
    if (b < t.memory.size()) {
      out += "\nMemory: " + text_of(t.memory[b], t.buckets[b].high) + ".\n";
    }
    for (const PrecisionClass precision : t.classes) {
      out += cell_text(t, static_cast<std::int64_t>(b), precision);
    }
  }
  return out;
}

}  // namespace versieve::engine
