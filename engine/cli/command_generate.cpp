// versieve generate: parses the request and hands it to engine/run/speculate, which answers it.
#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "engine/analyse/plan/table_file.h"
#include "engine/analyse/serve/planned_batch.h"
#include "engine/cli/argument_text.h"
#include "engine/cli/commands.h"
#include "engine/cli/output.h"
#include "engine/cli/synthetic_play.h"
#include "engine/io/formatted.h"
#include "engine/io/pair_identity.h"
#include "engine/run/batch/batch_request.h"
#include "engine/run/batch/prompt_rows.h"
#include "engine/run/speculate/generate_request.h"
#include "model/words/error.h"
#include "model/words/hardware.h"

namespace versieve::cli {
namespace {

constexpr std::int64_t kMostMebibytes = std::int64_t{1} << 30;  // a pebibyte

// Many prompts.
struct BatchOptions {
  std::optional<std::string> prompts, arrivals, out;
  std::optional<std::int64_t> concurrency, prefill_rows, kv_mebibytes;

  bool any() const {
    return prompts || arrivals || out || concurrency || prefill_rows || kv_mebibytes;
  }
};

struct Options {
  engine::GenerateRequest request;
  AcceptanceOptions acceptance;
  std::optional<std::string> table, precision, guard, constants;
  BatchOptions batch;
  bool names_seed = false;
};

// Of the first text whose context lies in the bucket that holds the prompt's.
engine::GivenAcceptance given_acceptance(const engine::SyntheticPlay& play,
                                         const std::vector<ContextBucket>& buckets) {
  return {.from = play.from,
          .source = play.source,
          .behind = [play, buckets](std::int64_t context_len) {
            std::shared_ptr<const engine::SyntheticAcceptance> out;
            for (const ContextBucket& bucket : buckets) {
              if (in_range(context_len, bucket.low, bucket.high)) {
                const std::vector<engine::SyntheticText> texts = play.texts(bucket, 1);
                out = texts.empty() ? nullptr : texts.front().acceptance;
              }
            }
            return out;
          }};
}

// What the table was planned for; empty without one.
struct PlannedFor {
  std::string hardware;
  PairId pair;
  std::optional<double> temperature;
};

PlannedFor use_table(const Options& options, engine::GenerateRequest& request) {
  if (!options.table) {
    if (options.acceptance.any()) {
      throw Error(ExitCode::kUsage,
                  "--acceptance, --db, --split and --regime are of a table's tuples: give --table");
    }
    if (options.precision || options.guard || options.constants) {
      throw Error(ExitCode::kUsage,
                  "--class, --guard and --guard-constants choose from a table: give --table");
    }
    return {};
  }
  const PrecisionClass precision =
      options.precision ? parse_class(*options.precision) : PrecisionClass::kStrict;
  const GuardRule rule =
      options.guard ? parse_guard_rule(*options.guard) : GuardRule::kMostPromising;
  PlanTable table = engine::read_plan_table(*options.table);
  if (options.constants) {
    table.guard = with_constants(table.guard, *options.constants);
  }
  request.plan = guarded_plan(table, precision, rule);
  if (const std::optional<engine::SyntheticPlay> play =
          synthetic_play(options.acceptance, table, request.seed)) {
    request.given = given_acceptance(*play, table.buckets);
  }
  return {table.hardware, planned_pair(table, precision), table.temperature};
}

// A table's tokens a step and losses are of its pair: another's tuples run, and yield otherwise.
template <class Report>
void remark_pair(const PairId& planned, const engine::GenerateRequest& request, Report& report) {
  if (planned.sha256.empty() || request.given) {
    return;
  }
  const PairId here = engine::pair_identity(request.model);
  if (here.sha256 != planned.sha256) {
    report.remarks.push_back("the table was planned for " + text_of(planned) + " and ran on " +
                             text_of(here) +
                             ", whose tokens a step and losses are its own: plan for it");
  }
}

// Nor do texts yield at another temperature what they do at the table's.
template <class Report>
void remark_temperature(const std::optional<double>& planned,
                        const engine::GenerateRequest& request, Report& report) {
  if (planned && *planned != request.temperature && !request.given) {
    const auto text = [](double temperature) {
      return temperature > 0.0 ? engine::formatted("at temperature %g", temperature)
                               : std::string("greedily");
    };
    report.remarks.push_back("the table was planned for texts decoded " + text(*planned) +
                             " and ran " + text(request.temperature) +
                             ", where a step yields another number of tokens");
  }
}

// A table's order is of its machine: elsewhere its tuples run as well, and another may be best.
template <class Report>
void remark_machine(const std::string& planned, Report& report) {
  const bool on_gpu = report.backend == Backend::kCuda;
  const HardwareSpec* const here = on_gpu ? hardware_for_device(report.device) : nullptr;
  if (!planned.empty() && (here == nullptr || here->key != planned)) {
    report.remarks.push_back("the table was planned for " + planned + " and ran on " +
                             report.device + ", where another tuple may be the best");
  }
}

// Throws Error(kUsage) for what goes with one prompt alone.
void check_batch(const Options& options) {
  const engine::GenerateRequest& request = options.request;
  if (!options.batch.prompts) {
    throw Error(ExitCode::kUsage,
                "--concurrency, --arrivals, --prefill-rows, --kv-memory and --out are of many "
                "requests: give --prompts");
  }
  if (!request.prompt.text.empty() || !request.prompt.tokens.empty() ||
      !request.prompt.messages.empty()) {
    throw Error(ExitCode::kUsage,
                "generate takes one prompt (--prompt-file, --prompt-tokens, --messages) or many "
                "(--prompts), not both");
  }
  if (options.acceptance.any() || options.guard || options.constants) {
    throw Error(ExitCode::kUsage,
                "--acceptance, --db, --split, --regime, --guard and --guard-constants are of one "
                "request at a time: a batch follows the table's cells");
  }
  if (!request.uses_graphs) {
    throw Error(ExitCode::kUsage,
                "--no-graphs is of one prompt: a batch records its steps by size, or leads them");
  }
  if (options.precision && !options.table) {
    throw Error(ExitCode::kUsage, "--class chooses from a table: give --table");
  }
  if (request.strategies.size() != (options.table ? 0 : 1)) {
    throw Error(ExitCode::kUsage,
                "--prompts takes one strategy, for example nsa/d6k8n64/bfs/c1/F*, or a table");
  }
}

engine::BatchRunRequest batch_request(const Options& options) {
  const engine::GenerateRequest& request = options.request;
  const BatchOptions& batch = options.batch;
  engine::BatchRunRequest out{.model = request.model,
                              .prompts = *batch.prompts,
                              .strategy = options.table ? "" : request.strategies.front(),
                              .arrivals = {},
                              .max_new_tokens = request.max_new_tokens,
                              .temperature = request.temperature,
                              .seed = request.seed,
                              .truncation = request.truncation,
                              .sigmoid = request.sigmoid,
                              .adapts_length = request.adapts_length,
                              .kv_bytes = {},
                              .out = batch.out.value_or(""),
                              .compares_ar = request.compares_ar,
                              .backend = request.backend,
                              .dtype = request.dtype,
                              .threads = request.threads,
                              .on_finished = {}};
  out.concurrency = batch.concurrency.value_or(out.concurrency);
  out.prefill_rows = batch.prefill_rows;
  if (batch.arrivals) {
    out.arrivals = engine::arrival_rate(*batch.arrivals);
  }
  if (batch.kv_mebibytes) {
    if (*batch.kv_mebibytes < 1 || *batch.kv_mebibytes > kMostMebibytes) {
      throw Error(ExitCode::kUsage,
                  "kv-memory is in MiB, from 1 to " + std::to_string(kMostMebibytes));
    }
    out.kv_bytes = *batch.kv_mebibytes << 20;
  }
  return out;
}

// The tuples of a table, cell by cell; what it was planned for.
PlannedFor use_cells(const Options& options, engine::BatchRunRequest& request) {
  if (!options.table) {
    return {};
  }
  request.plan_class =
      options.precision ? parse_class(*options.precision) : PrecisionClass::kStrict;
  const PlanTable table = engine::read_plan_table(*options.table);
  request.plan = [table, precision = request.plan_class](const TupleRefusal& refusal) {
    return engine::planned_batch(table, precision, refusal);
  };
  return {table.hardware, planned_pair(table, request.plan_class), table.temperature};
}

// Options that were given and changed nothing.
template <class Report>
void remark_idle(const Options& options, Report& report) {
  const engine::GenerateRequest& request = options.request;
  const bool on_gpu = report.backend == Backend::kCuda;
  if (on_gpu && request.threads > 0) {
    report.remarks.push_back("--threads changed nothing: they are of a CPU, and this ran on " +
                             report.device);
  }
  if (!on_gpu && !request.uses_graphs) {
    report.remarks.push_back("--no-graphs changed nothing: a CPU records no steps");
  }
  if (options.names_seed && !options.batch.any() && request.temperature == 0.0 &&
      !options.acceptance.from) {
    report.remarks.push_back("--seed changed nothing: the text is decoded greedily");
  }
}

Answer run_many(const Options& options, const CommandContext& context) {
  check_batch(options);
  engine::BatchRunRequest request = batch_request(options);
  const PlannedFor planned = use_cells(options, request);
  bool in_line = false;  // of progress, which an error ends
  if (!context.json) {
    request.on_finished = [&in_line](std::int64_t finished, std::int64_t requests) {
      in_line = finished < requests;
      write_progress("\r" + std::to_string(finished) + " of " + std::to_string(requests) +
                     " requests finished" + (in_line ? "" : "\n"));
    };
  }
  engine::BatchReport report;
  try {
    report = engine::run_batch(request);
  } catch (...) {
    if (in_line) {
      write_progress("\n");
    }
    throw;
  }
  remark_temperature(planned.temperature, options.request, report);
  remark_pair(planned.pair, options.request, report);
  remark_machine(planned.hardware, report);
  remark_idle(options, report);
  if (!context.json) {
    write_notes(report.remarks);
  }
  return {.json = engine::batch_report_json(report),
          .text = engine::batch_report_text(report),
          .code = report.failure().empty() ? ExitCode::kDone : ExitCode::kAnswerNo};
}

Answer run_generate(const Options& options, const CommandContext& context) {
  if (options.batch.any()) {
    return run_many(options, context);
  }
  engine::GenerateRequest request = options.request;
  const PlannedFor planned = use_table(options, request);
  engine::GenerateReport report = engine::run_request(request);
  remark_temperature(planned.temperature, request, report);
  remark_pair(planned.pair, request, report);
  remark_machine(planned.hardware, report);
  remark_idle(options, report);
  if (!context.json) {
    write_notes(report.remarks);
  }
  return {.json = engine::report_json(report),
          .text = engine::report_text(report),
          .code = report.failure().empty() ? ExitCode::kDone : ExitCode::kAnswerNo};
}

void declare_batch(CLI::App& app, BatchOptions& batch) {
  app.add_option("--prompts", batch.prompts,
                 "many prompts: a folder whose files are a prompt each, or JSON lines of "
                 "{\"prompt\" or \"tokens\", \"id\", \"max_new_tokens\", \"seed\", "
                 "\"temperature\"}");
  app.add_option("--concurrency", batch.concurrency, "requests that run at once (1)");
  app.add_option("--arrivals", batch.arrivals,
                 "poisson:R: R requests a second by the seed; all at once if left out");
  app.add_option("--prefill-rows", batch.prefill_rows,
                 "tokens of prompts that a step reads beside the others' trees (" +
                     std::to_string(engine::usual_prompt_rows(false)) + "; " +
                     std::to_string(engine::usual_prompt_rows(true)) +
                     " on a GPU that attends so many at once)");
  app.add_option("--kv-memory", batch.kv_mebibytes,
                 "MiB for keys and values; most of what is free if left out");
  add_output(app, "--out", batch.out, "a new file: each request as a JSON line once it has ended");
}

}  // namespace

Run declare_generate(CLI::App& app, const CommandContext& context) {
  const auto options = std::make_shared<Options>();
  engine::GenerateRequest* const request = &options->request;
  app.add_option(
         "--model", request->model,
         "model directory: config.json, weights, tokenizer; or, with --acceptance, a geometry "
         "(nsa-1b, nsa-8b) with random weights")
      ->required();
  app.add_option("--prompt-file", request->prompt.text, "file whose bytes are the prompt");
  app.add_option("--prompt-tokens", request->prompt.tokens,
                 "instead: file of token ids, a JSON list or numbers with white space between");
  app.add_option("--messages", request->prompt.messages,
                 "instead: JSON list of {role, content}, made a text by the checkpoint's chat "
                 "template");
  app.add_option("--strategy", request->strategies,
                 "for example nsa/ar or nsa/d6k8n64/bfs/c1/F*; may be given more than once")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--table", options->table,
                 "instead: a table of `versieve plan`; its tuples for the prompt's length, under "
                 "its guard; with --prompts each step's for its context and the requests that run");
  app.add_option("--class", options->precision, "of the table: the precision class (Strict)");
  app.add_option("--guard", options->guard,
                 "where the guard goes when too little is accepted: promise (default), ranked");
  app.add_option("--guard-constants", options->constants,
                 "other constants of the guard than the table's, as alpha=0.2,warmup=8 "
                 "(drop_ratio, hysteresis, max_transitions)");
  declare_batch(app, options->batch);
  declare_acceptance(app, options->acceptance);
  app.add_flag("--compare-ar", request->compares_ar,
               "also decode autoregressively, by the same seed, and compare token for token");
  app.add_option("--max-new-tokens", request->max_new_tokens, "tokens to generate at most");
  app.add_option("--temperature", request->temperature, "0: greedy");
  app.add_option("--seed", request->seed, "of sampling at a temperature above 0");
  app.add_option("--top-k", request->truncation.top_k,
                 "sample from the k likeliest tokens; 0, the default: all (sampling=exact)");
  app.add_option("--top-p", request->truncation.top_p,
                 "of those from the fewest that have this probability together (1: all)");
  app.add_option("--min-p", request->truncation.min_p,
                 "of those from what is at least this share of the likeliest (0: all)");
  app.add_option("--sigmoid-alpha", request->sigmoid.alpha,
                 "of sampling=sigmoid: sigmoid((z / T - alpha) / (beta - alpha)); -1000");
  app.add_option("--sigmoid-beta", request->sigmoid.beta, "above alpha; 1000");
  app.add_flag("--adapt-gamma", request->adapts_length,
               "every strategy with gamma=adapt: chains draft 5 tokens at first, two more after a "
               "step that accepts all, one fewer after any other, at most the strategy's");
  app.add_option("--backend", request->backend, "cpu, cuda or auto");
  app.add_option("--dtype", request->dtype,
                 "f32, bf16 or f64 (cpu); if left out, on a GPU bf16 where the weights are BF16 or "
                 "F16, else f32");
  app.add_option("--threads", request->threads, "CPU threads; all if left out")
      ->check(CLI::Range(1, 1024));
  app.add_flag(
      "--no-graphs", [request](std::int64_t) { request->uses_graphs = false; },
      "cuda: lead each step from the host instead of replaying CUDA graphs; the text is the same");
  return [options, &context, &app] {
    options->names_seed = app.count("--seed") > 0;
    return run_generate(*options, context);
  };
}

}  // namespace versieve::cli
