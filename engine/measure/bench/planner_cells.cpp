#include "engine/measure/bench/planner_cells.h"

#include <algorithm>

#include "model/words/assert.h"

namespace versieve::engine {
namespace {

const PlanBaseline* baseline_of(const PlanTable& table, std::int64_t bucket, const char* role) {
  for (const PlanBaseline& b : table.baselines) {
    if (b.bucket == bucket && b.role == role) {
      return &b;
    }
  }
  return nullptr;
}

// Why the table alone forbids playing a cell, or an empty text.
std::string lacking_because(const PlanTable& table, std::int64_t bucket, PrecisionClass precision) {
  if (entries_of(table, bucket, precision).empty()) {
    for (const UnavailableCell& u : table.unavailable) {
      if (u.bucket == bucket && u.precision == precision) {
        return u.reason;
      }
    }
    return "the table ranks no tuple";
  }
  return coarsened_base(table, bucket) && baseline_of(table, bucket, "autoregressive") != nullptr
             ? ""
             : "the table lacks its baselines";
}

// To which no step is low.
GuardConstants staying(GuardConstants constants) {
  constants.drop_ratio = 0.0;
  return constants;
}

bool same_tuples(const PlayedRun& a, const PlayedRun& b) {
  return std::equal(a.plan.buckets.begin(), a.plan.buckets.end(), b.plan.buckets.begin(),
                    b.plan.buckets.end(), [](const GuardedBucket& x, const GuardedBucket& y) {
                      return x.range == y.range && x.ranked == y.ranked;
                    });
}

class BucketMaker {
 public:
  BucketMaker(const PlanTable& table, const CellRequest& request, const RefusalOf& refusal)
      : table_(table), request_(request), refusal_(refusal) {
    out_.index = request.bucket;
    out_.range = table.buckets[static_cast<std::size_t>(request.bucket)];
    for (std::int64_t b = request.bucket; b < static_cast<std::int64_t>(table.buckets.size());
         ++b) {
      if (b == request.bucket || range_of(b).low < request.longest) {
        reached_.push_back(b);
      }
    }
  }

  void add(PrecisionClass precision) {
    PlayedCell cell{.precision = precision,
                    .unplayed_because = lacking_because(table_, request_.bucket, precision)};
    if (cell.unplayed_because.empty()) {
      const std::size_t known = out_.runs.size();
      fill(cell);
      if (const std::string reason = refused_because(known); !reason.empty()) {
        out_.runs.erase(out_.runs.begin() + static_cast<std::ptrdiff_t>(known), out_.runs.end());
        cell = {.precision = precision, .unplayed_because = reason};
      }
    }
    out_.cells.push_back(std::move(cell));
  }

  PlayedBucket take() { return std::move(out_); }

 private:
  const ContextBucket& range_of(std::int64_t bucket) const {
    return table_.buckets[static_cast<std::size_t>(bucket)];
  }

  // Of the runs from that one on; those before play.
  std::string refused_because(std::size_t first_run) const {
    for (std::size_t i = first_run; i < out_.runs.size(); ++i) {
      for (const Strategy& strategy : out_.runs[i].tuples()) {
        const std::string reason = refusal_(strategy);
        if (!reason.empty()) {
          return "'" + strategy.text() + "': " + reason;
        }
      }
    }
    return {};
  }

  void fill(PlayedCell& cell) {
    cell.plain = alone([this](std::int64_t bucket) -> std::optional<Strategy> {
      const PlanBaseline* const plain = baseline_of(table_, bucket, "autoregressive");
      return plain == nullptr ? std::nullopt : std::optional(plain->evaluation.strategy);
    });
    cell.base = alone([this](std::int64_t bucket) { return coarsened_base(table_, bucket); });
    cell.base_single = alone([this](std::int64_t bucket) { return single_base(table_, bucket); });
    const std::size_t first = std::min(entries_of(table_, request_.bucket, cell.precision).size(),
                                       static_cast<std::size_t>(request_.candidates));
    for (std::size_t rank = 0; rank < first; ++rank) {
      cell.first.push_back(alone([&](std::int64_t b) { return ranked(b, cell.precision, rank); }));
    }
    cell.best_r = guarded(cell.precision, GuardRule::kNextRanked, table_.guard);
    cell.best_p = guarded(cell.precision, GuardRule::kMostPromising, table_.guard);
    for (const VariedGuard& setting : request_.settings) {
      cell.settings_r.push_back(guarded(cell.precision, GuardRule::kNextRanked, setting.constants));
      cell.settings_p.push_back(
          guarded(cell.precision, GuardRule::kMostPromising, setting.constants));
    }
    cell.never_moving = never_moving(out_.runs[cell.first.front()].first());
  }

  // The tuple of that rank, from 0, or the last one.
  std::optional<Strategy> ranked(std::int64_t bucket, PrecisionClass precision,
                                 std::size_t rank) const {
    const std::vector<const PlanEntry*> entries = entries_of(table_, bucket, precision);
    return entries.empty()
               ? std::nullopt
               : std::optional(entries[std::min(rank, entries.size() - 1)]->evaluation.strategy);
  }

  // `tuple_in(bucket)`: none: that of the bucket before goes on.
  template <class TupleIn>
  std::size_t alone(TupleIn tuple_in) {
    PlayedRun run{.plan = {.constants = staying(table_.guard), .rule = GuardRule::kNextRanked}};
    for (const std::int64_t bucket : reached_) {
      const std::optional<Strategy> tuple = tuple_in(bucket);
      std::vector<GuardedBucket>& buckets = run.plan.buckets;
      if (tuple && (buckets.empty() || !(buckets.back().ranked.front() == *tuple))) {
        buckets.push_back({.range = range_of(bucket), .ranked = {*tuple}, .expected = {{}}});
      }
    }
    for (std::size_t i = 0; i < out_.runs.size(); ++i) {
      if (!out_.runs[i].is_guarded && same_tuples(out_.runs[i], run)) {
        return i;
      }
    }
    return added(std::move(run));
  }

  std::size_t guarded(PrecisionClass precision, GuardRule rule, const GuardConstants& constants) {
    PlayedRun run{.plan = {.precision = precision, .constants = constants, .rule = rule},
                  .is_guarded = true};
    for (const std::int64_t bucket : reached_) {
      GuardedBucket tuples = guarded_bucket(table_, bucket, precision, rule);
      if (!tuples.ranked.empty()) {
        run.plan.buckets.push_back(std::move(tuples));
      }
    }
    return added(std::move(run));
  }

  // That tuple under a guard that stays, and in no further bucket. Plain decoding under a guard
  // also feeds the draft, which is no guard's overhead.
  std::optional<std::size_t> never_moving(const Strategy& strategy) {
    if (!strategy.draft.speculates()) {
      return {};
    }
    PlayedRun run{
        .plan = {.constants = staying(table_.guard),
                 .rule = GuardRule::kNextRanked,
                 .buckets = {{.range = out_.range, .ranked = {strategy}, .expected = {{}}}}},
        .is_guarded = true};
    for (std::size_t i = 0; i < out_.runs.size(); ++i) {
      if (out_.runs[i].is_guarded && out_.runs[i].plan.constants.drop_ratio == 0.0 &&
          same_tuples(out_.runs[i], run)) {
        return i;
      }
    }
    return added(std::move(run));
  }

  std::size_t added(PlayedRun run) {
    out_.runs.push_back(std::move(run));
    return out_.runs.size() - 1;
  }

  const PlanTable& table_;
  const CellRequest& request_;
  const RefusalOf& refusal_;
  std::vector<std::int64_t> reached_;  // buckets, the own first
  PlayedBucket out_;
};

}  // namespace

const char* name_of(Contender contender) {
  switch (contender) {
    case Contender::kPlain:
      return "plain";
    case Contender::kBase:
      return "base";
    case Contender::kBaseSingle:
      return "base c1";
    case Contender::kStatic:
      return "static";
    case Contender::kBestR:
      return "best+R";
    case Contender::kBestP:
      return "best+P";
    case Contender::kOracle:
      return "oracle";
  }
  VERSIEVE_ASSERT(false, "a contender has a name");
}

bool PlayedBucket::is_played() const {
  return std::any_of(cells.begin(), cells.end(),
                     [](const PlayedCell& cell) { return cell.unplayed_because.empty(); });
}

std::vector<Strategy> PlayedRun::tuples() const {
  std::vector<Strategy> out;
  for (const GuardedBucket& bucket : plan.buckets) {
    out.insert(out.end(), bucket.ranked.begin(), bucket.ranked.end());
  }
  return out;
}

PlayedBucket played_bucket(const PlanTable& table, const std::vector<PrecisionClass>& classes,
                           const CellRequest& request, const RefusalOf& refusal) {
  VERSIEVE_ASSERT(request.candidates >= 1, "a cell's first tuple is always played");
  BucketMaker maker(table, request, refusal);
  for (const PrecisionClass precision : classes) {
    maker.add(precision);
  }
  return maker.take();
}

std::optional<Strategy> coarsened_base(const PlanTable& table, std::int64_t bucket) {
  const PlanBaseline* const fixed = baseline_of(table, bucket, "fixed");
  if (fixed == nullptr) {
    return {};
  }
  Strategy strategy = fixed->evaluation.strategy;
  if (strategy.group_size == 1 && strategy.draft.speculates()) {
    strategy.group_size = kBaseGroup;
    strategy.group_mode = GroupMode::kExact;
  }
  return strategy;
}

std::optional<Strategy> single_base(const PlanTable& table, std::int64_t bucket) {
  std::optional<Strategy> strategy = coarsened_base(table, bucket);
  if (strategy) {
    strategy->group_size = 1;
    strategy->group_mode = GroupMode::kExact;
  }
  return strategy;
}

const Evaluation* prediction_of(const PlanTable& table, std::int64_t bucket,
                                const Strategy& strategy) {
  for (const PlanEntry& e : table.entries) {
    if (e.bucket == bucket && e.evaluation.strategy == strategy) {
      return &e.evaluation;
    }
  }
  for (const PlanBaseline& b : table.baselines) {
    if (b.bucket == bucket && b.evaluation.strategy == strategy) {
      return &b.evaluation;
    }
  }
  return nullptr;
}

}  // namespace versieve::engine
