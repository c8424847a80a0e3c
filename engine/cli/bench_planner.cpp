#include "engine/cli/bench_planner.h"

#include <CLI/CLI.hpp>

#include "engine/analyse/plan/table_file.h"
#include "engine/cli/argument_text.h"
#include "engine/cli/output.h"
#include "engine/io/atomic_file.h"
#include "engine/io/formatted.h"
#include "engine/measure/sweep/sweep.h"
#include "model/words/error.h"

namespace versieve::cli {
namespace {

using engine::PlannerBenchOptions;

PlannerBenchOptions bench_options(const PlannerOptions& options, const PlanTable& table) {
  PlannerBenchOptions out = options.bench;
  if (options.precision) {
    out.classes = {parse_class(*options.precision)};
  }
  if (options.buckets) {
    out.buckets = parse_buckets(*options.buckets);
  }
  out.synthetic = synthetic_play(options.acceptance, table, out.seed);
  engine::check_options(out, table);
  return out;
}

// The sweep of the steps that the table rests on, for `profile --sweep`.
Answer list_steps(const PlannerOptions& options, const PlanTable& table) {
  const PlannerBenchOptions wanted = bench_options(options, table);
  std::string regime = engine::text_regimes().front(), split = "calibration";
  if (!wanted.prompts.empty()) {
    const engine::PromptList prompts = engine::listed_prompts(wanted.prompts);
    write_notes(engine::passed_over_prompts(wanted.prompts));
    regime = prompts.front().regime;
    split = prompts.front().split;
  }
  const std::string sweep =
      engine::sweep_of_steps(table, wanted.classes.empty() ? table.classes : wanted.classes,
                             wanted.candidates, regime, split);
  if (sweep.empty()) {
    throw Error(ExitCode::kAnswerNo, options.table + ": the table ranks no step that a sweep has");
  }
  engine::write_file_atomically(options.list_steps, sweep);
  const std::size_t steps = nlohmann::json::parse(sweep).at("grids").size();
  return {.json = {{"sweep", options.list_steps}, {"steps", steps}},
          .text = std::to_string(steps) + " steps stand in " + options.list_steps +
                  ": versieve profile --db DATABASE --sweep " + name_to_read(options.list_steps)};
}

void show(const engine::PlannerProgress& at) {
  write_progress(engine::formatted("\r%s: prompt %lld of %lld played, %.0f s passed   ",
                                   name_of(at.range).c_str(), static_cast<long long>(at.prompt),
                                   static_cast<long long>(at.prompts), at.seconds));
}

}  // namespace

void declare_planner(CLI::App& app, PlannerOptions& options) {
  PlannerBenchOptions& bench = options.bench;
  app.add_option("--table", options.table, "planner, batch: a table of `versieve plan`");
  app.add_option("--model", bench.model,
                 "planner: folder of the pair that plays it; or a geometry (nsa-1b, nsa-8b) with "
                 "random weights, with --acceptance");
  declare_acceptance(app, options.acceptance, "planner: ");
  app.add_option("--prompts", bench.prompts,
                 "planner: a folder of prompts, or .txt files and .json files of messages");
  app.add_option("--class", options.precision, "planner, batch: only this precision class");
  app.add_option("--buckets", options.buckets, "planner: only these of the table, as 0-4096");
  app.add_option("--max-new-tokens", bench.max_new_tokens, "planner: generated a prompt (128)");
  app.add_option("--prompts-per-cell", bench.prompts_per_bucket, "planner: at most (4)")
      ->check(CLI::Range(1, 1000));
  app.add_option("--candidates", bench.candidates,
                 "planner: of a cell's tuples, of which the oracle takes the fastest (3)")
      ->check(CLI::Range(1, 5));
  app.add_option("--rounds", bench.rounds, "planner: of all contenders on a prompt (3)")
      ->check(CLI::Range(1, 1000));
  app.add_flag("--join", bench.joins_texts,
               "planner: where prompts are too short for a bucket, texts one after the other");
  app.add_flag("--sweep-guard", bench.sweeps_guard,
               "planner: both guards also with one of their constants changed at a time");
  app.add_option("--temperature", bench.temperature, "planner, batch: 0, the default, is greedy");
  app.add_option("--seed", bench.seed, "planner: of sampling at a temperature above 0");
  app.add_option("--dtype", bench.dtype, "planner: f32, bf16 or f64 (cpu)");
  add_output(app, "--list-steps", options.list_steps,
             "planner: play nothing, write the steps that the table rests on as a sweep");
}

Answer bench_planner(const PlannerOptions& options, const std::string& out) {
  if (options.table.empty()) {
    throw Error(ExitCode::kUsage, "bench planner needs a table: --table FILE, of `versieve plan`");
  }
  const PlanTable table = engine::read_plan_table(options.table);
  engine::require_other_file(options.table, options.list_steps);
  engine::require_writable(options.list_steps);
  if (!options.list_steps.empty()) {
    return list_steps(options, table);
  }
  if (options.bench.model.empty() || (options.bench.prompts.empty() && !options.acceptance.from)) {
    throw Error(ExitCode::kUsage,
                "bench planner needs a pair's folder and prompts: --model DIR --prompts DIR; or "
                "a geometry with synthetic acceptance: --model nsa-1b --acceptance law");
  }
  engine::require_other_file(options.table, out);
  engine::require_writable(out);
  const engine::PlannerBench bench =
      engine::bench_planner(table, bench_options(options, table), show);
  write_progress("\n");
  const std::string json = engine::planner_bench_json(bench);
  if (!out.empty()) {
    engine::write_file_atomically(out, json);
  }
  return {.json = nlohmann::json::parse(json),
          .text = engine::planner_bench_text(bench),
          .code = bench.failure().empty() ? ExitCode::kDone : ExitCode::kAnswerNo};
}

}  // namespace versieve::cli
