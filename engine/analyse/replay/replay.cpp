#include "engine/analyse/replay/replay.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "engine/analyse/replay/cell.h"
#include "model/plan/guarded_plan.h"

namespace versieve::engine {
namespace {

std::int64_t tokens_of(const std::vector<std::int64_t>& yields) {
  std::int64_t tokens = 0;
  for (const std::int64_t yield : yields) {
    tokens += yield;
  }
  return tokens;
}

std::vector<ReplayRequest> with_walks_of(const Walks& walks, const Strategy& strategy,
                                         const std::vector<ReplayRequest>& requests) {
  std::vector<ReplayRequest> out;
  std::copy_if(requests.begin(), requests.end(), std::back_inserter(out),
               [&](const ReplayRequest& request) { return !walks.of(request, strategy).empty(); });
  return out;
}

// Takes tuples that no text has a walk of out of what the guard may choose, and texts that lack one
// of those that stay, the best first. Returns how many tuples went. REQUIRES: texts that have walks
// of the first tuple.
std::int64_t leave_out_unrecorded(const Walks& walks, std::vector<ReplayRequest>& requests,
                                  Cell& cell) {
  std::vector<Strategy> missing;
  for (const Choice& choice : cell.ranked) {
    std::vector<ReplayRequest> with = with_walks_of(walks, choice.strategy, requests);
    if (with.empty()) {
      missing.push_back(choice.strategy);
    } else {
      requests = std::move(with);
    }
  }
  const auto is_missing = [&](const Choice& choice) {
    return std::find(missing.begin(), missing.end(), choice.strategy) != missing.end();
  };
  std::erase_if(cell.with_plain, is_missing);
  return static_cast<std::int64_t>(std::erase_if(cell.ranked, is_missing));
}

// Tokens that every policy generates: what all walks of the request reach.
std::int64_t token_limit(const Walks& walks, const ReplayRequest& request,
                         const std::vector<Choice>& choices, std::int64_t most) {
  std::int64_t limit = tokens_of(walks.of(request, choices.front().strategy));
  for (const Choice& choice : choices) {
    limit = std::min(limit, tokens_of(walks.of(request, choice.strategy)));
  }
  return most > 0 ? std::min(limit, most) : limit;
}

// Yield of the first recorded step that begins at `position` or later, so that after a change of
// tuple steps follow one another as they were recorded; past the last one, of that.
std::int64_t yield_at(const std::vector<std::int64_t>& yields, std::int64_t position) {
  std::int64_t begin = 0;
  for (const std::int64_t yield : yields) {
    if (begin >= position) {
      return yield;
    }
    begin += yield;
  }
  return yields.back();
}

struct Played {
  double microseconds = 0.0;
  std::int64_t transitions = 0;
  bool moved = false;
};

// `limit` tokens of one request. With one choice the guard has nowhere to go.
Played play(const Walks& walks, const ReplayRequest& request, const std::vector<Choice>& choices,
            std::int64_t limit, const GuardConstants& constants, GuardRule rule) {
  std::vector<GuardedTuple> ranked;
  for (const Choice& choice : choices) {
    ranked.push_back({choice.expected_accepted, choice.step_us});
  }
  RuntimeGuard guard(constants, rule, ranked);
  Played out;
  for (std::int64_t position = 0; position < limit;) {
    const Choice& active = choices[guard.active()];
    const std::int64_t yield = yield_at(walks.of(request, active.strategy), position);
    out.microseconds += active.step_us;
    position += yield;
    out.moved = guard.observe(static_cast<double>(yield), active.step_us) || out.moved;
  }
  out.transitions = guard.transitions();
  return out;
}

// Sums over the requests of a cell; times become throughputs at the end.
class RowSums {
 public:
  RowSums(const Cell& cell, const Walks& walks, const ReplayOptions& options,
          std::int64_t concurrency, const ReplayRow& row)
      : cell_(cell), walks_(walks), options_(options), concurrency_(concurrency), row_(row) {}

  void add(const ReplayRequest& request) {
    const std::int64_t limit = token_limit(walks_, request, cell_.needed(), options_.most_tokens);
    row_.requests += 1;
    row_.tokens += static_cast<double>(limit);
    row_.base += alone(request, *cell_.base, limit);
    row_.static_best += alone(request, cell_.ranked.front(), limit);
    row_.no_speculation += static_cast<double>(limit) * cell_.autoregressive->step_us;
    refine(request, cell_.ranked, limit, GuardRule::kNextRanked, row_.best_r);
    refine(request, cell_.with_plain, limit, GuardRule::kMostPromising, row_.best_p);
  }

  // As many requests as this one run beside it in each of its steps.
  ReplayRow finish() const {
    ReplayRow row = row_;
    const double tokens = row.tokens * static_cast<double>(concurrency_);
    for (double* value : {&row.base, &row.static_best, &row.no_speculation, &row.best_r.throughput,
                          &row.best_p.throughput}) {
      *value = 1e6 * tokens / *value;
    }
    return row;
  }

 private:
  double alone(const ReplayRequest& request, const Choice& choice, std::int64_t limit) const {
    return play(walks_, request, {choice}, limit, options_.guard, GuardRule::kNextRanked)
        .microseconds;
  }

  void refine(const ReplayRequest& request, const std::vector<Choice>& choices, std::int64_t limit,
              GuardRule rule, Refined& into) const {
    const Played played = play(walks_, request, choices, limit, options_.guard, rule);
    into.throughput += played.microseconds;
    into.transitions += played.transitions;
    into.moved += played.moved ? 1 : 0;
  }

  const Cell& cell_;
  const Walks& walks_;
  const ReplayOptions& options_;
  std::int64_t concurrency_;
  ReplayRow row_;
};

void add_refined(const Refined& row, double base, Refined& mean, double& gain) {
  mean.throughput += row.throughput;
  mean.transitions += row.transitions;
  mean.moved += row.moved;
  gain += row.throughput / base - 1.0;
}

void add_means(Replay& out) {
  if (out.rows.empty()) {
    return;
  }
  for (const ReplayRow& row : out.rows) {
    out.static_best_gain += row.static_best / row.base - 1.0;
    add_refined(row.best_r, row.base, out.best_r, out.best_r_gain);
    add_refined(row.best_p, row.base, out.best_p, out.best_p_gain);
  }
  const double rows = static_cast<double>(out.rows.size());
  for (double* value : {&out.static_best_gain, &out.best_r_gain, &out.best_p_gain,
                        &out.best_r.throughput, &out.best_p.throughput}) {
    *value /= rows;
  }
}

class Player {
 public:
  Player(const PlanTable& table, const Walks& walks, const ReplayOptions& options)
      : table_(table), walks_(walks), options_(options) {}

  Replay play_all() {
    for (std::size_t bucket = 0; bucket < table_.buckets.size(); ++bucket) {
      for (const PrecisionClass precision : table_.classes) {
        play_cell(static_cast<std::int64_t>(bucket), precision);
      }
    }
    add_means(out_);
    return out_;
  }

 private:
  void play_cell(std::int64_t bucket, PrecisionClass precision) {
    const Cell whole = cell_of(table_, bucket, precision);
    if (const std::string reason = unplayable_because(table_, bucket, precision, whole);
        !reason.empty()) {
      out_.gaps.push_back({bucket, precision, reason});
      return;
    }
    const ContextBucket& range = table_.buckets[static_cast<std::size_t>(bucket)];
    std::vector<ReplayRequest> requests =
        with_walks_of(walks_, whole.base->strategy, walks_.requests(range.low, range.high));
    const std::optional<std::vector<Strategy>> passed_over =
        ranked_before_playable(table_, bucket, precision, [&](const Strategy& strategy) {
          return !with_walks_of(walks_, strategy, requests).empty();
        });
    if (!passed_over) {
      out_.gaps.push_back({bucket, precision, unrecorded_because(bucket, precision, whole)});
      return;
    }
    Cell cell = cell_of(table_, bucket, precision, *passed_over);
    ReplayRow row{.bucket = bucket, .precision = precision, .passed_over = *passed_over};
    row.not_recorded = leave_out_unrecorded(walks_, requests, cell);
    add_planned(whole.ranked.front(), cell, row);
    RowSums sums(cell, walks_, options_, table_.concurrency, row);
    for (const ReplayRequest& request : requests) {
      sums.add(request);
    }
    out_.rows.push_back(sums.finish());
  }

  // REQUIRES: a cell that the table allows to play.
  std::string unrecorded_because(std::int64_t bucket, PrecisionClass precision,
                                 const Cell& cell) const {
    const ContextBucket& range = table_.buckets[static_cast<std::size_t>(bucket)];
    const std::vector<ReplayRequest> all = walks_.requests(range.low, range.high);
    const std::size_t ranks =
        whole_cell(table_, bucket, precision, GuardRule::kNextRanked).ranked.size();
    const std::string where = " is recorded at contexts of this bucket";
    if (with_walks_of(walks_, cell.base->strategy, all).empty()) {
      return "no walk of the baseline " + cell.base->strategy.text() + where;
    }
    return "no walk of " + cell.ranked.front().strategy.text() +
           (ranks > 1 ? ", nor of the " + std::to_string(ranks - 1) + " ranked behind it," : "") +
           where + " along a text that has one of the baseline";
  }

  void add_planned(const Choice& first, const Cell& cell, ReplayRow& row) const {
    const Choice& played = cell.ranked.front();
    for (const PlanEntry* entry : entries_of(table_, row.bucket, row.precision)) {
      if (entry->evaluation.strategy == played.strategy) {
        row.rank = entry->rank;
      }
    }
    row.planned_throughput = planned(played);
    row.planned_first_throughput = planned(first);
    for (const Choice& choice : cell.ranked) {
      row.choices.push_back(choice.strategy);
    }
  }

  // Of all requests at a time.
  double planned(const Choice& choice) const {
    return 1e6 * static_cast<double>(table_.concurrency) * choice.expected_accepted /
           choice.step_us;
  }

  const PlanTable& table_;
  const Walks& walks_;
  const ReplayOptions& options_;
  Replay out_;
};

}  // namespace

std::int64_t played_by_first(const Replay& replay) {
  return std::count_if(replay.rows.begin(), replay.rows.end(),
                       [](const ReplayRow& row) { return row.passed_over.empty(); });
}

std::string unplayable_because(const PlanTable& table) {
  return table.acceptance_origin == AcceptanceOrigin::kMeasured
             ? std::string()
             : "the plan counts on the tokens a step of '" + table.acceptance_pair + "' (" +
                   name_of(table.acceptance_origin) +
                   "), and only a measured pair has walks to play";
}

Replay replay(const PlanTable& table, const Walks& walks, const ReplayOptions& options) {
  return Player(table, walks, options).play_all();
}

}  // namespace versieve::engine
