// Steps of many requests of a geometry with synthetic weights: what do B requests take together, of
// the bytes that they must move, and how many tokens a second do they give?
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/measure/bench/batch_plan.h"
#include "engine/run/batch/batch_session.h"
#include "model/words/hardware.h"
#include "model/words/strategy.h"
#include "profiler/sample_statistics.h"

namespace versieve::engine {

struct BatchBenchOptions {
  std::string geometry = "nsa-1b";
  std::vector<std::int64_t> contexts = {4096};
  std::vector<std::int64_t> requests = {1, 2, 4, 8, 16, 32, 64, 128};
  // Of a dense strategy the geometry is taken with dense attention.
  std::vector<std::string> strategies = {"nsa/ar", "nsa/d4k4n16/bfs/c8e/F*"};
  // Tokens of a request's step with a draft; without it three, or all that a shallower draft can.
  std::optional<std::int64_t> yield;
  // In the place of geometry, strategies and yield: the table that is played, of a geometry, whose
  // requests are those of its own that `requests` names. Not owned.
  const PlanTable* table = nullptr;
  PrecisionClass precision = PrecisionClass::kStrict;  // of the planned tuples
  std::int64_t samples = 15;
  // On a GPU that tells it: what a token takes, over half a second of steps more a row.
  bool energy = false;
  double temperature = 0.0;  // of every request, each with a seed of its own
  std::uint64_t seed = 1;
  bool on_gpu = true;
  int threads = 1;
};

struct BatchBenchRow {
  Strategy strategy;
  std::int64_t context_len = 0;  // of each request, before the first step
  std::int64_t requests = 0;     // B
  std::string refused_because;   // empty: measured
  profiler::SampleSummary time;  // us, a step of all
  SessionSeconds spent;          // of a step, mean
  double tokens = 1.0;           // of a request's step
  double shared_bytes = 0.0;     // read once a step, whoever runs: weights, the draft's too
  double request_bytes = 0.0;    // read for each request: keys and values
  std::optional<double> bound_us;
  std::optional<double> over_one;  // tokens a second over those of one request, same strategy
  std::optional<double> watts;     // of the GPU, over steps one after the other
  std::string role;                // BatchTuple
  std::optional<double> predicted_us;
  Interval predicted_interval_us{};

  double bytes() const { return shared_bytes + static_cast<double>(requests) * request_bytes; }
  double tokens_per_second() const {
    return tokens * static_cast<double>(requests) / time.median * 1e6;
  }
  std::optional<double> tokens_per_joule() const {
    return watts ? std::optional(tokens_per_second() / *watts) : std::nullopt;
  }
};

struct BatchBench {
  std::string device, backend, dtype;
  BatchBenchOptions options;
  std::vector<ReadTime> cold_reads;  // measured in this run, before the rows
  std::vector<BatchBenchRow> rows;

  // Of a table, one for each context and number of requests of which all three could be timed.
  std::vector<BatchPlayed> played() const;
};

// Throws Error(kUsage) for options that nothing can be measured with.
void check_batch_bench(const BatchBenchOptions& options);
// REQUIRES: check_batch_bench(). Throws Error(kEnvironment) without a GPU when one is asked for.
BatchBench bench_batch(const BatchBenchOptions& options,
                       const std::function<void(const BatchBenchRow&)>& on_row);

std::string batch_bench_json(const BatchBench& bench);
std::string batch_bench_text(const BatchBench& bench);

}  // namespace versieve::engine
