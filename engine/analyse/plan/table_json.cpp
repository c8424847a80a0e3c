#include <array>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "engine/analyse/plan/price_json.h"
#include "engine/analyse/plan/table_file.h"
#include "engine/io/formatted.h"
#include "engine/io/strict_json.h"
#include "model/plan/guarded_plan.h"
#include "model/plan/loss_limit.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kFormat = "versieve planner table";

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

// Reads back what plan_table_json wrote; any misfit is one sentence with the file's name.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), file_(read_json_object(path)) {}

  PlanTable read() {
    try {
      check_schema();
      return table();
    } catch (const json::exception& e) {
      refuse("not a planner table: a key is missing or has another type");
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& reason) const {
    throw Error(ExitCode::kBadInput, path_ + ": " + reason);
  }

  void check_schema() const {
    if (file_.value("format", "") != kFormat) {
      refuse("not a planner table of versieve");
    }
    if (file_.at("schema") != PlanTable::kSchema) {
      refuse("a planner table of schema " + file_.at("schema").dump() + "; this program reads " +
             std::to_string(PlanTable::kSchema));
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
    for (const json& e : file_.at("entries")) {
      t.entries.push_back(entry(e, t));
    }
    for (const json& u : file_.at("unavailable")) {
      t.unavailable.push_back(
          {bucket(u, t), precision(u.at("class")), u.at("reason").get<std::string>()});
    }
    for (const json& b : file_.at("baselines")) {
      t.baselines.push_back({bucket(b, t), b.at("role").get<std::string>(), evaluation(b)});
    }
    return t;
  }

  std::string path_;
  json file_;
};

}  // namespace

std::string plan_table_json(const PlanTable& t) {
  ordered_json out = {{"format", kFormat},
                      {"schema", PlanTable::kSchema},
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
  for (const PlanEntry& e : t.entries) {
    out["entries"].push_back(json_of(e));
  }
  for (const UnavailableCell& u : t.unavailable) {
    out["unavailable"].push_back({{"bucket", u.bucket},
                                  {"class", name_of(u.precision)},
                                  {"status", "not yet available"},
                                  {"reason", u.reason}});
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
  for (const PlanBaseline& b : t.baselines) {
    ordered_json row = {{"bucket", b.bucket}, {"role", b.role}};
    add_evaluation(b.evaluation, row);
    out["baselines"].push_back(row);
  }
  return out.dump(1) + "\n";
}

PlanTable read_plan_table(const std::string& path) {
  return Reader(path).read();
}

}  // namespace versieve::engine
