// versieve bench: one layer's verification against the baseline, the floor and the public path;
// whole steps against plain decoding and the memory's bandwidth, of one request and of many; a
// planner table played live.
#include <CLI/CLI.hpp>
#include <charconv>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>

#include "engine/analyse/fit/fit_file.h"
#include "engine/analyse/plan/plan_bench.h"
#include "engine/analyse/plan/table_file.h"
#include "engine/cli/argument_text.h"
#include "engine/cli/bench_planner.h"
#include "engine/cli/bench_takes.h"
#include "engine/cli/commands.h"
#include "engine/cli/output.h"
#include "engine/io/atomic_file.h"
#include "engine/io/shipped_data.h"
#include "engine/measure/bench/batch_bench.h"
#include "engine/measure/bench/prefill_bench.h"
#include "engine/measure/bench/specattn_bench.h"
#include "engine/measure/bench/step_bench.h"
#include "engine/measure/bench/verify_bench.h"
#include "engine/measure/bench/verify_peers.h"
#include "model/plan/concurrency.h"
#include "model/words/llm_shape.h"
#include "profiler/environment.h"
#include "profiler/gpu_timer.h"

namespace versieve::cli {
namespace {

using nlohmann::json;

struct Options {
  std::string fit, what, geometry = "nsa-1b", cache = "cold", out, peer_path, fla_path;
  std::string heads, compression;     // "64/4"; empty: the geometry's
  std::string backend;                // empty: cuda; of planner auto
  std::string peer_script;            // empty: the shipped one
  std::string draft;                  // specattn
  std::vector<std::string> texts;     // the same
  std::optional<std::int64_t> yield;  // the same, and batch
  bool others = false;                // the same
  bool dense = false;                 // prefill
  bool energy = false;                // batch
  std::vector<std::int64_t> queries, contexts, requests, rows;
  std::vector<double> overlaps;
  std::vector<std::string> groups, strategies;
  std::int64_t samples = 31;
  int threads = 0;
  PlannerOptions planner;

  bool on_gpu() const { return backend != "cpu"; }
  int cpu_threads() const {
    return threads > 0 ? threads
                       : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  }
};

// Options that were not given keep the bench's own.
template <class T>
void take(const std::vector<T>& given, std::vector<T>& into) {
  if (!given.empty()) {
    into = given;
  }
}

// "64/4": two counts.
std::pair<std::int64_t, std::int64_t> two_counts(const char* option, const std::string& text) {
  const auto parsed = [](std::string_view part) {
    std::int64_t count = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), count);
    return error == std::errc{} && end == part.data() + part.size() && count >= 1 ? count : 0;
  };
  const std::size_t slash = std::min(text.find('/'), text.size());
  const std::string_view whole = text;
  const std::int64_t first = parsed(whole.substr(0, slash));
  const std::int64_t second =
      slash < text.size() ? parsed(whole.substr(slash + 1)) : std::int64_t{0};
  if (first == 0 || second == 0) {
    throw Error(ExitCode::kUsage,
                std::string(option) + " takes two counts, as 64/4, not '" + text + "'");
  }
  return {first, second};
}

engine::VerifyBenchOptions verify_options(const Options& options) {
  engine::VerifyBenchOptions out;
  out.geometry = options.geometry;
  if (!options.heads.empty()) {
    const auto [query, kv] = two_counts("--heads", options.heads);
    out.heads = engine::HeadCounts{query, kv};
  }
  if (!options.compression.empty()) {
    const auto [block, stride] = two_counts("--compression", options.compression);
    out.compression = engine::Compression{block, stride};
  }
  take(options.queries, out.queries);
  take(options.contexts, out.contexts);
  take(options.overlaps, out.overlaps);
  take(options.groups, out.groups);
  out.warm = options.cache == "warm";
  out.samples = options.samples;
  out.on_gpu = options.on_gpu();
  out.threads = options.cpu_threads();
  return out;
}

engine::StepBenchOptions step_options(const Options& options) {
  engine::StepBenchOptions out;
  out.geometry = options.geometry;
  take(options.contexts, out.contexts);
  take(options.strategies, out.strategies);
  out.samples = options.samples;
  out.on_gpu = options.on_gpu();
  out.threads = options.cpu_threads();
  return out;
}

// Folders that were given and the scripts that run them, looked for before anything is measured.
engine::PeerFiles peer_files(const Options& options) {
  const auto shipped = [](const std::string& path, const char* script) {
    return path.empty() ? std::string() : engine::shipped_data(script).string();
  };
  return {
      .public_path = options.peer_path,
      .public_script = options.peer_script.empty()
                           ? shipped(options.peer_path, "engine/measure/bench/peer_nsa_triton.py")
                           : options.peer_script,
      .fla_path = options.fla_path,
      .fla_script = shipped(options.fla_path, "engine/measure/bench/peer_nsa_fla.py")};
}

engine::VerifyBench verify(const Options& options, const engine::VerifyBenchOptions& wanted) {
  const engine::PeerFiles files = peer_files(options);
  engine::check_peers(files, wanted);
  engine::VerifyBench bench = engine::bench_verify(wanted, [](const engine::VerifyCell& cell) {
    write_progress("\rL " + std::to_string(cell.context_len) + ", N " +
                   std::to_string(cell.queries) + " done   ");
  });
  write_progress("\n");
  engine::run_peers(files, bench);
  return bench;
}

Answer bench_verify(const Options& options) {
  const engine::VerifyBench bench = verify(options, verify_options(options));
  return {.json = json::parse(engine::verify_bench_json(bench)),
          .text = engine::verify_bench_text(bench)};
}

Answer bench_step(const Options& options) {
  const engine::StepBench bench = engine::bench_steps(
      step_options(options),
      [](const engine::StepRow& row) { write_progress("\r" + row.strategy.text() + " done   "); });
  write_progress("\n");
  return {.json = json::parse(engine::step_bench_json(bench)),
          .text = engine::step_bench_text(bench)};
}

Answer bench_specattn(const Options& options) {
  engine::SpecAttnBenchOptions wanted{.draft = options.draft, .texts = {}};
  if (options.geometry != Options().geometry) {
    wanted.geometry = options.geometry;
  }
  wanted.texts.assign(options.texts.begin(), options.texts.end());
  take(options.contexts, wanted.contexts);
  take(options.strategies, wanted.strategies);
  wanted.yield = options.yield;
  wanted.others = options.others;
  wanted.samples = options.samples;
  wanted.on_gpu = options.on_gpu();
  wanted.threads = options.cpu_threads();
  const engine::SpecAttnBench bench =
      engine::bench_specattn(wanted, [](const engine::SpecAttnRow& row) {
        write_progress("\r" + row.strategy.text() + " done   ");
      });
  write_progress("\n");
  return {.json = json::parse(engine::specattn_bench_json(bench)),
          .text = engine::specattn_bench_text(bench)};
}

// Weights are random, of a geometry: a pair's own tuples say nothing of them.
void require_geometry(const PlanTable& table, const std::string& path) {
  try {
    named_llm_shape(table.model);
  } catch (const Error&) {
    throw Error(ExitCode::kUsage,
                path + ": the table was planned for the pair " + table.model +
                    ", and bench batch plays geometries with random weights: plan for one (plan "
                    "--model nsa-1b), or run the pair (generate --prompts --table)");
  }
}

// `table`: that is played, or null; then contexts are as its buckets have them where nobody says.
engine::BatchBenchOptions batch_options(const Options& options, const PlanTable* table) {
  engine::BatchBenchOptions out;
  out.table = table;
  if (table != nullptr) {
    require_geometry(*table, options.planner.table);
    out.contexts.clear();
    for (const ContextBucket& bucket : table->buckets) {
      out.contexts.push_back(bucket.high);
    }
    out.requests.clear();
    for (const PlanTable* of : by_concurrency(*table)) {
      out.requests.push_back(of->concurrency);
    }
  }
  if (options.planner.precision) {
    out.precision = parse_class(*options.planner.precision);
  }
  out.geometry = options.geometry;
  take(options.contexts, out.contexts);
  take(options.requests, out.requests);
  take(options.strategies, out.strategies);
  out.yield = options.yield;
  out.energy = options.energy;
  out.temperature = options.planner.bench.temperature;
  engine::check_temperature(out.temperature);
  out.samples = options.samples;
  out.on_gpu = options.on_gpu();
  out.threads = options.cpu_threads();
  return out;
}

std::optional<PlanTable> batch_table(const Options& options) {
  return options.planner.table.empty()
             ? std::nullopt
             : std::optional(engine::read_plan_table(options.planner.table));
}

Answer bench_batch(const Options& options) {
  const std::optional<PlanTable> table = batch_table(options);
  const engine::BatchBench bench = engine::bench_batch(
      batch_options(options, table ? &*table : nullptr), [](const engine::BatchBenchRow& row) {
        write_progress("\r" + row.strategy.text() + ", " + std::to_string(row.requests) +
                       " requests done   ");
      });
  write_progress("\n");
  return {.json = json::parse(engine::batch_bench_json(bench)),
          .text = engine::batch_bench_text(bench)};
}

engine::PrefillBenchOptions prefill_options(const Options& options) {
  engine::PrefillBenchOptions out;
  out.geometry = options.geometry;
  out.dense = options.dense;
  take(options.contexts, out.prompts);
  take(options.rows, out.rows);
  out.samples = options.samples;
  out.on_gpu = options.on_gpu();
  out.threads = options.cpu_threads();
  out.measured_utc = profiler::utc_now();
  out.revision = profiler::revision();
  return out;
}

Answer bench_prefill(const Options& options) {
  const engine::PrefillBench bench =
      engine::bench_prefill(prefill_options(options), [](const engine::PrefillRow& row) {
        write_progress("\r" + std::to_string(row.prompt) + " tokens done   ");
      });
  write_progress("\n");
  return {.json = json::parse(engine::prefill_bench_json(bench)),
          .text = engine::prefill_bench_text(bench)};
}

// Both, the first one on a part of its grid.
Answer bench_all(Options options) {
  const Answer step = bench_step(options);
  if (options.queries.empty()) {
    options.queries = {16, 64};
  }
  if (options.overlaps.empty()) {
    options.overlaps = {0.8};
  }
  const Answer verified = bench_verify(options);
  return {.json = {{"bench", "all"}, {"verify", verified.json}, {"step", step.json}},
          .text = verified.text + "\n" + step.text};
}

// How fast tuples are priced and re-ranked; needs no GPU.
Answer bench_plan(const Options& options) {
  if (options.fit.empty()) {
    throw Error(ExitCode::kUsage, "bench plan needs a fit: --fit FILE, written by fit --out");
  }
  engine::PlanBenchOptions wanted;
  wanted.threads = options.threads > 0 ? options.threads : wanted.threads;
  const engine::PlanBench b = engine::bench_plan(engine::read_fit(options.fit), wanted);
  return {.json = {{"bench", "plan"},
                   {"tuples", b.tuples},
                   {"contexts", b.contexts},
                   {"build_ms", b.build_ms},
                   {"one_core_ns", b.one_core_ns},
                   {"rerank_ms", b.rerank_ms},
                   {"threads", b.threads},
                   {"hardware", b.hardware},
                   {"best", b.best}},
          .text = engine::text_of(b)};
}

// The answer, in a file too where one was named.
Answer written(Answer answer, const std::string& out) {
  if (!out.empty()) {
    engine::write_file_atomically(out, answer.json.dump(1) + "\n");
  }
  return answer;
}

Answer bench_planner_on(const Options& options) {
  PlannerOptions planner = options.planner;
  planner.bench.backend = options.backend.empty() ? "auto" : options.backend;
  planner.bench.threads = options.threads;
  return bench_planner(planner, options.out);
}

// What would change nothing beside what was given with it.
void check_pairs(const Options& options) {
  if (options.energy && !options.on_gpu()) {
    throw Error(ExitCode::kUsage, "--energy is by the GPU's own count: leave --backend cpu out");
  }
  if (!options.peer_script.empty() && options.peer_path.empty()) {
    throw Error(ExitCode::kUsage, "--peer-script runs what --peer-path names: give that too");
  }
}

Answer run_bench(const Options& options) {
  check_pairs(options);
  if (options.what == "plan") {
    return written(bench_plan(options), options.out);
  }
  if (options.what == "planner") {
    return bench_planner_on(options);
  }
  if (options.backend == "auto") {
    throw Error(ExitCode::kUsage, "bench " + options.what + " takes --backend cuda or cpu");
  }
  // What was asked for is judged before what is there.
  named_llm_shape(options.geometry);
  if (options.what == "verify" || options.what == "all") {
    engine::check_options(verify_options(options));
  }
  for (const std::string& strategy : options.strategies) {
    Strategy::parse(strategy);
  }
  if (options.what == "batch") {
    const std::optional<PlanTable> table = batch_table(options);
    engine::check_batch_bench(batch_options(options, table ? &*table : nullptr));
  }
  if (options.what == "prefill") {
    engine::check_prefill_bench(prefill_options(options));
  }
  for (const std::string& group : options.groups) {
    Strategy::parse("nsa/d2k2n4/bfs/" + group + "/F*");
  }
  if (options.on_gpu()) {
    if (const std::string missing = profiler::gpu_missing_because(); !missing.empty()) {
      throw Error(ExitCode::kEnvironment, missing);
    }
  }
  engine::require_other_file(options.fit, options.out);
  engine::require_writable(options.out);
  return written(options.what == "verify"     ? bench_verify(options)
                 : options.what == "step"     ? bench_step(options)
                 : options.what == "batch"    ? bench_batch(options)
                 : options.what == "prefill"  ? bench_prefill(options)
                 : options.what == "specattn" ? bench_specattn(options)
                                              : bench_all(options),
                 options.out);
}

// Names of the options that were given, but for WHAT itself.
std::vector<std::string> given_options(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() > 0 && option->get_positional() == false) {
      names.push_back(option->get_name());
    }
  }
  return names;
}

}  // namespace

Run declare_bench(CLI::App& app, const CommandContext&) {
  const auto options = std::make_shared<Options>();
  app.add_option("WHAT", options->what,
                 "verify: one layer; step: whole steps; all: both; batch: steps of many requests; "
                 "prefill: how long a prompt takes to be read; specattn: whole steps of a geometry "
                 "with a real draft model; plan: pricing of "
                 "tuples; planner: a planner table played by the "
                 "pair that it is for")
      ->required()
      ->check(CLI::IsMember(
          {"verify", "step", "all", "batch", "prefill", "specattn", "plan", "planner"}));
  app.add_option("--fit", options->fit, "plan: a fit written by `versieve fit --out`");
  app.add_option("--geometry", options->geometry,
                 "nsa-1b, nsa-8b or demo; of steps also with its draft's tokens (nsa-1b:v32000)");
  app.add_option("--n", options->queries, "verifier queries, as 4,16,64")->delimiter(',');
  app.add_option("--context", options->contexts, "committed tokens, or a prompt's, as 4096,65536")
      ->delimiter(',');
  app.add_option("--overlap", options->overlaps, "of neighbours' blocks, as 0.5,0.8")
      ->delimiter(',');
  app.add_option("--group", options->groups, "c1, c2e, c4e, c8e, c2a, c4a, c8a")->delimiter(',');
  app.add_option("--strategy", options->strategies, "of steps; may be repeated");
  app.add_option("--draft", options->draft,
                 "specattn: folder of a dense draft model, or of a model with one in draft/");
  app.add_option("--text", options->texts, "specattn: what the draft reads; may be repeated");
  app.add_option("--yield", options->yield, "specattn, batch: tokens of a step with a draft");
  app.add_option("--requests", options->requests, "batch: requests at once, as 1,8,64")
      ->delimiter(',');
  app.add_option("--rows", options->rows,
                 "prefill: tokens in one forward, as 256,2048; 0: chains one after the other")
      ->delimiter(',');
  app.add_flag("--energy", options->energy,
               "batch: watts and tokens a joule by the GPU's own count, 0.6 s more a row");
  app.add_flag("--dense", options->dense, "prefill: the geometry with dense attention");
  app.add_flag("--others", options->others,
               "specattn: beside it StreamingLLM and Quest, reading as much");
  app.add_option("--cache", options->cache, "cold (rotated buffers) or warm")
      ->check(CLI::IsMember({"cold", "warm"}));
  app.add_option("--samples", options->samples, "of each contender, taking turns");
  app.add_option("--peer-path", options->peer_path,
                 "checkout of native-sparse-attention-triton, run beside");
  app.add_option("--peer-script", options->peer_script,
                 "the script that runs it; the shipped one if left out");
  app.add_option("--fla-path", options->fla_path,
                 "folder with flash-linear-attention's package fla, run beside");
  app.add_option("--heads", options->heads,
                 "verify: query and KV heads in the place of the geometry's, as 64/4");
  app.add_option("--compression", options->compression,
                 "verify: keys in a compressed token and from one to the next, as 64/64");
  app.add_option("--backend", options->backend,
                 "cuda, or cpu for the reference kernels; of planner also auto, its default")
      ->check(CLI::IsMember({"cuda", "cpu", "auto"}));
  app.add_option("--threads", options->threads, "CPU threads; all if left out")
      ->check(CLI::Range(1, 1024));
  add_output(app, "--out", options->out, "write the answer to this JSON file");
  declare_planner(app, options->planner);
  return [options, &app] {
    check_taken(options->what, given_options(app));
    return run_bench(*options);
  };
}

}  // namespace versieve::cli
