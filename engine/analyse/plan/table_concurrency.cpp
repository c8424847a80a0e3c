// A planner table's numbers of requests at a time, for people.
#include "engine/analyse/plan/table_file.h"
#include "engine/io/formatted.h"
#include "model/plan/concurrency.h"

namespace versieve::engine {
namespace {

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
  return out.substr(0, out.find_last_not_of(' ') + 1) + "\n";
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
    out += limits_text(*of, bucket, precision);
  }
  for (const SwitchPoint& s : t.switches) {
    if (s.bucket == bucket && s.precision == precision) {
      out += "  " + text_of(s, t) + "\n";
    }
  }
  const OperatingPoint point = operating_point(t, bucket, precision);
  if (t.itl_ms && point.entry != nullptr) {
    out += formatted("  most tokens/s within %g ms a token: %lld at a time, %.1f tok/s\n",
                     *t.itl_ms, static_cast<long long>(point.table->concurrency),
                     point.entry->evaluation.throughput);
  }
  return out;
}

}  // namespace

std::string concurrency_text(const PlanTable& t) {
  std::string out = t.batched.empty() ? "" : batch_text(t) + ".\n";
  if (t.itl_ms) {
    out +=
        formatted("Only tuples that keep %g ms a token for 90 %% of such requests.\n", *t.itl_ms);
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
