#include "engine/run/batch/batch_request.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>

#include "engine/io/checkpoint.h"
#include "engine/run/batch/batch_memory.h"
#include "engine/run/batch/finished_lines.h"
#include "engine/run/batch/prompt_rows.h"
#include "engine/run/model/compute_device.h"
#include "engine/run/model/load.h"
#include "engine/run/model/uniform.h"
#include "engine/run/speculate/decoding_pair.h"
#include "engine/run/speculate/reference.h"
#include "engine/run/speculate/sampling_checks.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kMostConcurrency = 1024;
constexpr double kLeastRate = 1e-6;  // requests a second: no wait is longer than a clock can say

void check_request(const BatchRunRequest& request) {
  check_temperature(request.temperature);
  if (request.concurrency < 1 || request.concurrency > kMostConcurrency) {
    throw Error(ExitCode::kUsage, "concurrency must be from 1 to 1024 requests");
  }
  if (request.max_new_tokens < 1) {
    throw Error(ExitCode::kUsage, "max-new-tokens must be at least 1");
  }
  if (request.prefill_rows && (*request.prefill_rows < 1 || *request.prefill_rows > 4096)) {
    throw Error(ExitCode::kUsage, "prefill-rows must be from 1 to 4096 tokens");
  }
  if (request.kv_bytes && *request.kv_bytes < 1) {
    throw Error(ExitCode::kUsage, "kv-memory must be above 0");
  }
}

SamplingSettings settings_of(const BatchRunRequest& request,
                             const std::vector<BatchPrompt>& prompts) {
  const auto draws = [&](const BatchPrompt& prompt) {
    return prompt.temperature.value_or(request.temperature) > 0.0;
  };
  const auto greedy = std::count_if(prompts.begin(), prompts.end(), std::not_fn(draws));
  return {.draws = greedy < static_cast<std::ptrdiff_t>(prompts.size()),
          .alike = greedy == 0 || greedy == static_cast<std::ptrdiff_t>(prompts.size()),
          .truncation = request.truncation,
          .sigmoid = request.sigmoid,
          .adapts_length = request.adapts_length,
          .compares_ar = request.compares_ar};
}

// What is cut of draws says nothing of a request that draws nothing.
void remark_greedy(const BatchRunRequest& request, const std::vector<BatchPrompt>& prompts,
                   std::vector<std::string>& remarks) {
  const auto greedy = std::count_if(prompts.begin(), prompts.end(), [&](const BatchPrompt& prompt) {
    return prompt.temperature.value_or(request.temperature) == 0.0;
  });
  if (greedy > 0 && request.truncation.cuts()) {
    remarks.push_back("top-k, top-p and min-p cut nothing of " + std::to_string(greedy) + " of " +
                      std::to_string(prompts.size()) + " requests, whose temperature is 0");
  }
}

void check_batch_sampling(const BatchRunRequest& request, const Strategy& strategy,
                          const std::vector<BatchPrompt>& prompts) {
  SamplingSettings settings = settings_of(request, prompts);
  if (!request.plan) {
    check_sampling(settings, {&strategy, 1});
    check_comparable(settings, {&strategy, 1});
    return;
  }
  check_sigmoid(settings.sigmoid);  // a plan's tuples may be of any sampler
  settings.sigmoid = {};
  check_sampling(settings, {});
  if (request.adapts_length) {
    throw Error(ExitCode::kUsage,
                "adapt-gamma is for a strategy: a table says how much its tuples draft");
  }
  if (request.compares_ar && !claims_autoregressive_text(request.plan_class)) {
    throw Error(ExitCode::kUsage, std::string("compare-ar is of class Strict: tuples of class ") +
                                      name_of(request.plan_class) +
                                      " may leave the text of plain decoding");
  }
}

// Without what any of the requests refuses.
template <class T>
std::shared_ptr<const TuplePlan> plan_of(const BatchRunRequest& request, const LlmShape& shape,
                                         const BatchDrafts& drafts,
                                         const std::vector<BatchRequest>& requests) {
  return request.plan([&](const Strategy& strategy) {
    std::string reason;
    for (std::size_t i = 0; i < requests.size() && reason.empty(); ++i) {
      GenerateOptions options = requests[i].options;
      options.strategy = strategy;
      reason = BatchSession<T>::strategy_refusal(options, shape, drafts);
    }
    return reason;
  });
}

BatchRequest session_request(const BatchRunRequest& request, const Strategy& strategy,
                             const BatchPrompt& prompt, const std::vector<std::int32_t>& eos) {
  return {.prompt = prompt.tokens,
          .options = {.strategy = strategy,
                      .max_new_tokens = prompt.max_new_tokens.value_or(request.max_new_tokens),
                      .temperature = prompt.temperature.value_or(request.temperature),
                      .seed = prompt.seed.value_or(request.seed),
                      .truncation = request.truncation,
                      .sigmoid = request.sigmoid,
                      .eos = eos}};
}

// Throws Error(kAnswerNo) for the first request that the session refuses.
template <class T>
void require_runnable(const BatchSession<T>& session, const std::vector<BatchPrompt>& prompts,
                      const std::vector<BatchRequest>& requests) {
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (const std::string reason = session.refusal(requests[i]); !reason.empty()) {
      throw Error(ExitCode::kAnswerNo, "request '" + prompts[i].id + "', strategy '" +
                                           requests[i].options.strategy.text() + "': " + reason);
    }
  }
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// A GPU loads kernels when they first run: a short request before the clock starts.
template <class T>
void warm_up(kernels::Ops<T>& ops, DecodingPair<T>& pair, BatchRequest request) {
  request.options.max_new_tokens = std::min<std::int64_t>(request.options.max_new_tokens, 8);
  SessionOptions options{.pages = BatchSession<T>::pages_needed(pair.target().shape(), request)};
  options.layer_map = pair.generator().layer_map();
  BatchSession<T> session(ops, pair.target(), pair.draft(), options, pair.draft_model());
  session.submit(0, std::move(request));
  while (session.step().empty()) {
  }
}

// Texts and lines of what finishes.
class Finisher {
 public:
  Finisher(const BatchRunRequest& request, const Tokenizer* tokenizer, BatchReport& report)
      : request_(request), tokenizer_(tokenizer), rows_(report.rows), plan_(report.plan.get()) {
    if (!request.out.empty()) {
      lines_.emplace(request.out);
    }
  }

  void take(FinishedRequest finished) {
    BatchRow& row = rows_[static_cast<std::size_t>(finished.id)];
    row.result = std::move(finished);
    if (tokenizer_ != nullptr) {
      row.text = tokenizer_->decode_after(row.prompt.tokens, row.result.generation.tokens);
    }
    if (lines_) {
      lines_->add(batch_row_json(row, plan_)
                      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    }
    ++finished_;
    if (request_.on_finished) {
      request_.on_finished(finished_, static_cast<std::int64_t>(rows_.size()));
    }
  }
  bool all() const { return finished_ == static_cast<std::int64_t>(rows_.size()); }

 private:
  const BatchRunRequest& request_;
  const Tokenizer* tokenizer_;
  std::vector<BatchRow>& rows_;
  const TuplePlan* plan_;
  std::optional<FinishedLines> lines_;
  std::int64_t finished_ = 0;
};

// Submits each request at its time and steps until all have ended.
template <class T>
void play(BatchSession<T>& session, std::vector<BatchRequest> requests,
          const std::vector<double>& arrivals, double begin, Finisher& finisher) {
  std::size_t next = 0;
  while (!finisher.all()) {
    const double time = steady_seconds();
    while (next < requests.size() && begin + arrivals[next] <= time) {
      session.submit(static_cast<std::int64_t>(next), std::move(requests[next]),
                     begin + arrivals[next]);
      ++next;
    }
    if (session.running() + session.waiting() == 0) {
      std::this_thread::sleep_for(std::chrono::duration<double>(begin + arrivals[next] - time));
      continue;
    }
    for (FinishedRequest& finished : session.step()) {
      finisher.take(std::move(finished));
    }
  }
}

// Plain decoding of each request alone, by the same seed.
template <class T>
void compare(Generator<T>& generator, const std::vector<BatchRequest>& requests,
             BatchReport& report) {
  for (std::size_t i = 0; i < requests.size(); ++i) {
    GenerateOptions options = requests[i].options;
    options.strategy = reference_of(options.strategy);
    generator.prefill(requests[i].prompt);
    report.rows[i].identical_to_ar =
        generator.run(options).tokens == report.rows[i].result.generation.tokens;
  }
}

template <class T>
BatchDrafts drafts_of(DecodingPair<T>& pair) {
  return {.any = pair.draft() != nullptr || pair.draft_model() != nullptr,
          .draft_model = pair.draft_model() == nullptr ? nullptr : &pair.draft_model()->shape(),
          .has_layer_map = !pair.generator().layer_map().empty()};
}

// Tuples of a table in the place of a strategy.
template <class T>
void use_plan(const BatchRunRequest& request, const std::vector<BatchPrompt>& prompts,
              DecodingPair<T>& pair, std::vector<BatchRequest>& requests, BatchReport& report) {
  report.plan = plan_of<T>(request, pair.target().shape(), drafts_of(pair), requests);
  report.strategy = report.plan->tuples().front();
  report.remarks.insert(report.remarks.end(), report.plan->remarks().begin(),
                        report.plan->remarks().end());
  check_comparable(settings_of(request, prompts), report.plan->tuples());
  for (BatchRequest& each : requests) {
    each.plan = report.plan;
    each.options.strategy = report.strategy;
  }
}

template <class T>
std::int64_t usual_prefill_rows(const Target<T>& target, Backend backend) {
  return usual_prompt_rows(backend == Backend::kCuda &&
                           target.attends_at_once(0, usual_prompt_rows(true)));
}

template <class T>
SessionOptions count_memory(const BatchRunRequest& request, kernels::Ops<T>& ops,
                            DecodingPair<T>& pair, const std::vector<BatchRequest>& requests,
                            BatchReport& report) {
  const DraftShape* const draft = pair.draft() == nullptr ? nullptr : &pair.draft()->shape();
  const LlmShape* const draft_model =
      pair.draft_model() == nullptr ? nullptr : &pair.draft_model()->shape();
  SessionOptions options{.concurrency = request.concurrency,
                         .prefill_rows = request.prefill_rows.value_or(
                             usual_prefill_rows(pair.target(), report.backend))};
  options.layer_map = pair.generator().layer_map();
  const MemoryPlan memory =
      plan_memory<T>(ops, report.backend == Backend::kCuda, pair.target().shape(), draft,
                     draft_model, requests, options, request.kv_bytes);
  options.pages = memory.pages;
  options.concurrency = memory.concurrency;
  report.pages = memory.pages;
  report.page_bytes = memory.page_bytes;
  report.own_page_bytes = memory.own_page_bytes;
  report.sequence_bytes = memory.concurrency * memory.sequence_bytes + memory.idle_bytes;
  return options;
}

template <class T>
void run_together(const BatchRunRequest& request, const std::vector<BatchPrompt>& prompts,
                  const Tokenizer* tokenizer, kernels::Ops<T>& ops, DecodingPair<T>& pair,
                  const std::vector<BatchRequest>& requests, BatchReport& report) {
  const SessionOptions options = count_memory(request, ops, pair, requests, report);
  BatchSession<T> session(ops, pair.target(), pair.draft(), options, pair.draft_model());
  require_runnable(session, prompts, requests);
  Finisher finisher(request, tokenizer, report);
  if (report.backend == Backend::kCuda) {
    warm_up(ops, pair, requests.front());
  }
  const double begin = steady_seconds();
  const std::vector<double> arrivals =
      arrival_times(request.arrivals, static_cast<std::int64_t>(requests.size()), request.seed);
  play(session, requests, arrivals, begin, finisher);
  report.seconds = steady_seconds() - begin - arrivals.front();
  report.steps = session.steps();
  report.most_running = session.most_running();
  report.most_pages = session.most_pages();
  report.most_saved_pages = session.most_saved_pages();
  report.spent = session.seconds();
  report.played = session.played();
}

template <class T>
void run_on(const BatchRunRequest& request, const std::vector<BatchPrompt>& prompts,
            const Tokenizer* tokenizer, kernels::Ops<T>& ops, DecodingPair<T>& pair,
            BatchReport& report) {
  std::vector<BatchRequest> requests;
  for (const BatchPrompt& prompt : prompts) {
    requests.push_back(session_request(request, report.strategy, prompt, pair.eos()));
    report.rows.push_back({.prompt = prompt, .result = {}, .text = {}});
  }
  if (request.plan) {
    use_plan(request, prompts, pair, requests, report);
  }
  run_together(request, prompts, tokenizer, ops, pair, requests, report);
  if (request.compares_ar) {
    compare(pair.generator(), requests, report);
  }
}

}  // namespace

double arrival_rate(const std::string& text) {
  constexpr const char* kPoisson = "poisson:";
  char* end = nullptr;
  const std::string number = text.starts_with(kPoisson) ? text.substr(8) : std::string();
  const double rate = std::strtod(number.c_str(), &end);
  const bool plain = number.find_first_not_of("0123456789.eE+-") == std::string::npos;
  if (number.empty() || !plain || *end != '\0' || !std::isfinite(rate) || rate < kLeastRate) {
    throw Error(
        ExitCode::kUsage,
        "arrivals are poisson:R with R requests a second, at least 1e-6, not '" + text + "'");
  }
  return rate;
}

std::vector<double> arrival_times(std::optional<double> rate, std::int64_t count,
                                  std::uint64_t seed) {
  std::vector<double> times(static_cast<std::size_t>(count), 0.0);
  if (!rate) {
    return times;
  }
  double time = 0.0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const std::uint64_t bits = mix_bits(mix_bits(seed) + i);
    time -= std::log(1.0 - static_cast<double>(bits >> 11) * 0x1p-53) / *rate;
    times[i] = time;
  }
  return times;
}

BatchReport run_batch(const BatchRunRequest& request) {
  check_request(request);
  Strategy strategy;  // of a plan: known once the model is
  if (!request.plan) {
    strategy = Strategy::parse(request.strategy);
    strategy.adapts_length |= request.adapts_length;
  }
  const ComputeDevice device = compute_device(request.backend, request.threads);
  std::optional<Dtype> dtype;
  if (request.dtype != "auto") {
    dtype = dtype_on(device, request.dtype);
  }
  Checkpoint checkpoint = load_target(request.model);
  std::unique_ptr<const Tokenizer> tokenizer;
  std::vector<std::string> remarks;
  try {
    tokenizer = load_tokenizer(request.model, checkpoint.shape);
    remarks = tokenizer->remarks();
  } catch (const Error& error) {
    remarks.push_back(std::string("there is no text, only tokens: ") + error.what());
  }
  const std::vector<BatchPrompt> prompts =
      read_batch_prompts(request.prompts, tokenizer.get(), checkpoint.shape.vocab, remarks);
  check_batch_sampling(request, strategy, prompts);
  remark_greedy(request, prompts, remarks);
  if (!dtype) {
    const UsualDtype usual = usual_dtype(device.backend, checkpoint.weights);
    dtype = usual.dtype;
    if (!usual.remark.empty()) {
      remarks.push_back(request.model.string() + ": " + usual.remark);
    }
  }
  BatchReport report{.backend = device.backend,
                     .device = device.name,
                     .dtype = *dtype,
                     .strategy = strategy,
                     .plan = {},
                     .plan_class = request.plan_class,
                     .played = {},
                     .concurrency = request.concurrency,
                     .arrivals = request.arrivals,
                     .rows = {},
                     .spent = {},
                     .remarks = {}};
  with_ops(device, *dtype, [&]<class T>(std::unique_ptr<kernels::Ops<T>> ops) {
    DecodingPair<T> pair(*ops, request.model, std::move(checkpoint),
                         request.plan || (strategy.draft.speculates() && !strategy.drafts_itself));
    report.remarks = pair.remarks();
    run_on<T>(request, prompts, tokenizer.get(), *ops, pair, report);
  });
  report.remarks.insert(report.remarks.end(), remarks.begin(), remarks.end());
  return report;
}

}  // namespace versieve::engine
