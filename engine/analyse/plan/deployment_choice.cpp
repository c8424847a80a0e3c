// Which entry of a planner table a serving engine gets: the best of the cell that it takes whole;
// else the bucket's plain chain where it drafts chains only; else the best one cut to what fits.
#include <algorithm>
#include <iterator>
#include <vector>

#include "engine/analyse/plan/deployment.h"
#include "model/cost/crossover.h"
#include "model/plan/concurrency.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

// How the keys of its machines begin.
constexpr const char* kHopperKeys[] = {"h100", "h200", "h800", "h20-", "gh200"};

[[noreturn]] void refuse(const std::string& reason) {
  throw Error(ExitCode::kAnswerNo, reason);
}

// The classes of other systems, whose cells also list baselines of the target's own.
bool is_of_other_system(PrecisionClass precision) {
  return precision >= PrecisionClass::kSparseRectified;
}

// Reuse and approximate groups only save work: an engine without them keeps a stronger promise, and
// so does one that reads everything where SpecAttn chooses. ReSA has no draft that could be
// carried, and sigmoids are a rule of acceptance.
void check_promise(const ServingEngine& engine, PrecisionClass precision) {
  const char* instead = "";
  if (precision == PrecisionClass::kApproxSampling && engine.keeps_drafted == nullptr) {
    instead = engine.other_acceptance;
  } else if (precision == PrecisionClass::kSparseRectified) {
    instead = engine.other_attention;
  } else {
    return;
  }
  refuse(std::string(engine.name) + " has nothing like class " + name_of(precision) + " (" +
         loss_of(precision) + "), so no entry of it can be exported for it: " + instead);
}

std::int64_t bucket_for(const PlanTable& t, const DeploymentWish& wish) {
  std::string known;
  for (std::size_t b = 0; b < t.buckets.size(); ++b) {
    const ContextBucket& bucket = t.buckets[b];
    if (wish.context && bucket.low < *wish.context && *wish.context <= bucket.high) {
      return static_cast<std::int64_t>(b);
    }
    known += (known.empty() ? "" : ", ") + name_of(bucket);
  }
  if (!wish.context && !t.buckets.empty()) {
    return static_cast<std::int64_t>(t.buckets.size()) - 1;
  }
  refuse("no context bucket of the table holds " +
         (wish.context ? std::to_string(*wish.context) + " tokens" : "a context") +
         "; its buckets are " + (known.empty() ? "none" : known));
}

std::string why_empty(const PlanTable& t, std::int64_t bucket, PrecisionClass precision) {
  for (const UnavailableCell& u : t.unavailable) {
    if (u.bucket == bucket && u.precision == precision) {
      return u.reason;
    }
  }
  return "the table was planned without it";
}

std::vector<const PlanEntry*> cell_of(const PlanTable& t, std::int64_t bucket,
                                      PrecisionClass precision) {
  std::vector<const PlanEntry*> cell = entries_of(t, bucket, precision);
  if (is_of_other_system(precision)) {
    std::erase_if(
        cell, [&](const PlanEntry* e) { return e->evaluation.strategy.precision() != precision; });
  }
  if (cell.empty()) {
    refuse(std::string("there are no entries of class ") + name_of(precision) +
           " for contexts of " + name_of(t.buckets[static_cast<std::size_t>(bucket)]) +
           " tokens: " + why_empty(t, bucket, precision));
  }
  return cell;
}

// The same tree with no more levels than its nodes can fill.
DraftChoice grown(const DraftChoice& d) {
  return {.depth = d.levels(), .width = d.width, .nodes = d.nodes};
}

DraftChoice carried(const ServingEngine& engine, const Evaluation& evaluation) {
  const DraftChoice draft = grown(evaluation.strategy.draft);
  return draft.speculates() ? engine.carried(draft) : draft;
}

// Nothing is left of ReSA without its attention, as a draft or of the text itself, nor of an
// indexer's plain steps.
bool has_draft_to_carry(const Evaluation& evaluation) {
  const Strategy& strategy = evaluation.strategy;
  const bool indexes_alone =
      strategy.attention == AttentionMethod::kIndexer && !strategy.draft.speculates();
  return strategy.attention != AttentionMethod::kResa && !indexes_alone && !strategy.drafts_itself;
}

bool takes_whole(const ServingEngine& engine, const Evaluation& evaluation) {
  return has_draft_to_carry(evaluation) && !evaluation.strategy.adapts_length &&
         carried(engine, evaluation) == grown(evaluation.strategy.draft);
}

// The bucket's plain chain, or plain decoding where that is faster or the chain does not keep the
// plan's bounds. Null: a table older than that baseline.
const Evaluation* stand_in(const PlanTable& t, std::int64_t bucket) {
  const Evaluation* chain = nullptr;
  const Evaluation* plain = nullptr;
  for (const PlanBaseline& b : t.baselines) {
    if (b.bucket == bucket) {
      chain = is_plain_chain(b.evaluation.strategy) ? &b.evaluation : chain;
      plain = b.role == "autoregressive" ? &b.evaluation : plain;
    }
  }
  if (chain == nullptr || plain == nullptr) {
    return chain;
  }
  const std::int64_t tokens = t.buckets[static_cast<std::size_t>(bucket)].high;
  const bool stays = chain->throughput >= plain->throughput &&
                     keeps_bounds(t.aims, *chain, t.concurrency, tokens);
  return stays ? chain : plain;
}

// Plain decoding where the pair has no chain.
const Evaluation* without_own_draft(const PlanTable& t, std::int64_t bucket) {
  if (const Evaluation* const found = stand_in(t, bucket)) {
    return found;
  }
  const auto plain = std::find_if(
      t.baselines.begin(), t.baselines.end(),
      [&](const PlanBaseline& b) { return b.bucket == bucket && b.role == "autoregressive"; });
  return plain == t.baselines.end() ? nullptr : &plain->evaluation;
}

}  // namespace

DeploymentChoice chosen_deployment(const PlanTable& table, const ServingEngine& engine,
                                   const DeploymentWish& wish) {
  check_promise(engine, wish.precision);
  const std::int64_t bucket = bucket_for(table, wish);
  const std::vector<const PlanEntry*> cell = cell_of(table, bucket, wish.precision);
  DeploymentChoice out{.bucket = &table.buckets[static_cast<std::size_t>(bucket)],
                       .best = cell.front(),
                       .last = cell.back(),
                       .evaluation = &cell.front()->evaluation};
  const auto fits = std::find_if(cell.begin(), cell.end(), [&](const PlanEntry* e) {
    return takes_whole(engine, e->evaluation);
  });
  if (fits != cell.end()) {
    out.entry = *fits;
    out.evaluation = &out.entry->evaluation;
  } else if (out.evaluation->strategy.drafts_itself &&
             without_own_draft(table, bucket) != nullptr) {
    out.evaluation = without_own_draft(table, bucket);
  } else if (!has_draft_to_carry(*out.evaluation)) {
    refuse(std::string(engine.name) + " has nothing like the entries of class " +
           name_of(wish.precision) + " for contexts of " + name_of(*out.bucket) +
           " tokens, whose "
           "attention is all that they change: " +
           engine.other_attention);
  } else if (carried(engine, *out.evaluation).width == 1 && stand_in(table, bucket) != nullptr) {
    out.evaluation = stand_in(table, bucket);
  }
  out.draft = carried(engine, *out.evaluation);
  return out;
}

DeploymentFacts facts_of(const PlanTable& table, const DeploymentChoice& choice,
                         const DeploymentWish& wish) {
  const Strategy& strategy = choice.evaluation->strategy;
  DeploymentFacts facts{
      .draft = choice.draft,
      .draft_model = wish.draft_model,
      .draft_is_model = table.draft_is_model || strategy.attention == AttentionMethod::kSpecAttn,
      .tests_by_sigmoids = strategy.sampling == SamplingAlgorithm::kSigmoid,
      .bucket = *choice.bucket};
  for (const HardwareSpec& machine : hardware_catalogue()) {
    if (machine.key == table.hardware) {
      const double requests = crossover_requests(machine, choice.draft.nodes);
      facts.batch_limit = std::max<std::int64_t>(1, static_cast<std::int64_t>(requests));
    }
  }
  facts.is_hopper =
      std::any_of(std::begin(kHopperKeys), std::end(kHopperKeys),
                  [&](const char* family) { return table.hardware.rfind(family, 0) == 0; });
  return facts;
}

}  // namespace versieve::engine
