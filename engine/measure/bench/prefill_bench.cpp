#include "engine/measure/bench/prefill_bench.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "engine/io/formatted.h"
#include "engine/measure/bench/report_parts.h"
#include "engine/run/model/compute_device.h"
#include "engine/run/model/synthetic.h"
#include "model/words/error.h"
#include "model/words/joint_rows.h"

namespace versieve::engine {
namespace {

using nlohmann::ordered_json;

constexpr std::int64_t kChain = Target<float>::kMostTogether;  // of rows = 0
constexpr std::int64_t kMostRows = 16384;

LlmShape shape_of(const PrefillBenchOptions& options) {
  LlmShape shape = named_llm_shape(options.geometry);
  shape.attention = options.dense ? AttentionKind::kDense : shape.attention;
  return shape;
}

// Two for each weight that a token meets; the head meets one row.
double linear_flops(const LlmShape& shape, std::int64_t tokens) {
  const double layer = static_cast<double>(
      shape.hidden * (joint_rows(shape) + shape.q_width() + 3 * shape.intermediate));
  return 2.0 * (static_cast<double>(tokens * shape.layers) * layer +
                static_cast<double>(shape.hidden * shape.vocab));
}

std::vector<std::int32_t> random_tokens(std::int64_t count, std::int64_t vocab,
                                        std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  for (std::int32_t& token : tokens) {
    token = static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(vocab));
  }
  return tokens;
}

template <class T>
void read_chain(Target<T>& target, std::span<const std::int32_t> tokens) {
  std::vector<std::int32_t> path(tokens.size());
  std::iota(path.begin(), path.end(), 0);
  target.verify(chain_tree({tokens.begin(), tokens.end()}), {.last_logits_only = true});
  target.commit(path);
}

template <class T>
double read_ms(kernels::Ops<T>& ops, Target<T>& target, std::span<const std::int32_t> prompt,
               std::int64_t rows) {
  target.cache().truncate(0);
  ops.synchronize();
  const auto begin = std::chrono::steady_clock::now();
  const auto step = static_cast<std::size_t>(rows == 0 ? kChain : rows);
  for (std::size_t at = 0; at < prompt.size(); at += step) {
    const auto piece = prompt.subspan(at, std::min(step, prompt.size() - at));
    if (rows == 0) {
      read_chain(target, piece);
    } else {
      target.read_prompt(piece);
    }
  }
  ops.synchronize();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

// Contenders take turns.
template <class T>
void measure(kernels::Ops<T>& ops, const std::function<void(const PrefillRow&)>& on_row,
             PrefillBench& bench) {
  const PrefillBenchOptions& options = bench.options;
  const LlmShape shape = shape_of(options);
  Target<T> target = make_synthetic_target(ops, shape, usual_draft(shape), options.seed);
  for (const std::int64_t count : options.prompts) {
    const std::vector<std::int32_t> prompt = random_tokens(count, shape.vocab, options.seed + 1);
    target.cache().reserve(count);
    std::vector<std::vector<double>> ms(options.rows.size());
    for (std::int64_t sample = -1; sample < options.samples; ++sample) {
      for (std::size_t i = 0; i < options.rows.size(); ++i) {
        const double took = read_ms(ops, target, std::span(prompt), options.rows[i]);
        if (sample >= 0) {  // the first round loads kernels and makes room
          ms[i].push_back(took);
        }
      }
    }
    for (std::size_t i = 0; i < options.rows.size(); ++i) {
      bench.results.push_back({.prompt = count,
                               .rows = options.rows[i],
                               .time = profiler::summary_of(ms[i]),
                               .linear_flops = linear_flops(shape, count)});
      on_row(bench.results.back());
    }
  }
}

std::string rows_text(const PrefillRow& row) {
  return row.rows == 0 ? std::to_string(kChain) + ", c1" : std::to_string(row.rows);
}

}  // namespace

void check_prefill_bench(const PrefillBenchOptions& options) {
  const LlmShape shape = shape_of(options);
  const auto within = [](const std::vector<std::int64_t>& values, std::int64_t low,
                         std::int64_t high) {
    return !values.empty() && std::all_of(values.begin(), values.end(), [&](std::int64_t value) {
      return value >= low && value <= high;
    });
  };
  if (options.samples < 6 || !within(options.prompts, 1, shape.max_position) ||
      !within(options.rows, 0, kMostRows)) {
    throw Error(
        ExitCode::kUsage,
        formatted("bench prefill takes prompts of 1 to %lld tokens, 0 to %lld rows and at "
                  "least 6 samples",
                  static_cast<long long>(shape.max_position), static_cast<long long>(kMostRows)));
  }
}

PrefillBench bench_prefill(const PrefillBenchOptions& options,
                           const std::function<void(const PrefillRow&)>& on_row) {
  const ComputeDevice device = compute_device(options.on_gpu ? "cuda" : "cpu", options.threads);
  PrefillBench bench{.device = device.name,
                     .backend = name_of(device.backend),
                     .dtype = options.on_gpu ? "bf16" : "f32",
                     .options = options,
                     .results = {}};
  with_ops(device, options.on_gpu ? Dtype::kBf16 : Dtype::kF32,
           [&]<class T>(std::unique_ptr<kernels::Ops<T>> ops) { measure(*ops, on_row, bench); });
  return bench;
}

std::string prefill_bench_json(const PrefillBench& bench) {
  ordered_json rows = ordered_json::array();
  for (const PrefillRow& row : bench.results) {
    rows.push_back({{"prompt", row.prompt},
                    {"rows", row.rows},
                    {"time_ms", summary_json(row.time)},
                    {"tokens_per_second", row.tokens_per_second()},
                    {"linear_flops", row.linear_flops},
                    {"linear_tflops_per_second", row.linear_tflops()}});
  }
  ordered_json out = head_json("prefill", bench, bench.options.geometry);
  const bool dense = shape_of(bench.options).attention == AttentionKind::kDense;
  out["attention"] = dense ? "dense" : "nsa";
  out["samples"] = bench.options.samples;
  out["seed"] = bench.options.seed;
  out["measured_utc"] = bench.options.measured_utc;
  out["revision"] = bench.options.revision;
  out["rows"] = rows;
  return out.dump(1) + "\n";
}

std::string prefill_bench_text(const PrefillBench& bench) {
  std::string out =
      head_text("prompts of " + bench.options.geometry + (bench.options.dense ? ", dense" : ""),
                bench, "", "ms") +
      " prompt     rows      read  [95 % interval]        tokens/s  Tflop/s\n";
  for (const PrefillRow& row : bench.results) {
    out += formatted("%7lld  %7s %s %10.0f %8.1f\n", static_cast<long long>(row.prompt),
                     rows_text(row).c_str(), summary_text(row.time).c_str(),
                     row.tokens_per_second(), row.linear_tflops());
  }
  return out +
         formatted(
             "rows: tokens in one forward; %lld, c1: chains of %lld one after the other, each node "
             "its own group.\nTflop/s: of the matrix products, over the whole time, attention in "
             "it.\n",
             static_cast<long long>(kChain), static_cast<long long>(kChain));
}

}  // namespace versieve::engine
