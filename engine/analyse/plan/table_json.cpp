#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "engine/analyse/fit/energy_json.h"
#include "engine/analyse/plan/entry_aims.h"
#include "engine/analyse/plan/price_json.h"
#include "engine/analyse/plan/table_file.h"
#include "model/plan/concurrency.h"
#include "model/plan/guarded_plan.h"
#include "model/plan/loss_limit.h"

namespace versieve::engine {
namespace {

using nlohmann::ordered_json;

ordered_json json_of(const Interval& i) {
  return ordered_json::array({i.low, i.high});
}

// A count of something for each name of an enumeration, zeros left out.
template <class Enum, std::size_t kCount>
ordered_json named(const std::array<double, kCount>& values) {
  ordered_json out = ordered_json::object();
  for (std::size_t i = 0; i < kCount; ++i) {
    if (values[i] != 0.0) {
      out[name_of(static_cast<Enum>(i))] = values[i];
    }
  }
  return out;
}

ordered_json why_of(const StepCost& cost) {
  return {{"bottleneck", name_of(bottleneck_of(cost))},
          {"dram_bytes", cost.dram_bytes},
          {"dram_bytes_by_term", named<TrafficTerm>(cost.term_bytes)},
          {"flops", cost.flops},
          {"launches", cost.launches},
          {"us_by_bound", named<Bound>(cost.bound_us)},
          {"us_by_phase", named<Phase>(cost.phase_us)}};
}

void add_evaluation(const Evaluation& e, ordered_json& out) {
  out["strategy"] = e.strategy.text();
  out["expected_accepted"] = e.expected_accepted;
  out["step_latency_us"] = e.cost->time_us;
  out["throughput"] = e.throughput;
  out["interval"] = json_of(e.throughput_interval);
  out["same_texts_interval"] = json_of(compared_interval(e));
  out["text_log_error"] = e.text_log_error;
  out["accepted_interval"] = json_of(e.accepted_interval);
  out["step_latency_us_interval"] = json_of(e.latency_interval_us);
  out["source"] = name_of(e.source);
  out["why"] = why_of(*e.cost);
}

ordered_json json_of(const PlanEntry& e) {
  ordered_json out = {{"bucket", e.bucket}, {"class", name_of(e.precision)}, {"rank", e.rank}};
  add_evaluation(e.evaluation, out);
  out["gain_over_ar"] = e.gain_over_ar;
  out["gain_over_baseline"] = e.gain_over_baseline;
  out["beats_baseline"] = e.beats_baseline;
  out["baseline"] = e.baseline.empty() ? ordered_json(nullptr) : ordered_json(e.baseline);
  out["lossy"] = e.lossy;
  out["price"] = price_json(e.price);
  out["price_unmeasured"] =
      e.price.is_known() ? ordered_json(nullptr) : ordered_json(e.price.unmeasured_because);
  out["note"] = e.note;
  return out;
}

// What an entry says where a table has several numbers of requests at a time.
void add_concurrency(const PlanTable& t, const PlanEntry& e, ordered_json& out) {
  const Evaluation& v = e.evaluation;
  out["concurrency"] = t.concurrency;
  out["request_throughput"] = request_throughput(v, t.concurrency);
  out["inter_token_ms"] = inter_token_ms(v, t.concurrency);
  out["inter_token_ms_interval"] = json_of(inter_token_interval_ms(v, t.concurrency));
  if (const Evaluation* plain = plain_of(t, e.bucket)) {
    const Speculation s = speculation_of(v, *plain);
    out["break_even"] = s.break_even;
    out["break_even_interval"] = json_of(s.break_even_interval);
    out["loses"] = s.loses;
  }
  const EntryAims aims = aims_of(t, e);
  if (aims.first) {
    out["ttft_ms"] = aims.first->ms;
    out["ttft_ms_interval"] = json_of(aims.first->interval);
  }
  if (aims.energy) {
    out["tokens_per_joule"] = aims.energy->tokens_per_joule;
    out["tokens_per_joule_interval"] = json_of(aims.energy->interval);
    out["watts"] = aims.energy->watts;
  }
}

// What a table is after, and what it knows of prompts and energy; nothing where it is tokens a
// second alone, as in tables older than it (of those within bounds neither).
void add_aims(const PlanTable& t, ordered_json& out) {
  const PlanAims& aims = t.aims;
  if (aims.objective != Objective::kTokens || aims.bounds()) {
    out["objective"] = objective_of(aims);
  }
  if (aims.ttft_ms) {
    out["ttft_ms"] = *aims.ttft_ms;
  }
  if (aims.prompts) {
    ordered_json points = ordered_json::array();
    for (const PromptTimes::Point& p : aims.prompts->points) {
      points.push_back({{"tokens", p.tokens}, {"ms", p.ms}, {"interval", json_of(p.interval)}});
    }
    out["prompts"] = {{"device", aims.prompts->device},
                      {"geometry", aims.prompts->geometry},
                      {"rows", aims.prompts->rows},
                      {"points", points}};
    for (const auto& [key, text] : {std::pair{"measured_utc", aims.prompts->measured_utc},
                                    std::pair{"revision", aims.prompts->revision},
                                    std::pair{"warning", aims.prompts->warning}}) {
      if (!text.empty()) {
        out["prompts"][key] = text;
      }
    }
  }
  if (t.energy.sampled()) {
    out["energy"] = energy_json(t.energy);
  }
}

ordered_json json_of(const std::optional<EvidenceFrom>& from) {
  return from ? ordered_json(name_of(*from)) : ordered_json(nullptr);
}

// Whose acceptance, overlap and times the table's are.
ordered_json sources_of(const PlanTable& t) {
  const PlanSources& s = *t.sources;
  return {{"pair", s.pair ? ordered_json(s.pair->name) : ordered_json(nullptr)},
          {"pair_sha256", s.pair ? ordered_json(s.pair->sha256) : ordered_json(nullptr)},
          {"acceptance", name_of(s.acceptance)},
          {"acceptance_sha256", s.acceptance_sha256},
          {"overlap", name_of(s.overlap)},
          {"overlap_of", s.overlap_of.name},
          {"overlap_sha256", s.overlap_of.sha256},
          {"times", name_of(s.times)},
          {"times_of", s.times_of},
          {"timed_steps", s.timed_steps},
          {"chosen_share", json_of(s.chosen_share)},
          {"chosen_share_of", s.chosen_share_of},
          {"sigmoid_acceptance", json_of(s.sigmoid_acceptance)},
          {"sigmoid_acceptance_of", s.sigmoid_acceptance_of},
          {"chain_tokens", json_of(s.chain_tokens)},
          {"chain_tokens_of", s.chain_tokens_of},
          {"losses", losses_text(t)},
          {"remark", s.remark},
          {"text", sources_text(t)}};
}

ordered_json provenance_of(const PlanTable& t) {
  ordered_json excluded = ordered_json::array();
  for (const ExclusionCount& e : t.excluded) {
    excluded.push_back({{"reason", e.reason}, {"tuples", e.tuples}});
  }
  ordered_json out = {{"note", t.provenance_note},
                      {"evidence", name_of(t.evidence)},
                      {"fit_device", t.fit_device},
                      {"fit_hardware", t.fit_hardware},
                      {"fit_points", t.fit_points},
                      {"scaled", t.scaled},
                      {"calibrated", t.calibrated},
                      {"runs", t.runs},
                      {"acceptance_pair", t.acceptance_pair},
                      {"acceptance_origin", name_of(t.acceptance_origin)},
                      {"acceptance_note", t.acceptance_note},
                      {"intervals_of", requests_text(t.requests)},
                      {"texts_note", t.texts_note},
                      {"bonus_token", kBonusToken},
                      {"dtype", t.dtype},
                      {"draft_vocab", t.draft_vocab},
                      {"draft_is_model", t.draft_is_model},
                      {"launch", t.launch},
                      {"attention_form", name_of(t.form)},
                      {"tuples_enumerated", t.enumerated},
                      {"tuples_runnable", t.runnable},
                      {"excluded", excluded},
                      {"max_loss_nats", t.max_loss ? ordered_json(*t.max_loss) : nullptr}};
  if (t.systems != SystemSettings{}) {
    out["systems"] = {{"resa_block_sizes", t.systems.resa_key_blocks},
                      {"resa_ratios", t.systems.resa_active_ratios},
                      {"resa_periods", t.systems.resa_periods},
                      {"specattn_masses", t.systems.specattn_shares}};
  }
  if (t.sources) {
    out["sources"] = sources_of(t);
  }
  return out;
}

ordered_json guard_of(const GuardConstants& g) {
  return {{"alpha", g.alpha},
          {"drop_ratio", g.drop_ratio},
          {"warmup", g.warmup},
          {"hysteresis", g.hysteresis},
          {"max_transitions", g.max_transitions}};
}

// The cells of one number of requests at a time, behind those that are there.
void add_cells(const PlanTable& t, bool names_concurrency, ordered_json& out) {
  for (const PlanEntry& e : t.entries) {
    ordered_json row = json_of(e);
    if (names_concurrency) {
      add_concurrency(t, e, row);
    }
    out["entries"].push_back(std::move(row));
  }
  for (const UnavailableCell& u : t.unavailable) {
    ordered_json row = {{"bucket", u.bucket},
                        {"class", name_of(u.precision)},
                        {"status", t.concurrency > 1 ? "limited" : "not yet available"},
                        {"reason", u.reason}};
    if (names_concurrency) {
      row["concurrency"] = t.concurrency;
    }
    out["unavailable"].push_back(std::move(row));
  }
  for (const PlanBaseline& b : t.baselines) {
    ordered_json row = {{"bucket", b.bucket}, {"role", b.role}};
    add_evaluation(b.evaluation, row);
    if (names_concurrency) {
      row["concurrency"] = t.concurrency;
    }
    out["baselines"].push_back(std::move(row));
  }
}

ordered_json json_of(const MemoryNeed& need) {
  return {{"weights_bytes", need.weights},
          {"draft_bytes", need.draft},
          {"request_bytes", need.request},
          {"usable_bytes", need.usable},
          {"requests", need.requests()}};
}

ordered_json json_of(const SwitchPoint& s) {
  return {{"bucket", s.bucket},
          {"class", name_of(s.precision)},
          {"from", name_of(draft_kind_of(s.from))},
          {"to", name_of(draft_kind_of(s.to))},
          {"from_strategy", s.from.text()},
          {"to_strategy", s.to.text()},
          {"requests", s.requests},
          {"low", s.low},
          {"high", s.high > 0 ? ordered_json(s.high) : ordered_json(nullptr)}};
}

ordered_json operating_points_of(const PlanTable& t) {
  ordered_json out = ordered_json::array();
  for (std::size_t b = 0; b < t.buckets.size(); ++b) {
    for (const PrecisionClass c : t.classes) {
      const OperatingPoint point = operating_point(t, static_cast<std::int64_t>(b), c);
      if (point.entry != nullptr) {
        const Evaluation& e = point.entry->evaluation;
        out.push_back({{"bucket", b},
                       {"class", name_of(c)},
                       {"concurrency", point.table->concurrency},
                       {"strategy", e.strategy.text()},
                       {"throughput", e.throughput},
                       {"inter_token_ms", inter_token_ms(e, point.table->concurrency)}});
        if (t.energy.sampled()) {
          out.back()["tokens_per_joule"] =
              energy_yield(t.energy, e, point.table->concurrency).tokens_per_joule;
        }
      }
    }
  }
  return out;
}

// What a table says beside its cells where it has several numbers of requests at a time.
void add_axis(const PlanTable& t, ordered_json& out) {
  out["concurrency"] = ordered_json::array();
  for (const PlanTable* of : by_concurrency(t)) {
    out["concurrency"].push_back(of->concurrency);
  }
  out["itl_ms"] = t.aims.itl_ms ? ordered_json(*t.aims.itl_ms) : ordered_json(nullptr);
  add_aims(t, out);
  out["several_requests"] = batch_text(t);
  out["memory"] = ordered_json::array();
  for (const MemoryNeed& need : t.memory) {
    out["memory"].push_back(json_of(need));
  }
  out["switch_points"] = ordered_json::array();
  for (const SwitchPoint& s : t.switches) {
    out["switch_points"].push_back(json_of(s));
  }
  out["operating_points"] = operating_points_of(t);
}

}  // namespace

std::string plan_table_json(const PlanTable& t) {
  ordered_json out = {{"format", kTableFormat},
                      {"schema", schema_of(t)},
                      {"hardware", t.hardware},
                      {"model", t.model},
                      {"requests", t.requests},
                      {"temperature", t.temperature},
                      {"provenance", provenance_of(t)},
                      {"buckets", ordered_json::array()},
                      {"classes", ordered_json::array()},
                      {"guard", guard_of(t.guard)},
                      {"entries", ordered_json::array()},
                      {"unavailable", ordered_json::array()},
                      {"run_conditions", ordered_json::array()},
                      {"baselines", ordered_json::array()}};
  for (const ContextBucket& b : t.buckets) {
    out["buckets"].push_back(ordered_json::array({b.low, b.high}));
  }
  for (const PrecisionClass c : t.classes) {
    out["classes"].push_back(name_of(c));
  }
  const bool has_axis = has_concurrency(t);
  for (const PlanTable* of : by_concurrency(t)) {
    add_cells(*of, has_axis, out);
  }
  for (std::size_t b = 0; b < t.buckets.size(); ++b) {
    for (const PrecisionClass c : t.classes) {
      const std::string condition = run_condition(t, static_cast<std::int64_t>(b), c);
      if (!condition.empty()) {
        out["run_conditions"].push_back(
            {{"bucket", b}, {"class", name_of(c)}, {"condition", condition}});
      }
    }
  }
  if (has_axis) {
    add_axis(t, out);
  }
  return out.dump(1) + "\n";
}

}  // namespace versieve::engine
