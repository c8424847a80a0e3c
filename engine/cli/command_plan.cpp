// versieve plan: ranks every strategy that can run, for each context bucket and precision class.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <sstream>

#include "engine/analyse/fit/acceptance_fit.h"
#include "engine/analyse/fit/fit_file.h"
#include "engine/analyse/plan/given_schedules.h"
#include "engine/analyse/plan/given_systems.h"
#include "engine/analyse/plan/hardware_file.h"
#include "engine/analyse/plan/pair_plan.h"
#include "engine/analyse/plan/prefill_file.h"
#include "engine/analyse/plan/table_file.h"
#include "engine/cli/argument_text.h"
#include "engine/cli/commands.h"
#include "engine/cli/evidence.h"
#include "engine/io/atomic_file.h"
#include "engine/io/formatted.h"
#include "engine/io/shipped_data.h"
#include "engine/measure/sweep/sweep.h"
#include "model/plan/concurrency.h"
#include "model/plan/planner.h"

namespace versieve::cli {
namespace {

constexpr std::int64_t kRanksPrinted = 3;
constexpr double kHoldout = 0.2;

struct Options {
  std::string database, fit, device, hardware, model, out;
  std::optional<std::string> classes, buckets, baseline;  // an empty text is not an absent one
  std::optional<std::string> pair, prior, guard, concurrency, objective;
  std::optional<double> itl_ms, ttft_ms;
  std::string prefill;  // a file
  std::string pair_database;
  std::optional<double> rate, overlap, max_loss, bandwidth;
  std::optional<std::int64_t> draft_vocab;
  std::int64_t requests = kUsualRequests;
  double temperature = 0.0;
  std::vector<std::string> schedules, borrow;
  engine::GivenSystems systems;

  // Where acceptance and a pair's own points are looked for; may be empty.
  const std::string& evidence_database() const {
    return pair_database.empty() ? database : pair_database;
  }
};

void set_concurrency(const Options& options, PlanOptions& out) {
  if (options.concurrency) {
    out.concurrency = parse_concurrency(*options.concurrency);
  }
  const std::string objective = options.objective.value_or("tokens");
  if (objective != "tokens" && objective != "latency" && objective != "energy") {
    throw Error(ExitCode::kUsage,
                "--objective is tokens, latency or energy, not '" + objective + "'");
  }
  const bool bounds = options.itl_ms || options.ttft_ms;
  if (objective == "latency" && !bounds) {
    throw Error(ExitCode::kUsage,
                "--objective latency needs --itl-ms, the most ms between tokens of a request, or "
                "--ttft-ms, the most to its first token");
  }
  if (objective == "tokens" && bounds) {
    throw Error(ExitCode::kUsage, "--itl-ms and --ttft-ms go with --objective latency or energy");
  }
  if (options.ttft_ms && options.prefill.empty()) {
    throw Error(
        ExitCode::kUsage,
        "--ttft-ms needs --prefill, how long prompts take as bench prefill --out writes it");
  }
  for (const std::optional<double>& bound : {options.itl_ms, options.ttft_ms}) {
    if (bound && !(*bound > 0.0 && *bound <= 1e6)) {
      throw Error(ExitCode::kUsage, "--itl-ms and --ttft-ms take ms above 0, to 1000000");
    }
  }
  out.aims = {.objective = objective == "energy" ? Objective::kEnergy : Objective::kTokens,
              .itl_ms = options.itl_ms,
              .ttft_ms = options.ttft_ms,
              .prompts = {}};
  if (!options.prefill.empty()) {
    out.aims.prompts = engine::read_prompt_times(options.prefill);
  }
}

// In the order in which a table lists them, each once.
std::vector<PrecisionClass> classes_of(const std::string& names) {
  std::set<PrecisionClass> classes;
  std::istringstream in(names + ",");
  for (std::string name; std::getline(in, name, ',');) {
    classes.insert(parse_class(name));
  }
  return {classes.begin(), classes.end()};
}

PlanOptions plan_options(const Options& options) {
  PlanOptions out;
  set_concurrency(options, out);
  if (options.buckets) {
    out.buckets = parse_buckets(*options.buckets);
  }
  if (options.classes) {
    out.classes = classes_of(*options.classes);
  }
  if (options.guard) {
    out.guard = with_constants(out.guard, *options.guard);
  }
  if (options.baseline) {
    out.baseline = Strategy::parse(*options.baseline).text();
  }
  if (options.max_loss && *options.max_loss < 0.0) {
    throw Error(ExitCode::kUsage, "--max-loss is in nats a token, and no loss is below 0");
  }
  out.loss.most_nats = options.max_loss;
  if (options.requests < 1 || options.requests > kMostRequests) {
    throw Error(ExitCode::kUsage, "--requests takes 1 to " + std::to_string(kMostRequests));
  }
  out.requests = options.requests;
  if (!(options.temperature >= 0.0 && options.temperature <= engine::kMostTemperature)) {
    throw Error(ExitCode::kUsage, engine::formatted("--temperature takes 0 to %g, 0 for greedy",
                                                    engine::kMostTemperature));
  }
  out.systems = engine::planned_systems(options.systems);
  return out;
}

// Whose tokens a step the plan counts on: the measured pair's, unless another is named or assumed.
// of_pair: the acceptance is that of the pair that is planned for, as far as it has one.
void choose_acceptance(const Options& options, bool of_pair, FittedModel& fit) {
  if (options.rate) {
    fit.acceptance = engine::assumed_acceptance(*options.rate, fit.acceptance);
  }
  // A fit's own is of greedy texts.
  const bool is_fits = !of_pair && !options.rate && options.temperature > 0.0;
  if (!options.pair && !is_fits) {
    return;
  }
  const std::string& database = options.evidence_database();
  if (database.empty()) {
    throw Error(ExitCode::kUsage,
                "--acceptance or --temperature with --fit needs --acceptance-db, the database that "
                "holds the pair");
  }
  const std::vector<PointMeasurement> points = read_acceptance(database);
  if (options.pair) {
    fit.acceptance =
        engine::fit_acceptance_of(points, *options.pair, fit.acceptance, options.temperature);
    return;
  }
  engine::use_sampled(points, database, options.temperature, fit);
}

FittedModel fitted_model(const Options& options, const std::string& hardware_key) {
  if (!options.fit.empty()) {
    return engine::read_fit(options.fit);
  }
  if (options.database.empty()) {
    const auto shipped = engine::try_shipped_data("db/measured/h100.db");
    throw Error(ExitCode::kUsage,
                "plan needs measurements: --db FILE, or --fit FILE" +
                    (shipped ? "; an H100's come with this program: --db " + shipped->string()
                             : std::string()));
  }
  if (options.prior) {
    check_prior(*options.prior);
  }
  return fit_evidence(read_evidence(options.database, options.device, hardware_key), "",
                      {.holdout = kHoldout, .leave_out_regimes = false}, options.prior)
      .model;
}

engine::PairShape pair_of(const Options& options) {
  const std::string& database = options.evidence_database();
  return pair_shape(options.model.empty() ? usual_model(database, options.device) : options.model,
                    options.draft_vocab, database);
}

// Options that would change nothing of a plan for this pair. Throws Error(kUsage).
void check_idle(const Options& options, const engine::PairShape& pair,
                const std::vector<PrecisionClass>& classes) {
  const auto refuse = [](const std::string& why) { throw Error(ExitCode::kUsage, why); };
  const bool dense = pair.target.attention == AttentionKind::kDense;
  const bool finds_model = options.model.empty() && !options.evidence_database().empty();
  if (!options.fit.empty() && !options.device.empty() && !finds_model) {
    refuse("--device chooses among the devices of a database, and --fit is of one");
  }
  if (dense && !options.schedules.empty()) {
    refuse("--schedule is of layers that select blocks, and a dense target has none");
  }
  if (dense && options.overlap) {
    refuse("--assume-overlap is of selected blocks, and a dense target selects none");
  }
  if (!options.classes) {
    return;
  }
  const auto plans = [&classes](PrecisionClass precision) {
    return std::find(classes.begin(), classes.end(), precision) != classes.end();
  };
  if (options.max_loss && classes == std::vector{PrecisionClass::kStrict}) {
    refuse("--max-loss leaves out what loses, and of class Strict nothing does");
  }
  for (const engine::SystemOption& option : engine::system_options()) {
    const std::string flag = option.flag;
    const bool chooses = flag.starts_with("--specattn"), mends = flag == "--resa-rectify";
    // A dense target may draft for itself over chosen blocks.
    const bool counts = (plans(PrecisionClass::kSparse) && !mends) ||
                        (plans(PrecisionClass::kSparseRectified) && !chooses) ||
                        (dense && plans(PrecisionClass::kStrict) && !chooses && !mends);
    if (options.systems.*option.given && !counts) {
      refuse(flag + " is of class " +
             (chooses ? "Sparse"
              : mends ? "Sparse+Rectify"
                      : "Sparse or Sparse+Rectify") +
             ", which --class leaves out");
    }
  }
}

// A table takes the place of nothing that it is made of.
void check_out(const Options& options) {
  std::vector<std::string> inputs = options.schedules;
  inputs.insert(inputs.end(),
                {options.fit, options.prefill, options.hardware, options.prior.value_or("")});
  for (const std::string& in : inputs) {
    engine::require_other_file(in, options.out);
  }
  engine::require_writable(options.out);
}

Answer run_plan(const Options& options) {
  std::optional<HardwareSpec> machine;
  if (!options.hardware.empty()) {
    machine = engine::load_hardware(options.hardware);
  }
  const engine::PairShape pair = pair_of(options);
  PlanOptions wanted = plan_options(options);
  check_idle(options, pair, wanted.classes);
  wanted.schedules = engine::planned_schedules(options.schedules, pair.target);
  check_out(options);
  const engine::Borrowed borrowed = engine::parse_borrowed(options.borrow);
  if (!pair.is_pair() && !options.borrow.empty()) {
    throw Error(ExitCode::kUsage,
                "--borrow is for a trained pair: a geometry by its name borrows anyway");
  }
  if (!pair.is_pair() && !options.pair && options.temperature == 0.0 &&
      !options.pair_database.empty()) {
    throw Error(
        ExitCode::kUsage,
        "--acceptance-db goes with --acceptance or --temperature, or with a trained pair as "
        "--model");
  }
  FittedModel fit = fitted_model(options, machine ? machine->key : std::string());
  const HardwareSpec built = machine ? *machine : engine::load_hardware(fit.hardware_key);
  const HardwareSpec hardware =
      options.bandwidth ? engine::with_bandwidth(built, *options.bandwidth) : built;
  if (wanted.aims.prompts) {
    engine::require_prompts_of(*wanted.aims.prompts, pair.target, hardware.key);
    engine::date_against(newest_points(options.fit.empty() ? options.database : "", fit.device),
                         *wanted.aims.prompts);
  }
  engine::PlanGrounds grounds =
      plan_grounds(pair, borrowed, options.evidence_database(), fit.device);
  grounds.unused = engine::use_pair(grounds.known, pair, borrowed, options.pair || options.rate,
                                    fit, options.temperature);
  choose_acceptance(options, pair.is_pair(), fit);
  if (options.overlap) {
    engine::assume_overlap(*options.overlap, fit.acceptance);
  }
  fit.temperature = options.temperature;
  wanted = engine::follow_pair(grounds, fit,
                               {.buckets = options.buckets.has_value(),
                                .classes = options.classes.has_value(),
                                .schedules = !options.schedules.empty(),
                                .baseline = options.baseline.has_value()},
                               std::move(wanted));
  const std::string calibrated = engine::calibrated_remark(grounds, wanted.schedules);
  const PlanTable table = plan(fit, hardware, pair.target, wanted);
  if (const std::string none = kept_by_none_text(table); !none.empty()) {
    throw Error(ExitCode::kAnswerNo, none);
  }
  const std::string json = engine::plan_table_json(table);
  if (!options.out.empty()) {
    engine::write_file_atomically(options.out, json);
  }
  return {.json = nlohmann::json::parse(json),
          .text = engine::plan_table_text(table, kRanksPrinted) +
                  (calibrated.empty() ? "" : "\n" + calibrated + "\n")};
}

// What is planned for: requests, and what matters of them.
void add_objectives(CLI::App& app, Options& options) {
  app.add_option("--requests", options.requests,
                 "how many requests the intervals are of: the mean over so many texts lies in them "
                 "9 times of 10; " +
                     std::to_string(kUsualRequests) + " if left out");
  app.add_option("--concurrency", options.concurrency,
                 "requests at a time to plan for, as 1,4,16,64 (1 is always among them), within "
                 "the machine's memory; with when speculation breaks even and how likely it loses");
  app.add_option(
      "--objective", options.objective,
      "tokens: the most a second in all (if left out); latency: the most within --itl-ms or "
      "--ttft-ms; energy: the most a joule, where power was sampled (profile --sweep "
      "batch-energy)");
  app.add_option("--itl-ms", options.itl_ms,
                 "with --objective latency or energy: ms between tokens of a request that a tuple "
                 "keeps with 9 of 10 such requests, in the mean of their tokens");
  app.add_option("--ttft-ms", options.ttft_ms,
                 "likewise: ms from a request that finds a place to its first token, of a prompt "
                 "as long as the range's longest context");
  app.add_option("--prefill", options.prefill,
                 "how long prompts take on that machine: a file of bench prefill --out");
}

}  // namespace

Run declare_plan(CLI::App& app, const CommandContext&) {
  const auto options = std::make_shared<Options>();
  app.add_option("--db", options->database, "database of measured points; a fit is made to them");
  CLI::Option* const fit = app.add_option("--fit", options->fit,
                                          "a fit written by `versieve fit --out`, instead of --db");
  app.add_option("--prior", options->prior,
                 "fit of another machine that the one to --db begins at: `versieve fit --help`")
      ->excludes(fit);
  app.add_option("--device", options->device, "part of the measured device's name");
  app.add_option("--hardware", options->hardware,
                 "machine to plan for: catalogue key or JSON file; the measured one if left out");
  app.add_option("--bandwidth", options->bandwidth,
                 "of its memory in TB/s, in the place of the machine's own: one that nobody has "
                 "built");
  app.add_option("--model", options->model,
                 "geometry of the pair: nsa-1b, nsa-8b, demo, each also with its draft's tokens "
                 "(nsa-1b:v32000); the folder of a trained pair, sparse or dense; or the name or "
                 "hash of one that "
                 "the database holds; if left out the pair that was timed there, else nsa-1b");
  app.add_option("--draft-vocab", options->draft_vocab,
                 "tokens that the draft can propose; what the pair says, and of a geometry 32000 "
                 "as published EAGLE-3 drafts for Llama 3, if left out");
  app.add_option("--class", options->classes, "only this precision class, or these with commas");
  app.add_option("--buckets", options->buckets,
                 "context ranges, as 0-4096,4096-8192; 4096 tokens each up to 16384, and of a "
                 "pair's folder to its positions, if left out");
  app.add_option("--baseline", options->baseline, "fixed strategy to compare with");
  app.add_option("--guard-constants", options->guard,
                 "of the runtime guard that the table carries, as alpha=0.2,drop_ratio=0.85,"
                 "warmup=8,hysteresis=5,max_transitions=2, which stand if left out");
  app.add_option(
      "--schedule", options->schedules,
      "layers that refresh and reuse, as FRRRRRRF or a file of `versieve calibrate`, in the "
      "place of those that acceptance of the pair was measured with, else of (FR)*, (FRR)* and "
      "(FRRR)*; may be repeated");
  CLI::Option* const pair = app.add_option(
      "--acceptance", options->pair,
      "tokens a step of this pair, as it was profiled or imported under that name, or by eight or "
      "more digits of its hash; those of the pair in --model's folder if left out, else of the "
      "measured pair with most points");
  app.add_option("--acceptance-db", options->pair_database,
                 "database that holds that pair, or the points of --model's pair; "
                 "--db if left out");
  app.add_option("--borrow", options->borrow,
                 "what may be another's where none was measured of the pair in --model's folder: "
                 "times, acceptance, quality, several of them, or none; all if left out, and the "
                 "table says what is borrowed");
  app.add_option(
         "--assume-acceptance", options->rate,
         "no pair's: the draft's best child is right with this probability, 0 to 1, at every "
         "depth")
      ->excludes(pair);
  app.add_option(
      "--assume-overlap", options->overlap,
      "no pair's: neighbouring queries have this share of their selected blocks in "
      "common, 0 to 1, as 0.35 for random weights, whose steps bench batch --table plays");
  app.add_option("--max-loss", options->max_loss,
                 "only tuples that lose at most so many nats a token of KL against the exact run, "
                 "by the upper end of the measured 95 % interval; those whose loss was not "
                 "measured are left out too, baselines stay");
  app.add_option("--temperature", options->temperature,
                 "that the texts are sampled at, one that acceptance was measured at (profile "
                 "--temperature); 0, greedily, if left out");
  for (const engine::SystemOption& option : engine::system_options()) {
    app.add_option(option.flag, options.get()->systems.*option.given, option.help);
  }
  add_objectives(app, *options);
  add_output(app, "--out", options->out, "write the table to this JSON file");
  return [options] { return run_plan(*options); };
}

}  // namespace versieve::cli
