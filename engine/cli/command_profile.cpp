// versieve profile: runs a sweep and stores each point in a transaction of its own, so that an
// interrupted sweep resumes where it was.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "db/store.h"
#include "engine/analyse/plan/hardware_file.h"
#include "engine/analyse/plan/pair_plan.h"
#include "engine/analyse/sim/simulate_point.h"
#include "engine/cli/argument_text.h"
#include "engine/cli/commands.h"
#include "engine/cli/machine_file.h"
#include "engine/cli/measured_selections.h"
#include "engine/cli/output.h"
#include "engine/cli/pair_profile.h"
#include "engine/cli/progress_text.h"
#include "engine/cli/stored_campaign.h"
#include "engine/io/atomic_file.h"
#include "engine/io/input_file.h"
#include "engine/io/pair_identity.h"
#include "engine/io/shipped_data.h"
#include "engine/io/strict_json.h"
#include "engine/measure/sweep/campaign.h"
#include "engine/measure/sweep/pair_sweep.h"
#include "profiler/gpu_timer.h"

namespace versieve::cli {
namespace {

using engine::CampaignMachine;
using engine::CampaignProgress;
using engine::SweepPlan;

constexpr std::int64_t kMaxSweepBytes = 1 << 20;

// Set by SIGINT and SIGTERM; looked at after each point.
volatile std::sig_atomic_t stop_requested = 0;

void request_stop(int) {
  stop_requested = 1;
}

struct Options {
  std::string database, sweep, backend = "auto", shard = "1/1";
  std::string demo, model;  // empty: the shipped one
  std::string dense;        // of the sweep pair; empty: beside the model, if it is there
  std::vector<std::string> prompts;
  std::string hardware_out;
  std::optional<std::string> hardware;  // of backend sim
  std::string selections;               // likewise: a database
  std::vector<double> temperatures;     // of the sweep pair
  std::string quality = "all";          // of the sweep pair: or none
  std::vector<std::string> tasks;       // empty: the shipped ones
  std::optional<std::int64_t> questions;
  std::optional<double> quality_seconds;
  int threads = 0;
  bool resume = false;

  bool measures_quality() const { return quality != "none" && temperatures.empty(); }
};

std::string sweep_text(const Options& options) {
  for (const std::string& name : engine::sweep_names()) {
    if (name == options.sweep) {
      return std::string(engine::built_in_sweep(name));
    }
  }
  if (!engine::is_there(options.sweep)) {
    engine::built_in_sweep(options.sweep);  // throws, naming those that there are
  }
  return engine::read_text_file(options.sweep, kMaxSweepBytes);
}

// The pair and its texts: those that are named, else those of --demo, else those that ship.
engine::PairSource pair_of(const Options& options) {
  namespace fs = std::filesystem;
  const auto demo = [&options](const char* part) {
    return options.demo.empty() ? engine::shipped_data(std::string("engine/demo/") + part)
                                : fs::path(options.demo) / part;
  };
  engine::PairSource pair;
  pair.model = options.model.empty() ? demo("nsa") : fs::path(options.model);
  pair.id = engine::pair_identity(pair.model);
  std::vector<fs::path> prompts(options.prompts.begin(), options.prompts.end());
  if (prompts.empty()) {
    prompts.push_back(demo("prompts"));
  }
  pair.prompts = engine::listed_prompts(prompts);
  write_notes(engine::passed_over_prompts(prompts));
  return pair;
}

// What is measured, and of which pair where the sweep wants one.
struct Work {
  SweepPlan plan;
  engine::PairSource pair;
  bool has_pair = false;
  std::optional<engine::PairAtHand> at_hand;  // of the sweep pair
};

// The sweep pair, with those schedules beside F*.
void plan_pair(Work& work, const std::vector<std::string>& reuse,
               const std::vector<double>& temperatures, Backend backend) {
  engine::PairSweepShape shape = work.at_hand->shape;
  shape.reuse = reuse;
  shape.temperatures = temperatures;
  work.plan = engine::sweep_from_json(engine::pair_sweep(shape, work.at_hand->backend),
                                      engine::kPairSweep, backend, work.pair.id);
  work.plan.pair = engine::pair_configuration(work.pair);
}

// The simulator takes a pair's shapes alone: where no folder is named, a sweep's other points.
Work work_of(const Options& options, Backend backend) {
  const std::string text = sweep_text(options);
  Work work{.plan = engine::sweep_from_json(text, options.sweep, backend)};
  const bool names_pair = !options.model.empty() || !options.demo.empty();
  work.has_pair = engine::wants_pair(work.plan) && (backend != Backend::kSimulator || names_pair ||
                                                    options.sweep == engine::kPairSweep);
  if (!work.has_pair) {
    if (!options.model.empty() || !options.prompts.empty() || !options.demo.empty()) {
      throw Error(ExitCode::kUsage, "the sweep " + work.plan.name +
                                        " measures no trained pair, for which --model, --prompts "
                                        "and --demo are");
    }
    return work;
  }
  work.pair = pair_of(options);
  if (options.sweep == engine::kPairSweep) {
    // Simulated are the points that a GPU is asked for.
    work.at_hand.emplace(work.pair, backend == Backend::kSimulator ? Backend::kCuda : backend);
    plan_pair(work, engine::reuse_schedules({}), options.temperatures, backend);
  } else {
    work.plan = engine::sweep_from_json(text, options.sweep, backend, work.pair.id);
    work.plan.pair = engine::pair_configuration(work.pair);
    if (backend != Backend::kSimulator) {
      engine::require_walkable(work.plan, work.pair);
    }
  }
  return work;
}

Answer answer_of(const CampaignMachine& machine, const CampaignProgress& progress,
                 std::int64_t skipped, const std::string& uuid, const std::string& database) {
  const RunRecord& record = machine.record;
  Answer answer;
  answer.json = {{"run", uuid},
                 {"sweep", record.kind},
                 {"backend", name_of(machine.backend)},
                 {"device", record.device},
                 {"counter_access", name_of(record.counter_access)},
                 {"counter_detail", record.counter_detail},
                 {"self_check", name_of(record.self_check)},
                 {"points", progress.done},
                 {"ok", progress.done - progress.refused - progress.failed},
                 {"refused", progress.refused},
                 {"failed", progress.failed},
                 {"skipped", skipped},
                 {"seconds", progress.elapsed_s},
                 {"database", database}};
  answer.text = record.kind + " on " + record.device + ": " + std::to_string(progress.done) +
                " points stored in " + database + " (" + std::to_string(progress.refused) +
                " refused, " + std::to_string(progress.failed) + " failed, " +
                std::to_string(skipped) + " there before) in " + duration_text(progress.elapsed_s) +
                ". " + record.counter_detail;
  const bool none_measured =
      progress.done > 0 && progress.failed + progress.refused == progress.done;
  answer.code = none_measured ? ExitCode::kAnswerNo : ExitCode::kDone;
  return answer;
}

void stop_if_requested(const std::string& after) {
  if (stop_requested != 0) {
    throw Error(ExitCode::kEnvironment,
                "interrupted " + after + "; --resume goes on with the rest");
  }
}

// The pair's dense model: the one that is named, else that beside the pair; none is no error.
std::filesystem::path dense_model(const Options& options, const engine::PairAtHand& pair) {
  if (options.quality == "none") {
    return {};
  }
  if (options.dense.empty()) {
    return engine::dense_model_beside(pair);
  }
  const std::string reason = engine::no_dense_model_because(pair, options.dense);
  if (!reason.empty()) {
    throw Error(ExitCode::kUsage, "--dense: " + reason);
  }
  return options.dense;
}

PairProfileOptions beside_points(const Options& options, const engine::PairAtHand& pair,
                                 const engine::Shard& shard) {
  PairProfileOptions out{.resume = options.resume,
                         .threads = options.threads,
                         .shard = shard,
                         .tasks = {options.tasks.begin(), options.tasks.end()},
                         .dense = dense_model(options, pair),
                         .questions = options.questions.value_or(0),
                         .quality_s = options.quality_seconds.value_or(0.0),
                         .on_pause = [] {
                           stop_if_requested(
                               "while schedules or strategies were judged: sets that "
                               "were finished are stored");
                         }};
  if (out.tasks.empty() && options.measures_quality()) {
    for (const char* name : {"recall", "continuation", "next_line"}) {  // the most telling first
      out.tasks.push_back(engine::shipped_data(std::string("engine/demo/tasks/") + name + ".json"));
    }
  }
  return out;
}

void refuse_quality_options(const Options& options, const Work& work, bool is_simulated) {
  const bool asks = !options.tasks.empty() || options.questions || options.quality_seconds ||
                    !options.dense.empty();
  if ((asks || options.quality != "all") && (!work.at_hand || is_simulated)) {
    throw Error(
        ExitCode::kUsage,
        "--quality, --tasks, --questions, --quality-seconds and --dense are of the sweep pair on "
        "this machine");
  }
  if (!options.temperatures.empty() && (!work.at_hand || is_simulated)) {
    throw Error(ExitCode::kUsage,
                "--temperature is of the sweep pair on this machine; other sweeps say their own "
                "under the key 'temperature'");
  }
  if (!options.temperatures.empty() && (asks || options.quality == "only")) {
    throw Error(ExitCode::kUsage,
                "--temperature measures what sampled texts yield and no quality: leave out "
                "--quality only, --tasks, --questions, --quality-seconds and --dense");
  }
  if (options.quality == "none" && asks) {
    throw Error(ExitCode::kUsage,
                "--quality none asks no questions: leave out --tasks, --questions, "
                "--quality-seconds and --dense");
  }
}

// What stands beside the points of the sweep pair, in the answer.
void add_pair_profile(const std::vector<engine::CalibratedSchedule>& calibrated,
                      const std::optional<PairQualityOutcome>& quality, Answer& answer) {
  answer.json["calibrated"] = nlohmann::ordered_json::array();
  for (const engine::CalibratedSchedule& own : calibrated) {
    answer.json["calibrated"].push_back(
        {{"budget", own.budget}, {"schedule", own.schedule}, {"rise", own.rise}});
  }
  answer.text += calibrated.empty() ? " No schedule was calibrated."
                                    : " Calibrated: " + engine::calibrated_text(calibrated) + ".";
  if (quality) {
    answer.json["quality"] = {{"rows", quality->rows},
                              {"skipped", quality->skipped},
                              {"not_begun", quality->not_begun},
                              {"left_out", quality->left_out}};
    answer.text += " Quality: " + std::to_string(quality->rows) + " rows.";
    if (quality->not_begun > 0) {
      answer.text += " The time was over before " + std::to_string(quality->not_begun) +
                     " strategies of sets: --resume goes on.";
    }
    for (const std::string& why : quality->left_out) {
      answer.text += "\nLeft out: " + why;
    }
  }
}

// What could not be measured, a line a kind, and which texts were too short for a context.
void add_refusals(const RefusedPoints& refused, const Work& work, Answer& answer) {
  answer.json["refusals"] = refused.json();
  for (const std::string& line : refused.lines()) {
    answer.text += "\n" + line;
  }
  if (!work.at_hand) {
    return;
  }
  answer.json["short_texts"] = nlohmann::ordered_json::array();
  for (const std::string& line : engine::pair_sweep_notes(work.at_hand->shape)) {
    answer.json["short_texts"].push_back(line);
    answer.text += "\n" + line;
  }
}

// Cold points as nobody watches them, warm ones after their like.
std::function<PointMeasurement(const PointKey&)> simulator_of(const HardwareSpec& hardware,
                                                              const Work& work,
                                                              const std::string& selections) {
  return [machine = engine::memory_machine(hardware), seed = work.plan.seed,
          pair = work.has_pair ? &work.pair : nullptr,
          choice = measured_choice(selections)](const PointKey& key) {
    const bool warm = key.cache_state == CacheState::kWarm;
    return engine::simulate_point(
        key, {},
        {.machine = machine,
         .protocol = warm ? engine::collection_warm() : engine::collection_quiet(),
         .seed = seed,
         .pair = pair,
         .choice = &choice});
  };
}

std::optional<HardwareSpec> simulated_hardware(const Options& options, Backend backend) {
  if (backend == Backend::kSimulator) {
    return engine::load_hardware(options.hardware.value_or("h200-sxm"));
  }
  if (options.hardware || !options.selections.empty()) {
    throw Error(ExitCode::kUsage,
                std::string(options.hardware ? "--hardware names the machine that --backend sim "
                                               "simulates; "
                                             : "--selections are of --backend sim; ") +
                    name_of(backend) + " measures this one");
  }
  return {};
}

// Only a GPU has rates that are measured, and is described by them; its launches can be simulated.
void require_gpu(const SweepPlan& plan, Backend backend, const std::string& hardware_out) {
  const bool is_simulated = backend == Backend::kSimulator;
  const bool of_machine =
      !is_simulated && std::any_of(plan.points.begin(), plan.points.end(), [](const PointKey& key) {
        return key.workload == WorkloadKind::kMachine;
      });
  if (backend != Backend::kCuda && (of_machine || !hardware_out.empty())) {
    throw Error(ExitCode::kEnvironment,
                (of_machine ? "the sweep " + plan.name + " measures" : "--hardware-out describes") +
                    " a GPU" +
                    (is_simulated ? ", not the simulator"
                                  : ", and there is none: " + profiler::gpu_missing_because()));
  }
}

engine::CampaignOptions campaign_of(const Options& options, const Work& work,
                                    const std::optional<HardwareSpec>& simulated) {
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  engine::CampaignOptions campaign{.threads = options.threads > 0 ? options.threads : cores,
                                   .pair = work.pair};
  if (simulated) {
    campaign.simulate = simulator_of(*simulated, work, options.selections);
  }
  return campaign;
}

void add_hardware(const db::Store& store, const CampaignMachine& machine, const std::string& path,
                  Answer& answer) {
  if (!path.empty()) {
    write_machine_file(store.points({.workload = WorkloadKind::kMachine, .only_ok = true}), machine,
                       path);
    answer.json["hardware"] = path;
    answer.text += " What the machine gives stands in " + path + ", which plan --hardware takes.";
  }
}

Answer run_profile(const Options& options) {
  const engine::Shard shard = engine::parse_shard(options.shard);
  const Backend backend = engine::resolved_backend(options.backend);
  const std::optional<HardwareSpec> simulated = simulated_hardware(options, backend);
  Work work = work_of(options, backend);
  refuse_quality_options(options, work, simulated.has_value());
  require_gpu(work.plan, backend, options.hardware_out);
  engine::require_two_files(options.database, options.hardware_out);
  engine::require_writable(options.hardware_out);
  const bool runs_pair = work.at_hand && !simulated;
  const PairProfileOptions beside =
      runs_pair ? beside_points(options, *work.at_hand, shard) : PairProfileOptions();
  engine::CampaignOptions campaign = campaign_of(options, work, simulated);
  db::Store store = db::Store::open(options.database, db::OpenMode::kCreateOrOpen);
  engine::require_room(options.database);
  std::signal(SIGINT, request_stop);
  std::signal(SIGTERM, request_stop);
  std::vector<engine::CalibratedSchedule> calibrated;
  if (runs_pair) {
    PairProfileOptions calibration = beside;
    calibration.resume = beside.resume || !options.temperatures.empty();  // the tuples are the same
    calibrated = calibrate_pair(store, *work.at_hand, calibration);
    plan_pair(work, engine::reuse_schedules(calibrated), options.temperatures, backend);
  }
  const SweepPlan& plan = work.plan;
  CampaignMachine machine =
      engine::open_campaign(plan, backend, simulated ? simulated->key : std::string());
  std::vector<PointKey> points = engine::shard_of(plan.points, shard.index, shard.count);
  if (options.quality == "only") {
    points.clear();
  }
  const std::size_t all = points.size();
  if (options.resume) {
    points = engine::remaining_points(points, [&](const PointKey& key) {
      return store.has_point(machine.record.kind, machine.record.configuration, key);
    });
  }
  std::optional<StoredCampaign> stored;
  campaign.on_detail = [&](StepDetail detail) { stored->keep(std::move(detail)); };
  if (!points.empty()) {  // a run of nothing says nothing
    stored.emplace(store, machine.record);
  }
  const CampaignProgress progress = engine::run_campaign(
      plan, points, machine, campaign, [&](const PointMeasurement& point) { stored->add(point); },
      [](const CampaignProgress& at) {
        write_progress(progress_text(at));
        stop_if_requested("after " + std::to_string(at.done) + " points, which are stored");
      });
  if (stored) {
    stored->complete();
  }
  Answer answer = answer_of(machine, progress, static_cast<std::int64_t>(all - points.size()),
                            stored ? stored->uuid() : std::string(), options.database);
  if (work.has_pair) {
    answer.json["pair"] = {{"name", work.pair.id.name}, {"sha256", work.pair.id.sha256}};
    answer.text = text_of(work.pair.id) + "; " + answer.text;
  }
  if (runs_pair) {
    std::optional<PairQualityOutcome> quality;
    if (options.measures_quality()) {
      quality = measure_pair_quality(store, *work.at_hand, calibrated, beside);
    }
    add_pair_profile(calibrated, quality, answer);
  }
  add_refusals(stored ? stored->refused() : RefusedPoints(), work, answer);
  answer.json["traces"] = stored ? stored->traces() : 0;
  answer.json["throttled"] = stored ? stored->clocks().throttled() : 0;
  add_hardware(store, machine, options.hardware_out, answer);
  if (const std::string clocks = stored ? stored->clocks().summary() : std::string();
      !clocks.empty()) {
    answer.text += "\n" + clocks;
  }
  return answer;
}

}  // namespace

Run declare_profile(CLI::App& app, const CommandContext&) {
  const auto options = std::make_shared<Options>();
  app.add_option("--db", options->database, "database that takes the points; made if not there")
      ->required();
  app.add_option("--sweep", options->sweep, "a built-in sweep's name, or a JSON file")->required();
  app.add_option("--backend", options->backend, "auto, cuda, cpu or sim");
  app.add_option("--hardware", options->hardware,
                 "machine that --backend sim simulates: catalogue key or JSON file (h200-sxm)");
  app.add_option("--selections", options->selections,
                 "of --backend sim: database whose points of the sweep selections say how much "
                 "SpecAttn reads; a synthetic law if left out");
  app.add_option("--shard", options->shard, "i/n: every n-th point, from the i-th (from 1)");
  CLI::Option* const model = app.add_option(
      "--model", options->model,
      "folder of the trained pair that the sweep measures: target, draft/ and tokenizer; the "
      "shipped one if left out");
  app.add_option(
      "--prompts", options->prompts,
      "texts that it is measured on: a folder, or .txt files and .json files of messages "
      "that take turns in planning and judging; the shipped ones if left out");
  app.add_option("--demo", options->demo, "folder that holds both, as nsa/ and prompts/")
      ->excludes(model);
  app.add_option("--temperature", options->temperatures,
                 "of --sweep pair: only what texts yield that are sampled at this temperature, and "
                 "on a GPU steps that draw; may be given more than once")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(CLI::Range(1e-3, engine::kMostTemperature));
  app.add_option(
         "--quality", options->quality,
         "of --sweep pair: all; none leaves out what lossy choices cost, only leaves out the "
         "points")
      ->check(CLI::IsMember({"all", "none", "only"}));
  app.add_option("--dense", options->dense,
                 "of that: folder of the pair's dense model, on which ReSA and SpecAttn are "
                 "measured; the folder dense beside the pair's if left out");
  app.add_option("--tasks", options->tasks,
                 "task sets of that, as engine/demo/tasks/*.json; the shipped ones if left out");
  app.add_option("--questions", options->questions,
                 "questions of each set at most; 48, on a CPU 4 if left out")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--quality-seconds", options->quality_seconds,
                 "after so many no more strategies are judged; every one reads texts before any "
                 "answers questions, and --resume goes on")
      ->check(CLI::Range(1e-3, 86400.0));
  app.add_option("--threads", options->threads, "CPU threads; all if left out")
      ->check(CLI::Range(1, 1024));
  add_output(app, "--hardware-out", options->hardware_out,
             "after --sweep calibrate: the machine as a hardware file for plan --hardware");
  app.add_flag("--resume", options->resume, "leave out the points that the database has");
  return [options] { return run_profile(*options); };
}

}  // namespace versieve::cli
