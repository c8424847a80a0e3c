// versieve kernel: parses the request and hands it to engine/measure/door, which answers it.
#include <CLI/CLI.hpp>
#include <memory>
#include <thread>

#include "engine/cli/argument_text.h"
#include "engine/cli/commands.h"
#include "engine/io/atomic_file.h"
#include "engine/measure/door/door.h"
#include "engine/measure/door/judge.h"

namespace versieve::cli {
namespace {

struct Options {
  std::string family, variant, backend = "cpu", dtype = "f32", in, out, against;
  int threads = 0;
  bool list = false, judge = false;
};

engine::DoorRequest request_of(const Options& options) {
  if (options.family.empty()) {
    throw Error(ExitCode::kUsage, "kernel needs a FAMILY, or --list");
  }
  const engine::DoorRequest request =
      engine::door_request(options.family, options.variant, options.backend, options.dtype);
  if (options.judge != !options.against.empty()) {
    throw Error(ExitCode::kUsage, "--judge and --against FILE, the answers to judge, go together");
  }
  if (options.in.empty() || options.out.empty() != options.judge) {
    throw Error(ExitCode::kUsage, options.judge
                                      ? "kernel --judge needs --in FILE and writes no --out"
                                      : "kernel needs --in FILE and --out FILE");
  }
  return request;
}

Answer run_judge(const engine::DoorRequest& request, const std::string& against) {
  const engine::Judgement judgement = engine::judge_answers(request, against);
  const bool is_wrong = judgement.verdict == engine::JudgedAs::kWrong ||
                        judgement.verdict == engine::JudgedAs::kUndecided;
  return {.json = judgement.json,
          .text = judgement.sentence,
          .code = is_wrong ? ExitCode::kAnswerNo : ExitCode::kDone};
}

Answer run_kernel(const Options& options) {
  if (options.list) {
    return {.json = engine::door_list_json(), .text = engine::door_list_text()};
  }
  engine::DoorRequest request = request_of(options);
  request.in = options.in;
  request.out = options.out;
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  request.threads = options.threads > 0 ? options.threads : cores;
  if (options.judge) {
    return run_judge(request, options.against);
  }
  engine::require_other_file(request.in, request.out);
  engine::require_writable(request.out);
  return {.json = engine::run_door(request), .text = {}};
}

}  // namespace

Run declare_kernel(CLI::App& app, const CommandContext&) {
  const auto options = std::make_shared<Options>();
  app.add_option("FAMILY", options->family, "the kernel family; --list prints them");
  app.add_option("--variant", options->variant, "its variant; the family's first if left out");
  app.add_option("--backend", options->backend, "cpu or cuda");
  app.add_option("--dtype", options->dtype, "f64, f32 or bf16; f16 of logits");
  app.add_option("--in", options->in, "safetensors file with the inputs");
  add_output(app, "--out", options->out, "safetensors file for the outputs");
  app.add_flag("--judge", options->judge,
               "judge another engine's answers to --in: exact, ties only or wrong, of a sampler "
               "whether its draws fit");
  app.add_option("--against", options->against, "safetensors file with those answers");
  app.add_option("--threads", options->threads, "CPU threads; all if left out")
      ->check(CLI::Range(1, 1024));
  app.add_flag("--list", options->list, "print every family with its tensors and metadata");
  return [options] { return run_kernel(*options); };
}

}  // namespace versieve::cli
