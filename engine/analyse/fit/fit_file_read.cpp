// A fit read back from its file, for planning.
#include <nlohmann/json.hpp>

#include "engine/analyse/fit/energy_json.h"
#include "engine/analyse/fit/fit_file.h"
#include "engine/io/strict_json.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

using nlohmann::json;

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), file_(read_json_object(path)) {}

  FittedModel read() const {
    try {
      if (file_.value("format", "") != kFitFormat) {
        refuse("not a fit of versieve");
      }
      if (file_.at("schema") != kFitSchema) {
        refuse("a fit of schema " + file_.at("schema").dump() + "; this program reads " +
               std::to_string(kFitSchema) + "; `versieve fit` makes it anew");
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

  template <class Word>
  Word word(const char* key, Word (*word_of)(std::string_view)) const {
    try {
      return word_of(file_.at(key).get<std::string>());
    } catch (const Error& e) {
      refuse(e.what());
    }
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
      refuse("not all parameters of the cost model are there, each once: make the fit anew");
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
                         provenance(s.at("source")), s.value("draft_vocab", std::int64_t{0}),
                         s.at("geometry").get<std::string>(), s.at("overlap").get<double>(),
                         s.value("temperature", 0.0)});
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

  BatchFit batch(const json& in) const {
    BatchFit out{.points = in.at("points").get<std::int64_t>(),
                 .dense_points = in.at("dense_points").get<std::int64_t>(),
                 .launch = in.at("launch") == name_of(LaunchMode::kGraph) ? LaunchMode::kGraph
                                                                          : LaunchMode::kStream,
                 .terms = {},
                 .together = in.at("together").get<std::int64_t>(),
                 .dense_together = in.at("dense_together").get<std::int64_t>(),
                 .kinds = field(in.at("launch_residuals")),
                 .time = field(in.at("residuals")),
                 .bytes = field(in.at("byte_residuals")),
                 .log_latency = in.at("log_latency_90").get<double>(),
                 .widths = {},
                 .least_overlap = in.at("least_overlap").get<double>(),
                 .most_requests = in.at("most_requests").get<std::int64_t>(),
                 .most_rows = in.at("most_rows").get<std::int64_t>()};
    for (const json& row : in.at("widths")) {
      out.widths.push_back(
          {row.at("requests").get<std::int64_t>(), row.at("log_latency_90").get<double>()});
    }
    for (const BatchTermInfo& info : batch_term_table()) {
      for (const json& row : in.at("terms")) {
        if (row.at("name") == info.name) {
          out.terms.push_back({row.at("value").get<double>(), row.at("low").get<double>(),
                               row.at("high").get<double>(), row.at("informed").get<bool>()});
        }
      }
    }
    if (out.terms.size() != kBatchTermCount) {
      refuse("not all terms of steps of many requests are there, each once: make the fit anew");
    }
    return out;
  }

  static Traversal order(const json& in) {
    return in.value("order", "bfs") == "dfs" ? Traversal::kDfs : Traversal::kBfs;
  }

  // Fits older than the table of variants do not have it.
  static void read_variants(const json& in, AcceptanceModel& out) {
    for (const json& v : in.value("variants", json::array())) {
      out.variants.push_back({.schedule = v.at("schedule").get<std::string>(),
                              .approximate_group = v.at("approximate_group").get<std::int64_t>(),
                              .order = order(v),
                              .log_ratio = v.at("log_ratio").get<double>(),
                              .log_error = v.at("log_error").get<double>(),
                              .comparisons = v.at("comparisons").get<std::int64_t>()});
    }
  }

  // Fits older than orders are of trees flattened breadth first.
  static void read_orders(const json& in, AcceptanceModel::Positional& out) {
    const auto orders = in.find("orders");
    if (orders == in.end()) {
      out.orders[0] = {.measured = true, .overlap = out.overlap};
      return;
    }
    for (const Traversal order : {Traversal::kBfs, Traversal::kDfs}) {
      if (const auto one = orders->find(name_of(order)); one != orders->end()) {
        out.orders[static_cast<std::size_t>(order)] = {
            .measured = true,
            .overlap = one->at("overlap").get<double>(),
            .group = one->at("group").get<std::array<double, kSharingGroups.size()>>()};
      }
    }
  }

  TextSpread texts(const json& in) const {
    const std::string evidence = in.at("evidence").get<std::string>();
    TextSpread out{.rate = in.at("rate").get<double>(),
                   .texts = in.at("texts").get<std::int64_t>()};
    for (int i = 0; i < kTextEvidenceCount; ++i) {
      out.evidence = static_cast<TextEvidence>(i);
      if (evidence == name_of(out.evidence)) {
        return out;
      }
    }
    refuse("the word '" + evidence + "' is unknown");
  }

  AcceptanceModel acceptance(const json& in) const {
    AcceptanceModel out;
    out.pair = in.at("pair").get<std::string>();
    // Fits older than hashes are of the one pair there was, or of one that nobody identified.
    out.sha256 = in.value("sha256", out.pair == byte_pair().name ? byte_pair().sha256 : "");
    out.overlap_of = {out.pair, out.sha256};
    if (const auto overlap = in.find("overlap_of"); overlap != in.end()) {
      out.overlap_of = {overlap->at("name").get<std::string>(),
                        overlap->at("sha256").get<std::string>()};
    }
    for (const json& m : in.at("measured")) {
      AcceptanceModel::Measured row;
      row.draft = {m.at("draft").at(0).get<std::int64_t>(), m.at("draft").at(1).get<std::int64_t>(),
                   m.at("draft").at(2).get<std::int64_t>()};
      row.schedule = m.at("schedule").get<std::string>();
      row.approximate_group = m.value("approximate_group", std::int64_t{1});
      row.order = order(m);
      row.context_len = m.at("context_len").get<std::int64_t>();
      row.mean = m.at("mean").get<double>();
      row.standard_error = m.at("standard_error").get<double>();
      row.steps = m.at("steps").get<std::int64_t>();
      row.looping = m.at("looping").get<bool>();
      row.at_least = m.value("at_least", false);
      out.measured.push_back(row);
    }
    for (const json& p : in.at("positional")) {
      out.positional.push_back(
          {p.at("context").at(0).get<std::int64_t>(), p.at("context").at(1).get<std::int64_t>(),
           p.at("first").get<double>(), p.at("siblings").get<double>(), p.at("decay").get<double>(),
           p.at("log_error").get<double>(), p.at("overlap").get<double>()});
      read_orders(p, out.positional.back());
    }
    read_variants(in, out);
    out.texts = texts(in.at("texts"));
    return out;
  }

  static MachineShares machine(const json& in) {
    return {.read = in.at("read_of_raw").get<double>(),
            .copy = in.at("copy_of_raw").get<double>(),
            .l2 = in.at("l2_bytes_per_clock_sm").get<double>(),
            .products = in.at("products_of_fp32_peak").get<double>(),
            .graph_launch = in.at("graph_launch_us").get<double>(),
            .stream_launch = in.at("stream_launch_us").get<double>()};
  }

  // Of a fit that began at another.
  static PriorFit prior(const json& in) {
    const json& scale = in.at("scale");
    return {in.at("device").get<std::string>(),
            in.at("points").get<std::int64_t>(),
            in.at("runs").get<std::vector<std::string>>(),
            {.read = scale.at("read").get<double>(),
             .written_time = scale.at("written_time").get<double>(),
             .l2 = scale.at("l2").get<double>(),
             .products = scale.at("products").get<double>(),
             .graph_gap = scale.at("graph_gap").get<double>(),
             .stream_gap = scale.at("stream_gap").get<double>()}};
  }

  FittedModel model() const {
    FittedModel m;
    m.device = file_.at("device").get<std::string>();
    m.hardware_key = file_.at("hardware").get<std::string>();
    m.geometry = file_.at("geometry").get<std::string>();
    m.dtype = word("dtype", dtype_of);
    m.conditions.launch = word("launch", launch_mode_of);
    m.evidence = provenance(file_.at("evidence"));
    m.points = file_.at("points").get<std::int64_t>();
    m.runs = file_.at("runs").get<std::vector<std::string>>();
    m.small_pair_nodes = file_.value("small_pair_nodes", std::int64_t{0});
    m.acceptance = acceptance(file_.at("acceptance"));
    m.machine = machine(file_.at("machine"));
    if (file_.contains("prior")) {
      m.prior = prior(file_.at("prior"));
    }
    m.system_time = field(file_.at("system_residuals"));
    for (const json& q : file_.at("system_errors")) {
      m.systems.push_back({q.at("name").get<std::string>(), q.at("log_latency_90").get<double>(),
                           q.at("points").get<std::int64_t>(),
                           q.at("longest").get<std::int64_t>()});
    }
    if (file_.contains("batch")) {
      m.batch = batch(file_.at("batch"));
    }
    if (file_.contains("energy")) {
      m.energy = energy_law(file_.at("energy"), path_);
    }
    read_parameters(m);
    read_evidence(m);
    return m;
  }

  std::string path_;
  json file_;
};

}  // namespace

FittedModel read_fit(const std::string& path) {
  return Reader(path).read();
}

}  // namespace versieve::engine
