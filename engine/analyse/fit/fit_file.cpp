#include "engine/analyse/fit/fit_file.h"

#include <nlohmann/json.hpp>

#include "engine/analyse/fit/energy_json.h"
#include "engine/analyse/fit/error_json.h"
#include "engine/analyse/fit/goals.h"

namespace versieve::engine {
namespace {

using nlohmann::ordered_json;

constexpr const char* kIntervalMethod =
    "90 %, Gauss-Newton covariance of log parameters, clustered by point; a parameter that is not "
    "informed has its bounds";

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

ordered_json left_out_of(const std::vector<LeftOutError>& errors) {
  ordered_json rows = ordered_json::array();
  for (const LeftOutError& e : errors) {
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

ordered_json goals_json(const FitReport& report) {
  ordered_json rows = ordered_json::array();
  for (const Goal& g : goals_of(report)) {
    rows.push_back(
        {{"goal", g.what}, {"wanted", g.wanted}, {"measured", g.measured}, {"met", g.met}});
  }
  return rows;
}

ordered_json ranked_of(const FitReport& report) {
  ordered_json rows = ordered_json::array();
  for (const RankedClass& c : report.ranked) {
    rows.push_back({{"context", c.context},
                    {"precision", name_of(c.precision)},
                    {"tau_b", json_of(c.tau)},
                    {"agreeing", c.pairs.agreeing},
                    {"opposed", c.pairs.opposed},
                    {"tied_measured", c.pairs.tied_measured},
                    {"tied_predicted", c.pairs.tied_predicted}});
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

// Of steps of many requests: what the planner takes, and how well they were predicted.
ordered_json batch_of(const FitReport& r) {
  const BatchFit& b = r.model.batch;
  ordered_json terms = ordered_json::array();
  for (std::size_t i = 0; i < b.terms.size(); ++i) {
    const BatchTermEstimate& e = b.terms[i];
    terms.push_back({{"name", batch_term_table()[i].name},
                     {"value", e.value},
                     {"low", e.low},
                     {"high", e.high},
                     {"unit", batch_term_table()[i].unit},
                     {"informed", e.informed}});
  }
  ordered_json points = ordered_json::array();
  for (const ComparedPoint& p : r.batch_compared) {
    points.push_back({{"model", p.key.model},
                      {"strategy", p.key.strategy},
                      {"contexts", p.key.regime},
                      {"context_len", p.key.context_len},
                      {"rows", p.key.num_queries},
                      {"measured_us", json_of(p.measured_us)},
                      {"predicted_us", p.predicted_us},
                      {"terms_alone_us", p.closed_form_us},
                      {"measured_bytes", json_of(p.measured_bytes)},
                      {"predicted_bytes", p.predicted_bytes}});
  }
  ordered_json widths = ordered_json::array();
  for (const BatchWidth& w : b.widths) {
    widths.push_back({{"requests", w.requests}, {"log_latency_90", w.log_latency}});
  }
  return {{"points", b.points},
          {"dense_points", b.dense_points},
          {"launch", name_of(b.launch)},
          {"most_requests", b.most_requests},
          {"most_rows", b.most_rows},
          {"log_latency_90", b.log_latency},
          {"widths", widths},
          {"least_overlap", b.least_overlap},
          {"terms", terms},
          {"together", b.together},
          {"dense_together", b.dense_together},
          {"launch_residuals", field_of(b.kinds)},
          {"residuals", field_of(b.time)},
          {"byte_residuals", field_of(b.bytes)},
          {"latency", json_of(r.batch_latency)},
          {"dram_bytes", json_of(r.batch_dram)},
          {"closed_form_latency", json_of(r.batch_closed_latency)},
          {"interval_coverage_90", json_of(r.batch_coverage_90)},
          {"left_out", left_out_of(r.batches)},
          {"compared", points}};
}

ordered_json steps_of(const FittedModel& model) {
  ordered_json rows = ordered_json::array();
  for (const MeasuredStep& s : model.steps) {
    rows.push_back({{"geometry", s.geometry},
                    {"strategy", s.strategy.text()},
                    {"context_len", s.context_len},
                    {"time_us", s.time_us},
                    {"log_error", s.log_error},
                    {"predicted_us", s.predicted_us},
                    {"source", name_of(s.source)},
                    {"overlap", s.overlap}});
    if (s.draft_vocab > 0) {
      rows.back()["draft_vocab"] = s.draft_vocab;
    }
    if (s.temperature > 0.0) {
      rows.back()["temperature"] = s.temperature;
    }
  }
  return rows;
}

ordered_json systems_of(const FitReport& report) {
  ordered_json rows = ordered_json::array();
  for (const SystemError& e : report.systems) {
    rows.push_back({{"name", e.name},
                    {"points", e.points},
                    {"latency", json_of(e.latency)},
                    {"dram_bytes", json_of(e.dram_bytes)}});
  }
  return rows;
}

ordered_json sparse_terms_of(const FitReport& report) {
  ordered_json rows = ordered_json::array();
  for (const SparseTermError& e : report.sparse_terms) {
    rows.push_back({{"term", e.term},
                    {"left_out", e.axis.empty() ? ordered_json() : ordered_json(e.axis)},
                    {"beyond", e.beyond},
                    {"latency", json_of(e.latency)},
                    {"dram_bytes", json_of(e.dram_bytes)},
                    {"counted_of_formula", json_of(e.of_formula)},
                    {"counted_of_formula_least", json_of(e.of_formula_least)},
                    {"counted_of_formula_most", json_of(e.of_formula_most)}});
  }
  return rows;
}

ordered_json system_quantiles_of(const FittedModel& model) {
  ordered_json rows = ordered_json::array();
  for (const SystemQuantile& q : model.systems) {
    rows.push_back({{"name", q.name},
                    {"log_latency_90", q.log_latency},
                    {"points", q.points},
                    {"longest", q.longest}});
  }
  return rows;
}

ordered_json machine_of(const MachineShares& m) {
  return {{"read_of_raw", m.read},
          {"copy_of_raw", m.copy},
          {"l2_bytes_per_clock_sm", m.l2},
          {"products_of_fp32_peak", m.products},
          {"graph_launch_us", m.graph_launch},
          {"stream_launch_us", m.stream_launch}};
}

ordered_json prior_of(const PriorFit& p) {
  return {{"device", p.device},
          {"points", p.points},
          {"runs", p.runs},
          {"scale",
           {{"read", p.scale.read},
            {"written_time", p.scale.written_time},
            {"l2", p.scale.l2},
            {"products", p.scale.products},
            {"graph_gap", p.scale.graph_gap},
            {"stream_gap", p.scale.stream_gap}}}};
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
                        {"looping", m.looping},
                        {"at_least", m.at_least}});
  }
  ordered_json positional = ordered_json::array();
  for (const AcceptanceModel::Positional& p : a.positional) {
    ordered_json orders = ordered_json::object();
    for (const Traversal order : {Traversal::kBfs, Traversal::kDfs}) {
      const AcceptanceModel::OrderSharing& sharing = p.orders[static_cast<std::size_t>(order)];
      if (sharing.measured) {
        orders[name_of(order)] = {{"overlap", sharing.overlap}, {"group", sharing.group}};
      }
    }
    positional.push_back({{"context", ordered_json::array({p.context_low, p.context_high})},
                          {"first", p.first},
                          {"siblings", p.siblings},
                          {"decay", p.decay},
                          {"log_error", p.log_error},
                          {"overlap", p.overlap},
                          {"orders", orders}});
  }
  ordered_json variants = ordered_json::array();
  for (const AcceptanceModel::Variant& v : a.variants) {
    variants.push_back({{"schedule", v.schedule},
                        {"approximate_group", v.approximate_group},
                        {"order", name_of(v.order)},
                        {"log_ratio", v.log_ratio},
                        {"log_error", v.log_error},
                        {"comparisons", v.comparisons}});
  }
  return {{"pair", a.pair},
          {"sha256", a.sha256},
          {"overlap_of", {{"name", a.overlap_of.name}, {"sha256", a.overlap_of.sha256}}},
          {"measured", measured},
          {"positional", positional},
          {"variants", variants},
          {"texts",
           {{"rate", a.texts.rate},
            {"texts", a.texts.texts},
            {"evidence", name_of(a.texts.evidence)}}}};
}

}  // namespace

std::string fit_json(const FitReport& r) {
  const FittedModel& m = r.model;
  ordered_json skipped = ordered_json::array();
  for (const auto& [reason, points] : r.skipped) {
    skipped.push_back({{"reason", reason}, {"points", points}});
  }
  ordered_json out = {
      {"format", kFitFormat},
      {"schema", kFitSchema},
      {"device", m.device},
      {"hardware", m.hardware_key},
      {"geometry", m.geometry},
      {"dtype", name_of(m.dtype)},
      {"launch", name_of(m.conditions.launch)},
      {"evidence", name_of(m.evidence)},
      {"points", m.points},
      {"points_train", r.points_train},
      {"points_holdout", r.points_holdout},
      {"holdout", r.holdout},
      {"goals", goals_json(r)},
      {"dram_bytes", json_of(r.dram_bytes)},
      {"dram_fused_bytes", json_of(r.dram_fused)},
      {"dram_vanilla_bytes", json_of(r.dram_vanilla)},
      {"dram_read_bytes", json_of(r.dram_read)},
      {"dram_warm_bytes", json_of(r.dram_warm)},
      {"dram_few_points", r.dram_few},
      {"dram_few_error_bytes", json_of(r.dram_few_error)},
      {"latency", json_of(r.latency)},
      {"closed_form_latency", json_of(r.closed_form_latency)},
      {"interval_coverage_90", json_of(r.interval_coverage_90)},
      {"unseen_coverage_90", json_of(r.unseen_coverage_90)},
      {"coverage", coverage_of(r)},
      {"interval_method", "split conformal on cross-validated log residuals, by context range"},
      {"ranked", ranked_of(r)},
      {"kendall_tau", json_of(r.kendall_tau)},
      {"least_kendall_tau", json_of(r.least_kendall_tau)},
      {"top1_regret", json_of(r.top1_regret)},
      {"worst_regret", json_of(r.worst_regret)},
      {"left_out_latency", json_of(r.left_out_latency)},
      {"left_out_dram_bytes", json_of(r.left_out_dram)},
      {"left_out_coverage_90", json_of(r.left_out_coverage_90)},
      {"left_out", left_out_of(r.left_out)},
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
      {"small_pair_nodes", m.small_pair_nodes},
      {"acceptance", acceptance_of(m.acceptance)},
      {"machine", machine_of(m.machine)},
      {"systems", systems_of(r)},
      {"sparse_terms", sparse_terms_of(r)},
      {"system_latency", json_of(r.system_latency)},
      {"system_dram_bytes", json_of(r.system_dram)},
      {"system_errors", system_quantiles_of(m)},
      {"system_residuals", field_of(m.system_time)}};
  if (m.prior) {
    out["prior"] = prior_of(*m.prior);
  }
  if (m.batch.measured()) {
    out["batch"] = batch_of(r);
  }
  if (m.energy.sampled()) {
    out["energy"] = energy_json(m.energy);
    out["energy"]["left_out"] = json_of(r.energy);
  }
  if (r.apart.before.points > 0) {
    out["apart"] = {{"geometry", r.apart.geometry},
                    {"latency_as_predicted", json_of(r.apart.before)},
                    {"latency", json_of(r.apart.latency)}};
  }
  return out.dump(1) + "\n";
}

}  // namespace versieve::engine
