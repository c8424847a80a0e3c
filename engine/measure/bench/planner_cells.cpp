#include "engine/measure/bench/planner_cells.h"

#include <algorithm>

#include "model/plan/guarded_plan.h"
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

class BucketMaker {
 public:
  BucketMaker(const PlanTable& table, std::int64_t bucket, std::int64_t candidates,
              const RefusalOf& refusal, const std::vector<VariedGuard>& settings)
      : table_(table),
        bucket_(bucket),
        candidates_(candidates),
        refusal_(refusal),
        settings_(settings) {
    out_.index = bucket;
    out_.range = table.buckets[static_cast<std::size_t>(bucket)];
  }

  void add(PrecisionClass precision) {
    PlayedCell cell{.precision = precision,
                    .unplayed_because = lacking_because(table_, bucket_, precision)};
    if (cell.unplayed_because.empty()) {
      cell.unplayed_because = refused_because(precision);
    }
    if (cell.unplayed_because.empty()) {
      fill(cell);
    }
    out_.cells.push_back(std::move(cell));
  }

  PlayedBucket take() { return std::move(out_); }

 private:
  std::vector<Strategy> first_tuples(PrecisionClass precision) const {
    std::vector<Strategy> out;
    for (const PlanEntry* e : entries_of(table_, bucket_, precision)) {
      if (static_cast<std::int64_t>(out.size()) < candidates_) {
        out.push_back(e->evaluation.strategy);
      }
    }
    return out;
  }

  std::string refused_because(PrecisionClass precision) const {
    std::vector<Strategy> all = first_tuples(precision);
    const std::vector<Strategy> guarded =
        guarded_bucket(table_, bucket_, precision, GuardRule::kMostPromising).ranked;
    all.insert(all.end(), guarded.begin(), guarded.end());
    all.push_back(baseline_of(table_, bucket_, "autoregressive")->evaluation.strategy);
    all.push_back(*coarsened_base(table_, bucket_));
    for (const Strategy& strategy : all) {
      const std::string reason = refusal_(strategy);
      if (!reason.empty()) {
        return "'" + strategy.text() + "': " + reason;
      }
    }
    return {};
  }

  void fill(PlayedCell& cell) {
    cell.plain = alone(baseline_of(table_, bucket_, "autoregressive")->evaluation.strategy);
    cell.base = alone(*coarsened_base(table_, bucket_));
    cell.base_single = alone(*single_base(table_, bucket_));
    for (const Strategy& strategy : first_tuples(cell.precision)) {
      cell.first.push_back(alone(strategy));
    }
    cell.best_r = guarded(cell.precision, GuardRule::kNextRanked, table_.guard);
    cell.best_p = guarded(cell.precision, GuardRule::kMostPromising, table_.guard);
    for (const VariedGuard& setting : settings_) {
      cell.settings_r.push_back(guarded(cell.precision, GuardRule::kNextRanked, setting.constants));
      cell.settings_p.push_back(
          guarded(cell.precision, GuardRule::kMostPromising, setting.constants));
    }
    cell.never_moving = staying(out_.runs[cell.first.front()].first());
  }

  std::size_t alone(const Strategy& strategy) {
    for (std::size_t i = 0; i < out_.runs.size(); ++i) {
      if (!out_.runs[i].guard && out_.runs[i].first() == strategy) {
        return i;
      }
    }
    return added({.ranked = {strategy}});
  }

  std::size_t guarded(PrecisionClass precision, GuardRule rule, const GuardConstants& constants) {
    GuardedBucket bucket = guarded_bucket(table_, bucket_, precision, rule);
    return added({.ranked = std::move(bucket.ranked),
                  .guard = PlayedGuard{constants, rule, std::move(bucket.expected)}});
  }

  // That tuple under a guard to which no step is low. Plain decoding under a guard also feeds the
  // draft, which is no guard's overhead.
  std::optional<std::size_t> staying(const Strategy& strategy) {
    if (!strategy.draft.speculates()) {
      return {};
    }
    for (std::size_t i = 0; i < out_.runs.size(); ++i) {
      const PlayedRun& run = out_.runs[i];
      if (run.guard && run.guard->constants.drop_ratio == 0.0 && run.ranked.size() == 1 &&
          run.first() == strategy) {
        return i;
      }
    }
    GuardConstants constants = table_.guard;
    constants.drop_ratio = 0.0;
    return added(
        {.ranked = {strategy}, .guard = PlayedGuard{constants, GuardRule::kNextRanked, {{}}}});
  }

  std::size_t added(PlayedRun run) {
    out_.runs.push_back(std::move(run));
    return out_.runs.size() - 1;
  }

  const PlanTable& table_;
  std::int64_t bucket_;
  std::int64_t candidates_;
  const RefusalOf& refusal_;
  const std::vector<VariedGuard>& settings_;
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

PlayedBucket played_bucket(const PlanTable& table, std::int64_t bucket,
                           const std::vector<PrecisionClass>& classes, std::int64_t candidates,
                           const RefusalOf& refusal, const std::vector<VariedGuard>& settings) {
  VERSIEVE_ASSERT(candidates >= 1, "a cell's first tuple is always played");
  BucketMaker maker(table, bucket, candidates, refusal, settings);
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
