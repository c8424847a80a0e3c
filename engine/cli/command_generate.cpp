// versieve generate: parses the request and hands it to engine/speculate, which answers it.
#include <CLI/CLI.hpp>
#include <memory>

#include "engine/cli/commands.h"
#include "engine/speculate/generate_request.h"

namespace versieve::cli {
namespace {

Answer run_generate(const engine::GenerateRequest& request) {
  const engine::GenerateReport report = engine::run_request(request);
  return {.json = engine::report_json(report),
          .text = engine::report_text(report),
          .code = report.failure().empty() ? ExitCode::kDone : ExitCode::kAnswerNo};
}

}  // namespace

Run declare_generate(CLI::App& app, const CommandContext&) {
  const auto request = std::make_shared<engine::GenerateRequest>();
  app.add_option("--model", request->model, "model directory: config.json, weights, tokenizer")
      ->required();
  app.add_option("--prompt-file", request->prompt_file, "file whose bytes are the prompt")
      ->required();
  app.add_option("--strategy", request->strategies,
                 "for example nsa/ar or nsa/d6k8n64/bfs/c1/F*; may be given more than once")
      ->required()
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_flag("--compare-ar", request->compares_ar,
               "also decode autoregressively and compare token for token");
  app.add_option("--max-new-tokens", request->max_new_tokens, "tokens to generate at most");
  app.add_option("--temperature", request->temperature, "0: greedy");
  app.add_option("--seed", request->seed, "of sampling at a temperature above 0");
  app.add_option("--backend", request->backend, "cpu, cuda or auto");
  app.add_option("--dtype", request->dtype, "f32, bf16 (cuda) or f64 (cpu)");
  app.add_option("--threads", request->threads, "CPU threads; all if left out")
      ->check(CLI::Range(1, 1024));
  app.add_flag(
      "--no-graphs", [request](std::int64_t) { request->uses_graphs = false; },
      "cuda: lead each step from the host instead of replaying CUDA graphs; the text is the same");
  return [request] { return run_generate(*request); };
}

}  // namespace versieve::cli
