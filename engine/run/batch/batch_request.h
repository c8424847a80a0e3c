// What `versieve generate --prompts` does: many prompts through one session, joining as they
// arrive, each finished one written at once; and its report as JSON and text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/run/batch/batch_prompts.h"
#include "engine/run/batch/batch_session.h"
#include "model/words/point_words.h"

namespace versieve::engine {

// "poisson:R": R requests a second, gaps drawn by the seed. Throws Error(kUsage) for another text
// and for an R that is not above 0.
double arrival_rate(const std::string& text);
// Seconds from the beginning, ascending; all 0 without a rate.
std::vector<double> arrival_times(std::optional<double> rate, std::int64_t count,
                                  std::uint64_t seed);

struct BatchRunRequest {
  std::filesystem::path model;    // directory
  std::filesystem::path prompts;  // read_batch_prompts
  std::string strategy;
  MakeTuplePlan plan = {};  // in its place, if not empty: a table's tuples of that class
  PrecisionClass plan_class = PrecisionClass::kStrict;
  std::int64_t concurrency = 1;
  std::optional<double> arrivals;  // requests a second; none: all are there at first
  std::int64_t max_new_tokens = 64;
  double temperature = 0.0;
  std::uint64_t seed = 0;  // of each request that names none, and of the arrivals
  kernels::Truncation truncation = {};
  kernels::SigmoidEnds sigmoid = {};         // of sampling=sigmoid
  bool adapts_length = false;                // the strategy with gamma=adapt
  std::optional<std::int64_t> prefill_rows;  // none: usual_prompt_rows
  std::optional<std::int64_t> kv_bytes;      // memory for keys and values
  std::filesystem::path out;                 // or empty: a JSON line for each finished request
  bool compares_ar = false;
  std::string backend = "auto";
  std::string dtype = "auto";
  int threads = 0;
  std::function<void(std::int64_t finished, std::int64_t requests)> on_finished;  // or empty
};

struct BatchRow {
  BatchPrompt prompt;
  FinishedRequest result;
  std::optional<std::string> text;      // none without a tokenizer
  std::optional<bool> identical_to_ar;  // with compares_ar: to plain decoding, alone

  double ttft_ms() const { return 1e3 * (result.first_token - result.submitted); }
  // Of the tokens after the first, over the time since it; 0 without any.
  double tokens_per_second() const;
};

struct BatchReport {
  Backend backend = Backend::kCpu;
  std::string device;
  Dtype dtype = Dtype::kF32;
  Strategy strategy;                      // of a plan: its first tuple
  std::shared_ptr<const TuplePlan> plan;  // or null
  PrecisionClass plan_class = PrecisionClass::kStrict;
  PlayedTuples played;  // of a plan
  std::int64_t concurrency = 1;
  std::optional<double> arrivals;
  std::vector<BatchRow> rows;  // in the order of the prompts
  double seconds = 0.0;        // from the first arrival to the last token
  std::int64_t steps = 0, most_running = 0;
  SessionSeconds spent;
  std::int64_t pages = 0, page_bytes = 0, own_page_bytes = 0, sequence_bytes = 0;  // MemoryPlan's
  std::int64_t most_pages = 0, most_saved_pages = 0;                               // BatchSession's
  std::vector<std::string> remarks;

  std::int64_t tokens() const;
  std::int64_t prompt_tokens() const;
  std::int64_t shared_tokens() const;  // FinishedRequest
  double tokens_per_second() const;
  PrecisionClass precision() const { return plan ? plan_class : strategy.precision(); }
  // Why the answer is "no" (a text that promises to be the autoregressive one is not), or empty.
  std::string failure() const;
};

// Throws Error: kUsage, also for a comparison with plain decoding of a class that may leave its
// text; kBadInput for model or prompts, kAnswerNo for a strategy or a request that
// cannot run, kEnvironment without the GPU asked for.
BatchReport run_batch(const BatchRunRequest& request);

// `plan`: that the row was run by, or null.
nlohmann::json batch_row_json(const BatchRow& row, const TuplePlan* plan);
nlohmann::json batch_report_json(const BatchReport& report);
std::string batch_report_text(const BatchReport& report);

}  // namespace versieve::engine
