#include "engine/fit/fit_file.h"

#include <nlohmann/json.hpp>

#include "engine/io/strict_json.h"
#include "model/error.h"

namespace versieve::engine {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kFormat = "versieve fit";
constexpr const char* kIntervalMethod =
    "90 %, Gauss-Newton covariance of log parameters, clustered by point; a parameter that is not "
    "informed has its bounds";

ordered_json json_of(const std::optional<double>& value) {
  return value ? ordered_json(*value) : ordered_json();
}

ordered_json json_of(const ErrorSummary& e) {
  return {{"points", e.points},
          {"median_ape", json_of(e.median_ape)},
          {"p90_ape", json_of(e.p90_ape)},
          {"median_signed", json_of(e.median_signed)}};
}

ordered_json parameters_of(const FittedModel& model) {
  ordered_json rows = ordered_json::array();
  for (std::size_t i = 0; i < kParameterCount; ++i) {
    const ParameterInfo& info = parameter_table()[i];
    const ParameterEstimate& e = model.estimates[i];
    rows.push_back({{"name", info.name},
                    {"value", e.value},
                    {"low", e.low},
                    {"high", e.high},
                    {"unit", info.unit},
                    {"informed", e.informed},
                    {"at_bound", e.at_bound}});
  }
  return rows;
}

ordered_json regimes_of(const FitReport& report) {
  ordered_json rows = ordered_json::array();
  for (const RegimeError& r : report.by_regime) {
    rows.push_back({{"workload", r.workload},
                    {"context", r.context},
                    {"queries", r.queries},
                    {"latency", json_of(r.latency)},
                    {"dram_bytes", json_of(r.dram_bytes)}});
  }
  return rows;
}

ordered_json terms_of(const FitReport& report) {
  ordered_json rows = ordered_json::array();
  for (const TermError& t : report.by_term) {
    ordered_json by_term = ordered_json::object();
    for (std::size_t i = 0; i < kTrafficTermCount; ++i) {
      if (t.predicted_by_term[i] > 0.0) {
        by_term[name_of(static_cast<TrafficTerm>(i))] = t.predicted_by_term[i];
      }
    }
    rows.push_back({{"launch", t.launch},
                    {"predicted_bytes", t.predicted_bytes},
                    {"measured_bytes", t.measured_bytes},
                    {"predicted_bytes_by_term", by_term},
                    {"dram_bytes", json_of(t.dram_bytes)},
                    {"latency", json_of(t.latency)}});
  }
  return rows;
}

ordered_json errors_of(const FittedModel& model) {
  ordered_json rows = ordered_json::array();
  for (const ErrorQuantile& q : model.errors) {
    rows.push_back({{"context", ordered_json::array({q.context_low, q.context_high})},
                    {"log_latency_90", q.log_latency},
                    {"log_dram_90", q.log_dram},
                    {"points", q.points},
                    {"log_latency_left_out_90", q.log_latency_left_out}});
  }
  return rows;
}

ordered_json left_out_of(const FitReport& report) {
  ordered_json rows = ordered_json::array();
  for (const LeftOutError& e : report.left_out) {
    rows.push_back({{"axis", e.axis},
                    {"value", e.value},
                    {"beyond", e.beyond},
                    {"latency", json_of(e.latency)},
                    {"dram_bytes", json_of(e.dram_bytes)},
                    {"interval_coverage_90", json_of(e.interval_coverage_90)}});
  }
  return rows;
}

ordered_json coverage_of(const FitReport& report) {
  ordered_json rows = ordered_json::array();
  for (const CoverageRow& row : report.coverage) {
    rows.push_back({{"context", row.context}, {"points", row.points}, {"covered", row.covered}});
  }
  return rows;
}

ordered_json measured_regimes_of(const FittedModel& model) {
  ordered_json rows = ordered_json::array();
  for (const MeasuredRegime& r : model.regimes) {
    rows.push_back({{"workload", r.workload},
                    {"geometry", r.geometry},
                    {"context_len", r.context_len},
                    {"num_queries", r.num_queries},
                    {"points", r.points}});
  }
  return rows;
}

ordered_json field_of(const ResidualField& field) {
  ordered_json rows = ordered_json::array();
  for (const ResidualField::Family& f : field.families) {
    rows.push_back({{"family", f.family},
                    {"length", f.length},
                    {"anchors", f.anchors},
                    {"weights", f.weights}});
  }
  return rows;
}

ordered_json steps_of(const FittedModel& model) {
  ordered_json rows = ordered_json::array();
  for (const MeasuredStep& s : model.steps) {
    rows.push_back({{"strategy", s.strategy.text()},
                    {"context_len", s.context_len},
                    {"time_us", s.time_us},
                    {"log_error", s.log_error},
                    {"predicted_us", s.predicted_us},
                    {"source", name_of(s.source)}});
  }
  return rows;
}

ordered_json acceptance_of(const AcceptanceModel& a) {
  ordered_json measured = ordered_json::array();
  for (const AcceptanceModel::Measured& m : a.measured) {
    measured.push_back({{"draft", {m.draft.depth, m.draft.width, m.draft.nodes}},
                        {"schedule", m.schedule},
                        {"approximate_group", m.approximate_group},
                        {"order", name_of(m.order)},
                        {"context_len", m.context_len},
                        {"mean", m.mean},
                        {"standard_error", m.standard_error},
                        {"steps", m.steps},
                        {"looping", m.looping}});
  }
  ordered_json positional = ordered_json::array();
  for (const AcceptanceModel::Positional& p : a.positional) {
    positional.push_back({{"context", ordered_json::array({p.context_low, p.context_high})},
                          {"first", p.first},
                          {"spread", p.spread},
                          {"decay", p.decay},
                          {"log_error", p.log_error},
                          {"overlap", p.overlap}});
  }
  return {{"pair", a.pair}, {"measured", measured}, {"positional", positional}};
}

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), file_(read_json_object(path)) {}

  FittedModel read() const {
    try {
      if (file_.value("format", "") != kFormat) {
        refuse("not a fit of versieve");
      }
      if (file_.at("schema") != kFitSchema) {
        refuse("a fit of schema " + file_.at("schema").dump() + "; this program reads " +
               std::to_string(kFitSchema));
      }
      return model();
    } catch (const json::exception&) {
      refuse("not a fit: a key is missing or has another type");
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& reason) const {
    throw Error(ExitCode::kBadInput, path_ + ": " + reason);
  }

  Provenance provenance(const json& name) const {
    for (std::size_t i = 0; i < kProvenanceCount; ++i) {
      if (name == name_of(static_cast<Provenance>(i))) {
        return static_cast<Provenance>(i);
      }
    }
    refuse("the provenance " + name.dump() + " is unknown");
  }

  void read_parameters(FittedModel& m) const {
    m.estimates.resize(kParameterCount);
    std::size_t found = 0;
    for (const json& row : file_.at("parameters")) {
      for (std::size_t i = 0; i < kParameterCount; ++i) {
        if (row.at("name") == parameter_table()[i].name) {
          m.estimates[i] = {row.at("value").get<double>(), row.at("low").get<double>(),
                            row.at("high").get<double>(), row.at("informed").get<bool>(),
                            row.at("at_bound").get<bool>()};
          found += 1;
        }
      }
    }
    if (found != kParameterCount) {
      refuse("not all parameters of the cost model are there, each once");
    }
  }

  void read_evidence(FittedModel& m) const {
    for (const json& q : file_.at("errors")) {
      m.errors.push_back(
          {q.at("context").at(0).get<std::int64_t>(), q.at("context").at(1).get<std::int64_t>(),
           q.at("log_latency_90").get<double>(), q.at("log_dram_90").get<double>(),
           q.at("points").get<std::int64_t>(), q.at("log_latency_left_out_90").get<double>()});
    }
    for (const json& r : file_.at("regimes")) {
      m.regimes.push_back({r.at("workload").get<std::string>(), r.at("geometry").get<std::string>(),
                           r.at("context_len").get<std::int64_t>(),
                           r.at("num_queries").get<std::int64_t>(),
                           r.at("points").get<std::int64_t>()});
    }
    m.attention_time = field(file_.at("attention_residuals"));
    m.step_time = field(file_.at("step_residuals"));
    for (const json& s : file_.at("steps")) {
      m.steps.push_back({Strategy::parse(s.at("strategy").get<std::string>()),
                         s.at("context_len").get<std::int64_t>(), s.at("time_us").get<double>(),
                         s.at("log_error").get<double>(), s.at("predicted_us").get<double>(),
                         provenance(s.at("source"))});
    }
  }

  ResidualField field(const json& in) const {
    ResidualField out;
    for (const json& f : in) {
      ResidualField::Family family{
          .family = f.at("family").get<int>(),
          .length = f.at("length").get<double>(),
          .anchors = f.at("anchors").get<std::vector<std::array<double, kRegimeAxes>>>(),
          .weights = f.at("weights").get<std::vector<double>>()};
      if (family.anchors.size() != family.weights.size() || !(family.length > 0.0)) {
        refuse("a residual field needs a weight for each anchor and a length above 0");
      }
      out.families.push_back(std::move(family));
    }
    return out;
  }

  static AcceptanceModel acceptance(const json& in) {
    AcceptanceModel out;
    out.pair = in.at("pair").get<std::string>();
    for (const json& m : in.at("measured")) {
      AcceptanceModel::Measured row;
      row.draft = {m.at("draft").at(0).get<std::int64_t>(), m.at("draft").at(1).get<std::int64_t>(),
                   m.at("draft").at(2).get<std::int64_t>()};
      row.schedule = m.at("schedule").get<std::string>();
      row.approximate_group = m.value("approximate_group", std::int64_t{1});
      row.order = m.value("order", "bfs") == "dfs" ? Traversal::kDfs : Traversal::kBfs;
      row.context_len = m.at("context_len").get<std::int64_t>();
      row.mean = m.at("mean").get<double>();
      row.standard_error = m.at("standard_error").get<double>();
      row.steps = m.at("steps").get<std::int64_t>();
      row.looping = m.at("looping").get<bool>();
      out.measured.push_back(row);
    }
    for (const json& p : in.at("positional")) {
      out.positional.push_back(
          {p.at("context").at(0).get<std::int64_t>(), p.at("context").at(1).get<std::int64_t>(),
           p.at("first").get<double>(), p.at("spread").get<double>(), p.at("decay").get<double>(),
           p.at("log_error").get<double>(), p.at("overlap").get<double>()});
    }
    return out;
  }

  FittedModel model() const {
    FittedModel m;
    m.device = file_.at("device").get<std::string>();
    m.hardware_key = file_.at("hardware").get<std::string>();
    m.geometry = file_.at("geometry").get<std::string>();
    m.dtype = file_.at("dtype").get<std::string>();
    m.conditions.launch = file_.at("launch") == "graph" ? LaunchMode::kGraph : LaunchMode::kStream;
    m.evidence = provenance(file_.at("evidence"));
    m.points = file_.at("points").get<std::int64_t>();
    m.runs = file_.at("runs").get<std::vector<std::string>>();
    m.acceptance = acceptance(file_.at("acceptance"));
    read_parameters(m);
    read_evidence(m);
    return m;
  }

  std::string path_;
  json file_;
};

}  // namespace

std::string fit_json(const FitReport& r) {
  const FittedModel& m = r.model;
  ordered_json skipped = ordered_json::array();
  for (const auto& [reason, points] : r.skipped) {
    skipped.push_back({{"reason", reason}, {"points", points}});
  }
  const ordered_json out = {
      {"format", kFormat},
      {"schema", kFitSchema},
      {"device", m.device},
      {"hardware", m.hardware_key},
      {"geometry", m.geometry},
      {"dtype", m.dtype},
      {"launch", m.conditions.launch == LaunchMode::kGraph ? "graph" : "stream"},
      {"evidence", name_of(m.evidence)},
      {"points", m.points},
      {"points_train", r.points_train},
      {"points_holdout", r.points_holdout},
      {"holdout", r.holdout},
      {"dram_bytes", json_of(r.dram_bytes)},
      {"dram_read_bytes", json_of(r.dram_read)},
      {"dram_opened_bytes", json_of(r.dram_opened)},
      {"dram_few_points", r.dram_few},
      {"dram_few_error_bytes", json_of(r.dram_few_error)},
      {"latency", json_of(r.latency)},
      {"closed_form_latency", json_of(r.closed_form_latency)},
      {"interval_coverage_90", json_of(r.interval_coverage_90)},
      {"coverage", coverage_of(r)},
      {"interval_method", "split conformal on cross-validated log residuals, by context range"},
      {"kendall_tau", json_of(r.kendall_tau)},
      {"least_kendall_tau", json_of(r.least_kendall_tau)},
      {"top1_regret", json_of(r.top1_regret)},
      {"worst_regret", json_of(r.worst_regret)},
      {"left_out_latency", json_of(r.left_out_latency)},
      {"left_out_dram_bytes", json_of(r.left_out_dram)},
      {"left_out_coverage_90", json_of(r.left_out_coverage_90)},
      {"left_out", left_out_of(r)},
      {"parameters", parameters_of(m)},
      {"parameter_interval_method", kIntervalMethod},
      {"by_regime", regimes_of(r)},
      {"by_term", terms_of(r)},
      {"errors", errors_of(m)},
      {"skipped", skipped},
      {"runs", m.runs},
      {"regimes", measured_regimes_of(m)},
      {"attention_residuals", field_of(m.attention_time)},
      {"step_residuals", field_of(m.step_time)},
      {"steps", steps_of(m)},
      {"acceptance", acceptance_of(m.acceptance)}};
  return out.dump(1) + "\n";
}

FittedModel read_fit(const std::string& path) {
  return Reader(path).read();
}

}  // namespace versieve::engine
