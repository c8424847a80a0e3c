// versieve simulate: one layer's attention, a step or a kernel alone through the memory-hierarchy
// simulator, counters by kernel; with --check, every measured point of a database
// beside its simulation.
#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <set>

#include "db/evidence.h"
#include "db/store.h"
#include "engine/analyse/fit/point_parts.h"
#include "engine/analyse/plan/hardware_file.h"
#include "engine/analyse/sim/simulate_point.h"
#include "engine/analyse/sim/validation.h"
#include "engine/cli/commands.h"
#include "engine/cli/measured_selections.h"
#include "engine/cli/output.h"
#include "engine/io/formatted.h"
#include "model/words/draft_tree.h"
#include "model/words/kernel_case.h"
#include "model/words/range_counters.h"
#include "model/words/strategy.h"

namespace versieve::cli {
namespace {

struct Options {
  std::string hardware, strategy, model = "nsa-1b";
  std::string cache_state = name_of(CacheState::kColdRotate);
  std::int64_t context_len = 16384;
  double overlap = 0.8;
  std::string database, kind, workload = "attention", selections;
  bool check = false;
  std::int64_t rows = 1;
  std::int64_t every = 1;
};

// The measured point's key with the form that it ran: points of a dtype or a shape that the fused
// form does not take do not name it.
PointKey key_as_run(const PointMeasurement& point) {
  PointKey key = point.key;
  for (const RangeMeasurement& range : point.ranges) {
    if (range.path == "nsa_compressed") {
      Strategy strategy = Strategy::parse(key.strategy);
      strategy.form = NsaForm::kVanilla;
      key.strategy = strategy.text();
    }
  }
  return key;
}

nlohmann::json range_json(const RangeMeasurement& range) {
  nlohmann::json counters = nlohmann::json::object();
  for (const CounterValue& counter : range.counters) {
    counters[counter.metric] = *counter.value;
  }
  return {{"path", range.path}, {"launches", range.launches}, {"counters", counters}};
}

double value_of(const RangeMeasurement& range, const char* metric) {
  return counter_of(range, metric).value_or(0.0);
}

std::string point_text(const PointMeasurement& point) {
  std::string text = "                  DRAM read    written   L2 requests   hit rate       time\n";
  for (const RangeMeasurement& range : point.ranges) {
    const double requests = value_of(range, "lts__t_requests.sum");
    text += formatted(
        "%-16s %8.3f MB  %6.3f MB  %12.0f   %6.1f %%  %6.1f us\n", range.path.c_str(),
        value_of(range, kDramBytesRead) / 1e6, value_of(range, kDramBytesWrite) / 1e6, requests,
        100.0 * value_of(range, "lts__t_requests_lookup_hit.sum") / std::max(requests, 1.0),
        value_of(range, "gpu__time_duration.sum") / 1e3);
  }
  return text;
}

constexpr const char* kDefaultHardware = "h200-sxm";
constexpr const char* kAllWorkloads = "all";

// Rows of a kernel alone are asked for; a strategy names its nodes.
bool is_kernel(const std::string& workload) {
  const WorkloadKind kind = workload_kind(workload);
  return kind == WorkloadKind::kTopk || kind == WorkloadKind::kSampling ||
         kind == WorkloadKind::kMachine;
}

// A kernel's case that is asked for as a strategy would be refused for its attention.
void require_workload_of(const Options& options) {
  for (const char* kernel : {"topk", "sampling"}) {
    if (options.strategy.starts_with(std::string(kernel) + ":")) {
      throw Error(ExitCode::kUsage, "'" + options.strategy + "' is a case of a kernel alone: " +
                                        "name its --workload " + kernel);
    }
  }
}

// Larger ones take minutes, then hours; a sweep takes no more rows either.
void require_bounded_rows(const Options& options) {
  constexpr std::int64_t kMostRows = 4096;
  constexpr std::int64_t kMostElements = std::int64_t{1} << 29;
  if (options.rows > kMostRows || options.rows * options.context_len > kMostElements) {
    throw Error(ExitCode::kUsage,
                "simulate: of a kernel alone at most " + std::to_string(kMostRows) +
                    " --rows and 2^29 scores or logits in all (--rows times --context), not " +
                    std::to_string(options.rows) + " rows of " +
                    std::to_string(options.context_len));
  }
}

std::int64_t queries_of(const Options& options) {
  if (is_kernel(options.workload)) {
    require_bounded_rows(options);
    return options.rows;
  }
  require_workload_of(options);
  const Strategy strategy = Strategy::parse(options.strategy);
  return workload_kind(options.workload) == WorkloadKind::kRectify ? strategy.resa_rectify_every
                                                                   : strategy.draft.nodes;
}

// The points that --selections names, which must be of what is asked: nobody takes a synthetic law
// for a measurement.
engine::MeasuredChoice choice_of(const Options& options) {
  const engine::MeasuredChoice choice = measured_choice(options.selections);
  if (choice.empty()) {
    return choice;
  }
  if (is_kernel(options.workload) ||
      Strategy::parse(options.strategy).attention != AttentionMethod::kSpecAttn) {
    throw Error(ExitCode::kUsage, "--selections say how much SpecAttn reads, and '" +
                                      options.strategy + "' is not of it");
  }
  if (!choice.share(Strategy::parse(options.strategy), options.context_len)) {
    throw Error(
        ExitCode::kAnswerNo,
        options.selections + " has no points of the p and the chain of '" + options.strategy + "'");
  }
  return choice;
}

// What a user of hints should know of the counters; empty of other cases.
std::string note_of(const Options& options) {
  const bool hinted = workload_kind(options.workload) == WorkloadKind::kTopk &&
                      TopkCase::parse(options.strategy).hint.has_value();
  return hinted ? "The share of right hints moves no byte: as many hints and scores are read "
                  "whatever they say, and a useless one leaves the sample's threshold.\n"
                : std::string();
}

Answer run_one(const Options& options) {
  const std::string hardware = options.hardware.empty() ? kDefaultHardware : options.hardware;
  PointKey key{.workload = workload_kind(options.workload),
               .model = options.model,
               .regime = "synthetic",
               .strategy = options.strategy,
               .dtype = Dtype::kBf16,
               .cache_state = cache_state_of(options.cache_state),
               .launch = LaunchMode::kGraph,
               .context_len = options.context_len,
               .num_queries = queries_of(options)};
  if (is_kernel(options.workload)) {
    key.model = "kernel";
  } else if (key.num_queries > 1) {
    key.overlap = options.overlap;
  }
  const engine::MeasuredChoice choice = choice_of(options);
  const engine::SimulationPlan plan{
      .machine = engine::memory_machine(engine::load_hardware(hardware)),
      .protocol = key.cache_state == CacheState::kWarm ? engine::collection_warm()
                                                       : engine::collection_quiet(),
      .choice = &choice};
  const PointMeasurement point = engine::simulate_point(key, {}, plan);
  if (point.status != PointStatus::kOk) {
    throw Error(ExitCode::kAnswerNo, point.reason);
  }
  Answer answer{.text = point_text(point) + note_of(options)};
  answer.json = {{"hardware", hardware},
                 {"strategy", options.strategy},
                 {"workload", options.workload},
                 {"model", options.model},
                 {"context_len", options.context_len},
                 {"cache_state", options.cache_state},
                 {"ranges", nlohmann::json::array()}};
  for (const RangeMeasurement& range : point.ranges) {
    answer.json["ranges"].push_back(range_json(range));
  }
  return answer;
}

nlohmann::json summary_json(const engine::SimulationErrors& s) {
  return {{"what", s.what},
          {"points", s.count},
          {"dram_bytes", {{"median_ape", s.bytes_median}, {"p90_ape", s.bytes_p90}}},
          {"dram_read", {{"median_ape", s.read_median}, {"p90_ape", s.read_p90}}},
          {"l2_hit_rate",
           {{"median_points", 100.0 * s.hit_rate_median}, {"p90_points", 100.0 * s.hit_rate_p90}}}};
}

nlohmann::json comparison_json(const engine::Comparison& c) {
  return {{"path", c.path},
          {"strategy", c.key.strategy},
          {"context_len", c.key.context_len},
          {"cache_state", name_of(c.key.cache_state)},
          {"overlap", c.key.overlap ? nlohmann::json(*c.key.overlap) : nlohmann::json()},
          {"counted",
           {{"bytes", c.counted_bytes},
            {"read", c.counted_read},
            {"hit_rate", c.counted_hit_rate},
            {"requests", c.counted_requests}}},
          {"simulated",
           {{"bytes", c.simulated_bytes},
            {"read", c.simulated_read},
            {"hit_rate", c.simulated_hit_rate},
            {"requests", c.simulated_requests}}}};
}

bool was_counted(const PointMeasurement& point) {
  return std::any_of(point.ranges.begin(), point.ranges.end(),
                     [](const RangeMeasurement& range) { return dram_bytes(range).has_value(); });
}

// Why a counted point has no simulated twin, or an empty text: every point is simulated as sweeps
// count it and as the engine enqueues it.
std::string no_twin_because(const PointMeasurement& point, const RunRecord& run) {
  if (!run.counted_warm) {
    return db::kCountedCold;
  }
  if (!point.key.pair.empty()) {
    return "a trained pair's own weights";
  }
  return engine::outdated_because(point);
}

// The machine that a run was counted on, unless another is named.
HardwareSpec hardware_of(const Options& options, const RunRecord& run) {
  if (!options.hardware.empty()) {
    return engine::load_hardware(options.hardware);
  }
  const HardwareSpec* entry = hardware_for_device(run.device);
  if (entry == nullptr) {
    throw Error(ExitCode::kAnswerNo, "the catalogue has no entry for the device '" + run.device +
                                         "' of " + options.database +
                                         ": name its --hardware, a key or a JSON file");
  }
  return *entry;
}

// Every measured point is simulated as it was counted: its machine, its blocks, its cache state,
// its collection.
// What a check of counted points found.
struct Checked {
  std::vector<engine::Comparison> comparisons;
  std::set<std::string> machines;
  std::int64_t refused = 0;
  std::map<std::string, std::int64_t> left_out;
  std::map<std::string, bool> launches;  // by name: whether counters are there
};

// Every n-th point of a run, counted against simulated.
void check_points(const std::vector<PointMeasurement>& points, const RunRecord& run,
                  const engine::EmptyLaunch* empty, const Options& options, bool says_progress,
                  Checked& found) {
  const HardwareSpec hardware = hardware_of(options, run);
  found.machines.insert(hardware.key);
  engine::MemoryMachine machine = engine::memory_machine(hardware);
  if (empty != nullptr) {
    machine = engine::counted_on(machine, *empty);
  }
  const engine::SimulationPlan plan{
      .machine = machine, .protocol = engine::collection_warmed_up(), .seed = run.seed};
  for (std::size_t i = 0; i < points.size(); i += static_cast<std::size_t>(options.every)) {
    if (!was_counted(points[i])) {
      continue;
    }
    if (const std::string reason = no_twin_because(points[i], run); !reason.empty()) {
      found.left_out[reason] += 1;
      continue;
    }
    const PointMeasurement simulated = engine::simulate_point(
        key_as_run(points[i]), {points[i].adjacent_overlap, points[i].unique_blocks}, plan);
    found.refused += simulated.status != PointStatus::kOk ? 1 : 0;
    for (const engine::Comparison& c : engine::compare(points[i], simulated)) {
      found.comparisons.push_back(c);
    }
    if (says_progress && i % 16 == 0) {
      write_progress("\r" + run.kind + " " + std::to_string(i) + "/" +
                     std::to_string(points.size()) + "   ");
    }
  }
}

// Launches that were compared with nothing, with or without counters.
std::string names_of(const Checked& found, bool counted) {
  std::set<std::string> compared;
  for (const engine::Comparison& comparison : found.comparisons) {
    compared.insert(comparison.path);
  }
  std::string names;
  for (const auto& [path, has_counters] : found.launches) {
    if (has_counters == counted && compared.find(path) == compared.end()) {
      names += (names.empty() ? "" : ", ") + path;
    }
  }
  return names;
}

Answer answer_of(const Checked& found, const std::string& database) {
  const std::vector<engine::SimulationErrors> summaries = engine::summarize(found.comparisons);
  Answer answer{.text = "\n" + engine::summary_text(summaries)};
  const std::string uncounted = names_of(found, false);
  const std::string untraced = names_of(found, true);
  answer.text += uncounted.empty() ? "" : "no counters in the database: " + uncounted + "\n";
  answer.text += untraced.empty() ? "" : "counted, not compared: " + untraced + "\n";
  for (const auto& [reason, points] : found.left_out) {
    answer.text += "left out: " + std::to_string(points) + " points, " + reason + "\n";
  }
  answer.json = {{"db", database},
                 {"hardware", found.machines},
                 {"refused", found.refused},
                 {"uncounted", names_of(found, false)},
                 {"untraced", names_of(found, true)},
                 {"errors", nlohmann::json::array()},
                 {"points", nlohmann::json::array()}};
  for (const engine::Comparison& comparison : found.comparisons) {
    answer.json["points"].push_back(comparison_json(comparison));
  }
  for (const engine::SimulationErrors& summary : summaries) {
    answer.json["errors"].push_back(summary_json(summary));
  }
  return answer;
}

// What empty launches counted on each device of the database, by the mean of their points.
std::map<std::string, engine::EmptyLaunch> empty_launches(const db::Store& store) {
  std::map<std::string, engine::EmptyLaunch> found;
  std::map<std::string, double> launches;
  for (const db::StoredRun& run : store.runs()) {
    for (const PointMeasurement& point :
         store.points({.run_id = run.id, .workload = WorkloadKind::kMachine, .only_ok = true})) {
      if (MachineCase::parse(point.key.strategy).work != MachineWork::kLaunch) {
        continue;
      }
      for (const RangeMeasurement& range : point.ranges) {
        engine::EmptyLaunch& empty = found[run.record.device];
        empty.requests += value_of(range, "lts__t_requests.sum");
        empty.hits += value_of(range, "lts__t_requests_lookup_hit.sum");
        launches[run.record.device] += static_cast<double>(range.launches);
      }
    }
  }
  for (auto& [device, empty] : found) {
    empty.requests /= std::max(1.0, launches[device]);
    empty.hits /= std::max(1.0, launches[device]);
  }
  return found;
}

std::vector<WorkloadKind> checked_workloads(const Options& options) {
  if (options.workload != kAllWorkloads) {
    return {workload_kind(options.workload)};
  }
  return {WorkloadKind::kAttention, WorkloadKind::kStep,         WorkloadKind::kDecode,
          WorkloadKind::kRectify,   WorkloadKind::kTopk,         WorkloadKind::kSampling,
          WorkloadKind::kMachine,   WorkloadKind::kRectifiedStep};
}

void note_launches(const std::vector<PointMeasurement>& points, Checked& found) {
  for (const PointMeasurement& point : points) {
    for (const RangeMeasurement& range : point.ranges) {
      bool& counted = found.launches[range.path];
      counted = counted || dram_bytes(range).has_value();
    }
  }
}

Answer run_check(const Options& options, const CommandContext& context) {
  const db::Store store = db::Store::open(options.database, db::OpenMode::kReadOnly);
  Checked found;
  const std::map<std::string, engine::EmptyLaunch> empty = empty_launches(store);
  for (const db::StoredRun& run : store.runs()) {
    if (is_simulated(run.record) || (!options.kind.empty() && run.record.kind != options.kind)) {
      continue;
    }
    for (const WorkloadKind workload : checked_workloads(options)) {
      const std::vector<PointMeasurement> points =
          store.points({.run_id = run.id, .workload = workload, .only_ok = true});
      note_launches(points, found);
      if (std::any_of(points.begin(), points.end(), was_counted)) {
        const auto own = empty.find(run.record.device);
        check_points(points, run.record, own == empty.end() ? nullptr : &own->second, options,
                     !context.json, found);
      }
    }
  }
  if (found.comparisons.empty()) {
    throw Error(ExitCode::kAnswerNo, "no " + options.workload +
                                         " points with counters to compare with in " +
                                         options.database + db::left_out_text(found.left_out));
  }
  return answer_of(found, options.database);
}

// An option of the other form would change nothing, and is refused.
void check_form(const CLI::App& app, const Options& options) {
  const auto refuse = [&](std::initializer_list<const char*> names, const std::string& why) {
    for (const char* name : names) {
      if (app.get_option(name)->count() > 0) {
        throw Error(ExitCode::kUsage, std::string("simulate: ") + name + why);
      }
    }
  };
  if (options.check) {
    refuse({"--strategy", "--model", "--context", "--rows", "--overlap", "--cache-state",
            "--selections"},
           " is of one case, and --check takes each point's own");
  } else {
    refuse({"--db", "--sweep", "--every"},
           " is of --check, which holds a database's points "
           "against the simulator");
  }
}

}  // namespace

Run declare_simulate(CLI::App& app, const CommandContext& context) {
  const auto options = std::make_shared<Options>();
  app.add_option("--hardware", options->hardware,
                 "catalogue key or JSON file; if left out h200-sxm, with --check the machine that "
                 "each run was counted on");
  app.add_option("--strategy", options->strategy,
                 "strategy text; its schedule names the layer; of a kernel alone its case, "
                 "as topk:gvr/k2048");
  app.add_option("--model", options->model, "geometry: nsa-1b, nsa-8b, dense-1b or demo");
  app.add_option("--workload", options->workload,
                 "attention (one NSA layer), step (draft and target), decode (one dense layer), "
                 "rectify (one layer of ReSA's pass), rectified_step (the whole pass), topk, "
                 "sampling or machine; with --check all of them")
      ->check(CLI::IsMember({"attention", "step", "decode", "rectify", "rectified_step", "topk",
                             "sampling", "machine", "all"}));
  app.add_option("--context", options->context_len, "tokens in the cache")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--rows", options->rows, "of scores or logits: topk, sampling, machine")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--selections", options->selections,
                 "database whose points of the sweep selections say how much SpecAttn reads");
  app.add_option("--overlap", options->overlap, "of neighbouring queries' blocks")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--cache-state", options->cache_state, "what L2 holds before: cold_rotate, warm")
      ->check(CLI::IsMember({"cold_rotate", "warm"}));
  app.add_flag("--check", options->check, "simulate the points of --db and report the errors");
  app.add_option("--db", options->database, "database of counted points, with --check");
  app.add_option("--sweep", options->kind, "with --check: only runs of that sweep");
  app.add_option("--every", options->every, "with --check: every k-th point of a run")
      ->check(CLI::Range(1, 1 << 20));
  return [options, &app, &context] {
    check_form(app, *options);
    if (options->check ? options->database.empty() : options->strategy.empty()) {
      throw Error(ExitCode::kUsage,
                  "simulate: name a --strategy, or --check with the --db to compare with");
    }
    if (!options->check && options->workload == kAllWorkloads) {
      throw Error(ExitCode::kUsage, "simulate: --workload all goes with --check");
    }
    if (!options->check && !is_kernel(options->workload) && app.get_option("--rows")->count() > 0) {
      throw Error(ExitCode::kUsage,
                  "simulate: --rows are of a kernel alone (--workload topk, sampling or machine)");
    }
    return options->check ? run_check(*options, context) : run_one(*options);
  };
}

}  // namespace versieve::cli
