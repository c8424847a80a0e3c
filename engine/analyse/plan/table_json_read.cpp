#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "engine/analyse/fit/energy_json.h"
#include "engine/analyse/plan/entry_aims.h"
#include "engine/analyse/plan/prefill_file.h"
#include "engine/analyse/plan/price_json.h"
#include "engine/analyse/plan/table_file.h"
#include "engine/io/formatted.h"
#include "engine/io/strict_json.h"
#include "model/plan/concurrency.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

using nlohmann::json;

// Reads back what plan_table_json wrote; any misfit is one sentence with the file's name.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), file_(read_json_object(path)) {}

  PlanTable read() {
    try {
      check_schema();
      return whole_table();
    } catch (const json::exception& e) {
      refuse("not a planner table: a key is missing or has another type");
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& reason) const {
    throw Error(ExitCode::kBadInput, path_ + ": " + reason);
  }

  void check_schema() const {
    if (file_.value("format", "") != kTableFormat) {
      refuse("not a planner table of versieve");
    }
    const json& schema = file_.at("schema");
    if (schema != PlanTable::kSchema && schema != PlanTable::kConcurrencySchema) {
      refuse("a planner table of schema " + schema.dump() + "; this program reads " +
             std::to_string(PlanTable::kSchema) + " and " +
             std::to_string(PlanTable::kConcurrencySchema));
    }
  }

  template <class Enum>
  Enum word(const std::string& text, std::size_t count) const {
    for (std::size_t i = 0; i < count; ++i) {
      if (text == name_of(static_cast<Enum>(i))) {
        return static_cast<Enum>(i);
      }
    }
    refuse("the word '" + text + "' is unknown");
  }

  template <class Enum, std::size_t kCount>
  void read_named(const json& object, std::array<double, kCount>& out) const {
    for (json::const_iterator at = object.begin(); at != object.end(); ++at) {
      const double value = *at;
      out[static_cast<std::size_t>(word<Enum>(at.key(), kCount))] = value;
    }
  }

  // A number that is written with a point or an exponent, or does not fit, is no integer: the
  // library's own conversion would cut or wrap it.
  std::int64_t integer(const json& value) const {
    if (!value.is_number_integer() ||
        (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX)) {
      refuse(value.dump() + " stands where an integer is needed");
    }
    return value.get<std::int64_t>();
  }

  static Interval interval(const json& pair) {
    return {pair.at(0).get<double>(), pair.at(1).get<double>()};
  }

  PrecisionClass precision(const json& name) const {
    return word<PrecisionClass>(name.get<std::string>(), kPrecisionClassCount);
  }

  std::int64_t bucket(const json& entry, const PlanTable& t) const {
    const std::int64_t index = integer(entry.at("bucket"));
    if (index < 0 || index >= static_cast<std::int64_t>(t.buckets.size())) {
      refuse("an entry names a bucket that the table does not have");
    }
    return index;
  }

  Strategy strategy(const json& text) const {
    try {
      return Strategy::parse(text.get<std::string>());
    } catch (const Error& e) {
      refuse(e.what());
    }
  }

  Evaluation evaluation(const json& e) const {
    Evaluation out;
    out.strategy = strategy(e.at("strategy"));
    out.expected_accepted = e.at("expected_accepted").get<double>();
    out.throughput = e.at("throughput").get<double>();
    out.throughput_interval = interval(e.at("interval"));
    // Tables older than them compare tuples by that interval.
    out.same_texts_interval = e.contains("same_texts_interval")
                                  ? interval(e.at("same_texts_interval"))
                                  : out.throughput_interval;
    out.text_log_error = e.value("text_log_error", 0.0);
    out.accepted_interval = interval(e.at("accepted_interval"));
    out.latency_interval_us = interval(e.at("step_latency_us_interval"));
    out.source = word<Provenance>(e.at("source").get<std::string>(), kProvenanceCount);
    const json& why = e.at("why");
    StepCost cost;
    cost.time_us = e.at("step_latency_us").get<double>();
    cost.dram_bytes = why.at("dram_bytes").get<double>();
    cost.flops = why.at("flops").get<double>();
    cost.launches = why.at("launches").get<double>();
    read_named<TrafficTerm>(why.at("dram_bytes_by_term"), cost.term_bytes);
    read_named<Bound>(why.at("us_by_bound"), cost.bound_us);
    read_named<Phase>(why.at("us_by_phase"), cost.phase_us);
    out.cost = cost;
    check_numbers(out);
    return out;
  }

  // What rates are divided by.
  void check_numbers(const Evaluation& e) const {
    if (!(e.cost->time_us > 0.0) || !(e.throughput > 0.0) || !(e.expected_accepted >= 1.0)) {
      refuse("'" + e.strategy.text() +
             "' needs a step time and a throughput above 0 and at least one token a step");
    }
  }

  void read_provenance(PlanTable& t) const {
    const json& p = file_.at("provenance");
    t.provenance_note = p.at("note").get<std::string>();
    t.evidence = word<Provenance>(p.at("evidence").get<std::string>(), kProvenanceCount);
    t.fit_device = p.at("fit_device").get<std::string>();
    t.fit_hardware = p.at("fit_hardware").get<std::string>();
    t.fit_points = integer(p.at("fit_points"));
    t.scaled = p.at("scaled").get<bool>();
    t.calibrated = p.value("calibrated", false);
    t.runs = p.at("runs").get<std::vector<std::string>>();
    t.acceptance_pair = p.at("acceptance_pair").get<std::string>();
    // Tables older than imported acceptance do not say it.
    t.acceptance_origin =
        word<AcceptanceOrigin>(p.value("acceptance_origin", "measured"), kAcceptanceOriginCount);
    t.acceptance_note = p.value("acceptance_note", "");
    t.texts_note = p.value("texts_note", "");
    t.dtype = p.at("dtype").get<std::string>();
    // Tables older than it do not say it.
    t.draft_vocab = p.contains("draft_vocab") ? integer(p.at("draft_vocab")) : 0;
    t.draft_is_model = p.value("draft_is_model", false);
    t.launch = p.at("launch").get<std::string>();
    // Tables older than the fused form do not say it.
    t.form = p.value("attention_form", "vanilla") == name_of(NsaForm::kFused) ? NsaForm::kFused
                                                                              : NsaForm::kVanilla;
    t.enumerated = integer(p.at("tuples_enumerated"));
    t.runnable = integer(p.at("tuples_runnable"));
    for (const json& e : p.at("excluded")) {
      t.excluded.push_back({e.at("reason").get<std::string>(), integer(e.at("tuples"))});
    }
    if (p.contains("max_loss_nats") && !p.at("max_loss_nats").is_null()) {
      t.max_loss = p.at("max_loss_nats").get<double>();
    }
    if (p.contains("systems")) {  // where they are not the usual ones
      const json& systems = p.at("systems");
      systems.at("resa_block_sizes").get_to(t.systems.resa_key_blocks);
      systems.at("resa_ratios").get_to(t.systems.resa_active_ratios);
      systems.at("resa_periods").get_to(t.systems.resa_periods);
      systems.at("specattn_masses").get_to(t.systems.specattn_shares);
    }
  }

  // Tables older than it do not say it.
  std::optional<EvidenceFrom> chains_from(const json& sources, const char* key) const {
    if (!sources.contains(key) || sources.at(key).is_null()) {
      return {};
    }
    return word<EvidenceFrom>(sources.at(key).get<std::string>(), kEvidenceFromCount);
  }

  // Tables older than them have none.
  void read_sources(PlanTable& t) const {
    const json& p = file_.at("provenance");
    if (!p.contains("sources")) {
      return;
    }
    const json& in = p.at("sources");
    const auto from = [&](const char* key) {
      return word<EvidenceFrom>(in.at(key).get<std::string>(), kEvidenceFromCount);
    };
    PlanSources s{.acceptance = from("acceptance"),
                  .overlap = from("overlap"),
                  .times = from("times"),
                  .acceptance_sha256 = in.at("acceptance_sha256").get<std::string>(),
                  .overlap_of = {in.at("overlap_of").get<std::string>(),
                                 in.at("overlap_sha256").get<std::string>()},
                  .times_of = in.at("times_of").get<std::string>(),
                  .timed_steps = integer(in.at("timed_steps")),
                  .remark = in.at("remark").get<std::string>()};
    s.chosen_share = chains_from(in, "chosen_share");
    s.chosen_share_of = in.value("chosen_share_of", "");
    s.sigmoid_acceptance = chains_from(in, "sigmoid_acceptance");
    s.sigmoid_acceptance_of = in.value("sigmoid_acceptance_of", "");
    s.chain_tokens = chains_from(in, "chain_tokens");
    s.chain_tokens_of = in.value("chain_tokens_of", "");
    if (!in.at("pair").is_null()) {
      s.pair = PairId{in.at("pair").get<std::string>(), in.at("pair_sha256").get<std::string>()};
    }
    t.sources = std::move(s);
  }

  void read_guard(GuardConstants& g) const {
    const json& in = file_.at("guard");
    g.alpha = in.at("alpha").get<double>();
    g.drop_ratio = in.at("drop_ratio").get<double>();
    g.warmup = integer(in.at("warmup"));
    g.hysteresis = integer(in.at("hysteresis"));
    g.max_transitions = integer(in.at("max_transitions"));
    if (const std::string invalid = invalid_because(g); !invalid.empty()) {
      refuse(invalid);
    }
  }

  void read_buckets(PlanTable& t) const {
    for (const json& b : file_.at("buckets")) {
      const ContextBucket bucket = {integer(b.at(0)), integer(b.at(1))};
      if (bucket.low < 0 || bucket.low >= bucket.high ||
          (!t.buckets.empty() && bucket.low < t.buckets.back().high)) {
        refuse("its buckets must be ascending ranges from 0 on that do not overlap");
      }
      t.buckets.push_back(bucket);
    }
  }

  // Tables older than prices have none.
  LossPrice price(const json& e, const Strategy& strategy) const {
    try {
      return read_price(e, strategy);
    } catch (const Error& error) {
      refuse(error.what());
    }
  }

  PlanEntry entry(const json& e, const PlanTable& t) const {
    PlanEntry out{.bucket = bucket(e, t),
                  .precision = precision(e.at("class")),
                  .rank = integer(e.at("rank")),
                  .evaluation = evaluation(e)};
    if (out.rank < 1) {
      refuse("an entry has the rank " + std::to_string(out.rank) + "; the first is 1");
    }
    out.gain_over_ar = e.at("gain_over_ar").get<double>();
    out.gain_over_baseline = e.at("gain_over_baseline").get<double>();
    out.beats_baseline = e.at("beats_baseline").get<double>();
    // Tables older than the word do not have it.
    if (e.contains("baseline") && !e.at("baseline").is_null()) {
      out.baseline = e.at("baseline").get<std::string>();
    }
    out.lossy = e.at("lossy").get<bool>();
    out.price = price(e, out.evaluation.strategy);
    out.note = e.at("note").get<std::string>();
    return out;
  }

  PlanTable table() const {
    PlanTable t;
    t.hardware = file_.at("hardware").get<std::string>();
    t.model = file_.at("model").get<std::string>();
    // Tables older than it do not say it.
    t.requests = file_.contains("requests") ? integer(file_.at("requests")) : 0;
    t.temperature = file_.value("temperature", 0.0);
    if (!(t.temperature >= 0.0) || !std::isfinite(t.temperature)) {
      refuse("its temperature is " + formatted("%g", t.temperature));
    }
    if (t.requests < 0) {
      refuse("its intervals are of " + std::to_string(t.requests) + " requests");
    }
    read_provenance(t);
    read_sources(t);
    read_buckets(t);
    for (const json& c : file_.at("classes")) {
      t.classes.push_back(precision(c));
    }
    read_guard(t.guard);
    return t;
  }

  // Rows of one number of requests at a time; tables older than it are of one.
  void read_cells(PlanTable& t) const {
    const auto is_here = [&](const json& row) {
      return (row.contains("concurrency") ? integer(row.at("concurrency")) : 1) == t.concurrency;
    };
    for (const json& e : file_.at("entries")) {
      if (is_here(e)) {
        t.entries.push_back(entry(e, t));
      }
    }
    for (const json& u : file_.at("unavailable")) {
      if (is_here(u)) {
        t.unavailable.push_back(
            {bucket(u, t), precision(u.at("class")), u.at("reason").get<std::string>()});
      }
    }
    for (const json& b : file_.at("baselines")) {
      if (is_here(b)) {
        t.baselines.push_back({bucket(b, t), b.at("role").get<std::string>(), evaluation(b)});
      }
    }
  }

  std::vector<std::int64_t> concurrency() const {
    std::vector<std::int64_t> out;
    for (const json& value : file_.at("concurrency")) {
      const std::int64_t requests = integer(value);
      if (requests > kMostConcurrency || (out.empty() ? requests != 1 : requests <= out.back())) {
        refuse("its requests at a time must ascend from 1 to at most " +
               std::to_string(kMostConcurrency));
      }
      out.push_back(requests);
    }
    if (out.empty()) {
      refuse("it names no number of requests at a time");
    }
    return out;
  }

  void check_rows(const std::vector<std::int64_t>& concurrency) const {
    for (const char* rows : {"entries", "unavailable", "baselines"}) {
      for (const json& row : file_.at(rows)) {
        const std::int64_t requests = integer(row.at("concurrency"));
        if (std::find(concurrency.begin(), concurrency.end(), requests) == concurrency.end()) {
          refuse("a row is of " + std::to_string(requests) +
                 " requests at a time, which the table does not list");
        }
      }
    }
  }

  // Bytes that a count of requests follows from.
  MemoryNeed memory(const json& m) const {
    const MemoryNeed out{.weights = m.at("weights_bytes").get<double>(),
                         .draft = m.at("draft_bytes").get<double>(),
                         .request = m.at("request_bytes").get<double>(),
                         .usable = m.at("usable_bytes").get<double>()};
    const bool sound = out.weights >= 0.0 && out.draft >= 0.0 && out.request > 0.0 &&
                       out.usable >= 0.0 && out.usable / out.request < 1e15;
    if (!sound) {
      refuse("its memory is of no request that takes any");
    }
    return out;
  }

  SwitchPoint switch_point(const json& s, const PlanTable& t) const {
    return {.bucket = bucket(s, t),
            .precision = precision(s.at("class")),
            .from = strategy(s.at("from_strategy")),
            .to = strategy(s.at("to_strategy")),
            .requests = integer(s.at("requests")),
            .low = integer(s.at("low")),
            .high = s.at("high").is_null() ? 0 : integer(s.at("high"))};
  }

  PromptTimes prompts(const json& in) const {
    PromptTimes out{.device = in.at("device").get<std::string>(),
                    .geometry = in.at("geometry").get<std::string>(),
                    .rows = integer(in.at("rows")),
                    .points = {},
                    .measured_utc = in.value("measured_utc", std::string()),
                    .revision = in.value("revision", std::string()),
                    .warning = in.value("warning", std::string())};
    for (const json& p : in.at("points")) {
      out.points.push_back(
          {integer(p.at("tokens")), p.at("ms").get<double>(), interval(p.at("interval"))});
    }
    if (const std::string why = unsound_because(out); !why.empty()) {
      refuse("its prompts " + why);
    }
    return out;
  }

  void read_aims(PlanTable& t) const {
    if (!file_.at("itl_ms").is_null()) {
      t.aims.itl_ms = file_.at("itl_ms").get<double>();
    }
    if (file_.contains("ttft_ms")) {
      t.aims.ttft_ms = file_.at("ttft_ms").get<double>();
    }
    if (file_.contains("objective")) {
      const std::string name = file_.at("objective").get<std::string>();
      const bool energy = name == name_of(Objective::kEnergy);
      t.aims.objective = energy ? Objective::kEnergy : Objective::kTokens;
      if (name != objective_of(t.aims)) {
        refuse("it has the objective '" + name + "', and its bounds and this reader's words say '" +
               objective_of(t.aims) + "'");
      }
    }
    if (file_.contains("prompts")) {
      t.aims.prompts = prompts(file_.at("prompts"));
    }
    if (file_.contains("energy")) {
      t.energy = energy_law(file_.at("energy"), path_);
    }
    if ((t.aims.ttft_ms && !t.aims.prompts) ||
        (t.aims.objective == Objective::kEnergy && !t.energy.sampled())) {
      refuse("its bound or objective rests on prompts or energy that are not in it");
    }
  }

  PlanTable whole_table() const {
    PlanTable t = table();
    if (file_.at("schema") == PlanTable::kSchema) {
      read_cells(t);
      return t;
    }
    const std::vector<std::int64_t> requests = concurrency();
    check_rows(requests);
    read_aims(t);
    t.several_requests = file_.value("several_requests", "");
    for (std::size_t i = 1; i < requests.size(); ++i) {
      PlanTable batch = t;
      batch.batched.clear();
      batch.concurrency = requests[i];
      read_cells(batch);
      t.batched.push_back(std::move(batch));
    }
    read_cells(t);
    for (const json& m : file_.at("memory")) {
      t.memory.push_back(memory(m));
    }
    for (const json& s : file_.at("switch_points")) {
      t.switches.push_back(switch_point(s, t));
    }
    return t;
  }

  std::string path_;
  json file_;
};

}  // namespace

PlanTable read_plan_table(const std::string& path) {
  return Reader(path).read();
}

}  // namespace versieve::engine
