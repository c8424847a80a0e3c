// What a plan's table says of itself in words, and a table of some of its classes.
#include <algorithm>
#include <sstream>

#include "model/plan/loss_limit.h"
#include "model/plan/planner.h"
#include "model/plan/request_intervals.h"
#include "model/plan/system_grid.h"
#include "model/words/assert.h"
#include "model/words/error.h"

namespace versieve {

PrecisionClass parse_class(const std::string& name) {
  std::string known;
  for (int i = 0; i < kPrecisionClassCount; ++i) {
    const PrecisionClass precision = static_cast<PrecisionClass>(i);
    if (name == name_of(precision)) {
      return precision;
    }
    known += std::string(known.empty() ? "" : ", ") + name_of(precision);
  }
  throw Error(ExitCode::kUsage, "unknown class '" + name + "': the classes are " + known);
}

std::string intervals_text(const PlanTable& table) {
  return "Intervals hold 90 % of " + requests_text(table.requests) + "." +
         (table.texts_note.empty() ? std::string()
                                   : " How texts differ: " + table.texts_note + ".");
}

std::string sampled_text(double temperature) {
  std::ostringstream text;
  text << " at temperature " << temperature;
  return temperature > 0.0 ? text.str() : std::string();
}

std::string acceptance_text(const PlanTable& table) {
  if (table.acceptance_origin == AcceptanceOrigin::kMeasured) {
    return table.acceptance_pair + " on real text" + sampled_text(table.temperature);
  }
  const std::string kind =
      table.acceptance_origin == AcceptanceOrigin::kImported ? " (imported)" : "";
  return table.acceptance_pair + kind +
         (table.acceptance_note.empty() ? "" : ": " + table.acceptance_note);
}

const char* name_of(EvidenceFrom from) {
  switch (from) {
    case EvidenceFrom::kOwn:
      return "own";
    case EvidenceFrom::kBorrowed:
      return "borrowed";
    case EvidenceFrom::kAssumed:
      return "assumed";
  }
  VERSIEVE_ASSERT(false, "every source has a name");
}

PairId acceptance_pair(const PlanTable& table) {
  return {table.acceptance_pair, table.sources ? table.sources->acceptance_sha256 : std::string()};
}

std::string sources_text(const PlanTable& table) {
  if (!table.sources) {
    return {};
  }
  const PlanSources& s = *table.sources;
  const auto part = [](const char* what, EvidenceFrom from, const PairId& lender) {
    return std::string(what) + " " + name_of(from) +
           (from == EvidenceFrom::kBorrowed ? " from " + text_of(lender) : std::string());
  };
  const std::string losses = losses_text(table);
  std::string times = part("times", s.times, {s.times_of, ""});
  if (s.times == EvidenceFrom::kOwn) {
    times += ", " + std::to_string(s.timed_steps) + " timed steps" +
             (s.pair ? ", the tuples between them by the machine's cost model"
                     : " with synthetic weights");
  } else {
    times += " with synthetic weights, by the machine's cost model";
  }
  std::string chains;
  if (s.chosen_share) {
    chains += part("; SpecAttn's share of the context", *s.chosen_share, {s.chosen_share_of, ""});
  }
  if (s.sigmoid_acceptance) {
    chains +=
        part("; acceptance under sigmoids", *s.sigmoid_acceptance, {s.sigmoid_acceptance_of, ""});
  }
  if (s.chain_tokens) {
    chains += part("; tokens a step of chains that choose tokens", *s.chain_tokens,
                   {s.chain_tokens_of, ""});
  }
  return (s.pair ? text_of(*s.pair) : table.model) + ": " +
         part("acceptance", s.acceptance, acceptance_pair(table)) + "; " +
         part("overlap", s.overlap, s.overlap_of) + "; " + times + chains +
         (losses.empty() ? "" : "; " + losses) + (s.remark.empty() ? "" : "; " + s.remark);
}

std::vector<const PlanEntry*> entries_of(const PlanTable& table, std::int64_t bucket,
                                         PrecisionClass precision) {
  std::vector<const PlanEntry*> entries;
  for (const PlanEntry& e : table.entries) {
    if (e.bucket == bucket && e.precision == precision) {
      entries.push_back(&e);
    }
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const PlanEntry* a, const PlanEntry* b) { return a->rank < b->rank; });
  return entries;
}

PlanTable of_classes(PlanTable table, const std::vector<PrecisionClass>& classes) {
  const auto left_out = [&classes](PrecisionClass precision) {
    return std::find(classes.begin(), classes.end(), precision) == classes.end();
  };
  std::erase_if(table.classes, left_out);
  std::erase_if(table.entries, [&](const PlanEntry& e) { return left_out(e.precision); });
  std::erase_if(table.unavailable, [&](const UnavailableCell& u) { return left_out(u.precision); });
  std::erase_if(table.switches, [&](const SwitchPoint& s) { return left_out(s.precision); });
  std::erase_if(table.excluded, [&](const ExclusionCount& e) { return e.of && left_out(*e.of); });
  for (PlanTable& batch : table.batched) {
    batch = of_classes(std::move(batch), classes);
  }
  const auto holds = [&table](auto is_such) {
    return std::any_of(table.entries.begin(), table.entries.end(),
                       [&](const PlanEntry& e) { return is_such(e.evaluation.strategy); });
  };
  if (table.sources && !holds(chooses_tokens)) {
    table.sources->chosen_share.reset();
    table.sources->chosen_share_of.clear();
  }
  if (table.sources && !holds(keeps_by_sigmoid)) {
    table.sources->sigmoid_acceptance.reset();
    table.sources->sigmoid_acceptance_of.clear();
  }
  if (table.sources && !holds(yields_by_method)) {
    table.sources->chain_tokens.reset();
    table.sources->chain_tokens_of.clear();
  }
  return table;
}

}  // namespace versieve
