#include "model/plan/concurrency.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "model/cost/batch_error.h"
#include "model/words/error.h"
#include "model/words/formatted.h"
#include "model/words/normal_law.h"

namespace versieve {
namespace {

[[noreturn]] void refuse_concurrency(const std::string& text) {
  throw Error(ExitCode::kUsage, "--concurrency takes numbers of requests at a time from 1 to " +
                                    std::to_string(kMostConcurrency) +
                                    " in ascending order, as 1,4,16,64, not '" + text + "'");
}

double log_spread(const Interval& interval) {
  return std::log(interval.high / interval.low) / (2.0 * kNinety);
}

}  // namespace

std::vector<std::int64_t> parse_concurrency(const std::string& text) {
  std::vector<std::int64_t> out = {1};
  const char* at = text.data();
  const char* const end = at + text.size();
  bool is_first = true;
  for (;;) {
    std::int64_t value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    const bool ascends = value > out.back() || (is_first && value == 1);
    if (error != std::errc() || *at == '0' || !ascends || value > kMostConcurrency) {
      refuse_concurrency(text);
    }
    if (value > 1) {
      out.push_back(value);
    }
    is_first = false;
    if (next == end) {
      return out;
    }
    if (*next != ',') {
      refuse_concurrency(text);
    }
    at = next + 1;
    if (at == end) {
      refuse_concurrency(text);
    }
  }
}

Speculation speculation_of(const Evaluation& tuple, const Evaluation& plain) {
  Speculation out;
  if (tuple.strategy == plain.strategy) {
    return out;
  }
  out.break_even = tuple.cost->time_us / plain.cost->time_us;
  const double of_times =
      std::hypot(log_spread(tuple.latency_interval_us), log_spread(plain.latency_interval_us));
  out.break_even_interval = around(out.break_even, kNinety * of_times);
  if (tuple.strategy.precision() == PrecisionClass::kStrict) {
    out.break_even_interval.low =
        std::min(out.break_even, std::max(1.0, out.break_even_interval.low));
  }
  const double spread =
      std::hypot(log_spread(compared_interval(tuple)), log_spread(compared_interval(plain)));
  const double gap = std::log(tuple.throughput / plain.throughput);
  out.loses = spread > 0.0 ? 0.5 * std::erfc(gap / (spread * std::sqrt(2.0)))
                           : (gap < 0.0 ? 1.0 : (gap > 0.0 ? 0.0 : 0.5));
  return out;
}

double request_throughput(const Evaluation& tuple, std::int64_t concurrency) {
  return tuple.throughput / static_cast<double>(concurrency);
}

double inter_token_ms(const Evaluation& tuple, std::int64_t concurrency) {
  return 1e3 / request_throughput(tuple, concurrency);
}

Interval inter_token_interval_ms(const Evaluation& tuple, std::int64_t concurrency) {
  const double ms = 1e3 * static_cast<double>(concurrency);
  return {ms / tuple.throughput_interval.high, ms / tuple.throughput_interval.low};
}

bool keeps_bounds(const PlanAims& aims, const Evaluation& tuple, std::int64_t concurrency,
                  std::int64_t tokens) {
  return (!aims.itl_ms || inter_token_interval_ms(tuple, concurrency).high <= *aims.itl_ms) &&
         (!aims.ttft_ms ||
          first_token(*aims.prompts, tuple, concurrency, tokens).interval.high <= *aims.ttft_ms);
}

std::vector<const PlanTable*> by_concurrency(const PlanTable& table) {
  std::vector<const PlanTable*> out = {&table};
  for (const PlanTable& batch : table.batched) {
    out.push_back(&batch);
  }
  return out;
}

const PlanTable& table_of(const PlanTable& table, std::int64_t requests) {
  std::string known;
  for (const PlanTable* of : by_concurrency(table)) {
    if (of->concurrency == requests) {
      return *of;
    }
    known += (known.empty() ? "" : ", ") + std::to_string(of->concurrency);
  }
  throw Error(ExitCode::kUsage, "the table is of " + known + " requests at a time, not of " +
                                    std::to_string(requests) + " (plan --concurrency)");
}

bool has_concurrency(const PlanTable& table) {
  return !table.batched.empty() || table.concurrency > 1 || table.aims.bounds() ||
         table.aims.prompts.has_value() || table.aims.objective != Objective::kTokens;
}

std::string kept_by_none_text(const PlanTable& table) {
  const std::vector<const PlanTable*> all = by_concurrency(table);
  const PlanAims& aims = table.aims;
  if (!aims.bounds() || std::any_of(all.begin(), all.end(),
                                    [](const PlanTable* of) { return !of->entries.empty(); })) {
    return {};
  }
  const std::string which = aims.itl_ms
                                ? formatted("%g ms between tokens", *aims.itl_ms)
                                : formatted("%g ms to the first token", *aims.ttft_ms);
  return "no tuple keeps " + which +
         (aims.itl_ms && aims.ttft_ms ? formatted(" and %g to the first", *aims.ttft_ms) : "") +
         ", in no range of contexts and number of requests";
}

std::int64_t schema_of(const PlanTable& table) {
  return has_concurrency(table) ? PlanTable::kConcurrencySchema : PlanTable::kSchema;
}

const Evaluation* plain_of(const PlanTable& table, std::int64_t bucket) {
  for (const PlanBaseline& b : table.baselines) {
    if (b.bucket == bucket && b.role == "autoregressive") {
      return &b.evaluation;
    }
  }
  return nullptr;
}

const PlanEntry* best_of(const PlanTable& table, std::int64_t bucket, PrecisionClass precision) {
  const std::vector<const PlanEntry*> entries = entries_of(table, bucket, precision);
  return entries.empty() ? nullptr : entries.front();
}

OperatingPoint operating_point(const PlanTable& table, std::int64_t bucket,
                               PrecisionClass precision) {
  OperatingPoint out;
  for (const PlanTable* of : by_concurrency(table)) {
    const PlanEntry* best = best_of(*of, bucket, precision);
    const auto yield = [&table](const PlanEntry& e) {
      return yield_of(table.aims.objective, table.energy, e.evaluation);
    };
    if (best != nullptr && (out.entry == nullptr || yield(*best) > yield(*out.entry))) {
      out = {of, best};
    }
  }
  return out;
}

DraftKind draft_kind_of(const Strategy& s) {
  return !s.draft.speculates() ? DraftKind::kPlain
                               : (s.draft.width > 1 ? DraftKind::kTree : DraftKind::kChain);
}

const char* name_of(DraftKind kind) {
  switch (kind) {
    case DraftKind::kTree:
      return "tree";
    case DraftKind::kChain:
      return "chain";
    case DraftKind::kPlain:
      break;
  }
  return "plain decoding";
}

std::string text_of(const SwitchPoint& point, const PlanTable& table) {
  const auto side = [](const Strategy& s) {
    const std::string kind = name_of(draft_kind_of(s));
    return s.draft.speculates() ? kind + " " + s.text() : kind;
  };
  const std::int64_t most = by_concurrency(table).back()->concurrency;
  return side(point.from) + " to " + side(point.to) + " at " + std::to_string(point.requests) +
         (point.requests == 1 ? " request [" : " requests [") + std::to_string(point.low) + ", " +
         (point.high > 0 ? std::to_string(point.high) : "more than " + std::to_string(most)) + "]";
}

std::string batch_text(const FittedModel& fit, AttentionKind target, const HardwareSpec& hardware) {
  const BatchFit& batch = fit.batch;
  if (!batch.measured(target)) {
    return formatted(
        "No step of several requests was measured: their times are the cost model's, with a "
        "standard error of %.2f in log more for each doubling of the requests and %.2f for "
        "each doubling of their nodes beyond the largest measured step (assumptions); each "
        "layer's attention is taken as one launch over all requests",
        kRequestsLogError, kRowsLogError);
  }
  const double carried = fit.carried_batch_half_width(hardware);
  const std::string elsewhere =
      carried > 0.0 ? formatted(
                          "; none was timed on this machine, so their intervals reach %.0f %% "
                          "further",
                          100.0 * std::expm1(carried))
                    : "";
  return formatted(
      "Steps of several requests are as %lld measured ones of this engine, %s: 90 %% of those "
      "whose number of requests the fit had not seen lay within %.1f %%%s; beyond %lld requests or "
      "%lld nodes in all a standard error of %.2f in log comes on top for each doubling (an "
      "assumption); those of %sReSA, SpecAttn and an indexer were not measured and stay as of "
      "recorded steps, each layer's attention one launch over all requests (assumptions; ReSA took "
      "less where it was timed). Groups of queries had "
      "%.2f of their neighbours' blocks in common there, or more: of tuples whose groups share "
      "more than any did there, and where nobody measured what they share, a standard error comes "
      "on top that grows with the requests (an assumption)",
      static_cast<long long>(batch.points),
      batch.launch == LaunchMode::kGraph ? "recorded" : "as its sessions run them",
      100.0 * std::expm1(batch.log_latency), elsewhere.c_str(),
      static_cast<long long>(batch.most_requests), static_cast<long long>(batch.most_rows),
      kRowsLogError, batch.dense_points == 0 ? "dense targets, " : "", batch.least_overlap);
}

std::string batch_text(const PlanTable& table) {
  if (table.batched.empty()) {
    return {};
  }
  return table.several_requests.empty()
             ? batch_text(FittedModel{}, AttentionKind::kNsa, HardwareSpec{})
             : table.several_requests;
}

}  // namespace versieve
