#include "engine/measure/bench/batch_bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "engine/measure/bench/given_yield.h"
#include "engine/measure/sweep/synthetic_batch.h"
#include "engine/run/model/compute_device.h"
#include "model/launches/step_composition.h"
#include "model/launches/step_shape.h"
#include "model/words/error.h"
#include "profiler/cold_reads.h"
#include "profiler/environment.h"
#include "profiler/nvml.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kWarmUpSteps = 3;
constexpr std::int64_t kUsualYield = 3;
// The GPU's count of its energy is brought up to date some tens of times a second.
constexpr double kEnergyUs = 6e5;
constexpr std::int64_t kMostEnergySteps = 600;

// What a step of one request reads, by whether many requests read it once together.
void count_bytes(const LlmShape& shape, const DraftShape& draft, std::int64_t element_bytes,
                 BatchBenchRow& row) {
  StepWork work;
  StepShape step = asked_step(row.strategy, shape, draft, row.context_len, element_bytes);
  if (shape.attention == AttentionKind::kDense) {
    step.dense = asked_read(row.strategy);
  }
  add_step(step, 1.0, work);
  for (const LaunchWork& launch : work) {
    const auto read = [&](TrafficTerm term) {
      return launch.launches * launch.unique.read_bytes[static_cast<std::size_t>(term)];
    };
    row.shared_bytes += read(TrafficTerm::kWeights) + read(TrafficTerm::kDraft);
    row.request_bytes += read(TrafficTerm::kCompressedCache) + read(TrafficTerm::kSelectedBlocks) +
                         read(TrafficTerm::kWindow);
  }
}

double microseconds() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Models of one kind of attention, for all rows of it.
template <class T>
class BatchBencher {
 public:
  BatchBencher(kernels::Ops<T>& ops, const BatchBenchOptions& options, const LlmShape& shape)
      : options_(options), batch_(ops, shape, options.on_gpu, options.seed) {
    if (options.on_gpu && options.energy) {
      gpu_ = std::make_unique<profiler::GpuStateReader>(profiler::describe_gpu()->pci_bus_id);
    }
  }

  AttentionKind attention() const { return batch_.shape().attention; }

  BatchBenchRow row(const BatchTuple& tuple, std::int64_t context, std::int64_t requests) {
    const Strategy& strategy = tuple.strategy;
    BatchBenchRow out{.strategy = strategy, .context_len = context, .requests = requests};
    out.tokens = tuple.tokens;
    out.role = tuple.role;
    if (!tuple.role.empty()) {
      out.predicted_us = tuple.predicted_us;
      out.predicted_interval_us = tuple.predicted_interval_us;
    }
    count_bytes(batch_.shape(), batch_.draft_shape(), sizeof(T), out);
    out.refused_because = begin(out, kWarmUpSteps + options_.samples);
    if (out.refused_because.empty()) {
      measure(out);
      if (gpu_ != nullptr) {
        measure_energy(out);
      }
      batch_.end();
    }
    return out;
  }

 private:
  std::string begin(const BatchBenchRow& row, std::int64_t steps) {
    const std::vector<std::int64_t> contexts(static_cast<std::size_t>(row.requests),
                                             row.context_len);
    return batch_.begin({.strategy = row.strategy,
                         .contexts = contexts,
                         .yield = std::max<std::int64_t>(1, std::llround(row.tokens)),
                         .steps = steps,
                         .temperature = options_.temperature});
  }
  // None where there is no room for so many steps more.
  void measure_energy(BatchBenchRow& out) {
    const auto steps = std::clamp(static_cast<std::int64_t>(kEnergyUs / out.time.median),
                                  std::int64_t{1}, kMostEnergySteps);
    if (!begin(out, kWarmUpSteps + steps).empty()) {
      return;
    }
    for (std::int64_t step = 0; step < kWarmUpSteps; ++step) {
      batch_.step();
    }
    const std::optional<double> joules = gpu_->energy_j();
    const double from = microseconds();
    for (std::int64_t step = 0; step < steps; ++step) {
      batch_.step();
    }
    const double us = microseconds() - from;
    if (const std::optional<double> now = gpu_->energy_j(); joules && now) {
      out.watts = 1e6 * (*now - *joules) / us;
    }
  }
  void measure(BatchBenchRow& out) {
    for (std::int64_t step = 0; step < kWarmUpSteps; ++step) {
      batch_.step();
    }
    const SessionSeconds before = batch_.seconds();
    std::vector<double> us;
    for (std::int64_t step = 0; step < options_.samples; ++step) {
      const double begin = microseconds();
      batch_.step();
      us.push_back(microseconds() - begin);
    }
    out.time = profiler::summary_of(us);
    const double steps = static_cast<double>(options_.samples);
    const SessionSeconds& after = batch_.seconds();
    out.spent = {.enqueue = (after.enqueue - before.enqueue) / steps,
                 .ahead = (after.ahead - before.ahead) / steps,
                 .accept = (after.accept - before.accept) / steps,
                 .commit = (after.commit - before.commit) / steps,
                 .draft = (after.draft - before.draft) / steps};
  }

  const BatchBenchOptions& options_;
  SyntheticBatch<T> batch_;
  std::unique_ptr<profiler::GpuStateReader> gpu_;  // where energy is asked for
};

struct Job {
  BatchTuple tuple;
  std::int64_t context = 0, requests = 0;
  std::string refused_because;  // of a table that plans nothing there
};

LlmShape shape_of(const BatchBenchOptions& options, const Strategy& strategy) {
  return batch_shape(options.table != nullptr ? options.table->model : options.geometry, strategy);
}

// Or one that says why the table has none.
void add_played(const BatchBenchOptions& options, std::int64_t context, std::int64_t requests,
                std::vector<Job>& jobs) {
  try {
    for (BatchTuple& tuple : played_tuples(*options.table, context, requests, options.precision)) {
      jobs.push_back({std::move(tuple), context, requests, {}});
    }
  } catch (const Error& error) {
    if (error.code() != ExitCode::kAnswerNo) {
      throw;
    }
    jobs.push_back(
        {{.strategy = plain_decoding(named_llm_shape(options.table->model)), .role = "planned"},
         context,
         requests,
         error.what()});
  }
}

// What is timed, in turn: of a table the tuples of a number of requests one after the other, else
// of a strategy and context B after B.
std::vector<Job> jobs_of(const BatchBenchOptions& options) {
  std::vector<Job> jobs;
  if (options.table != nullptr) {
    for (const std::int64_t context : options.contexts) {
      for (const std::int64_t requests : options.requests) {
        add_played(options, context, requests, jobs);
      }
    }
    return jobs;
  }
  for (const std::string& text : options.strategies) {
    BatchTuple tuple{.strategy = Strategy::parse(text), .role = {}};
    tuple.tokens = static_cast<double>(yield_of(tuple.strategy, options.yield, kUsualYield));
    for (const std::int64_t context : options.contexts) {
      for (const std::int64_t requests : options.requests) {
        jobs.push_back({tuple, context, requests, {}});
      }
    }
  }
  return jobs;
}

template <class T>
void add_rows(kernels::Ops<T>& ops, const std::function<void(const BatchBenchRow&)>& on_row,
              BatchBench& bench) {
  const BatchBenchOptions& options = bench.options;
  const std::optional<double> rate = cold_read_rate(bench.cold_reads);
  std::unique_ptr<BatchBencher<T>> bencher;
  std::map<std::pair<std::string, std::int64_t>, double> one;  // tokens a second of one request
  for (const Job& job : jobs_of(options)) {
    const LlmShape shape = shape_of(options, job.tuple.strategy);
    if (bencher == nullptr || bencher->attention() != shape.attention) {
      bencher.reset();  // frees first: two models need not fit together
      bencher = std::make_unique<BatchBencher<T>>(ops, options, shape);
    }
    BatchBenchRow row = job.refused_because.empty()
                            ? bencher->row(job.tuple, job.context, job.requests)
                            : BatchBenchRow{.strategy = job.tuple.strategy,
                                            .context_len = job.context,
                                            .requests = job.requests,
                                            .refused_because = job.refused_because};
    if (rate) {
      row.bound_us = 1e6 * row.bytes() / *rate;
    }
    const std::pair key{row.strategy.text(), row.context_len};
    if (row.refused_because.empty() && row.requests == 1) {
      one[key] = row.tokens_per_second();
    }
    if (const auto found = one.find(key); row.refused_because.empty() && found != one.end()) {
      row.over_one = row.tokens_per_second() / found->second;
    }
    bench.rows.push_back(row);
    on_row(row);
  }
}

const BatchBenchRow* timed(const std::vector<BatchBenchRow>& rows, const BatchBenchRow& beside,
                           const char* role) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const BatchBenchRow& row) {
    return row.role == role && row.context_len == beside.context_len &&
           row.requests == beside.requests && row.refused_because.empty();
  });
  return found != rows.end() ? &*found : nullptr;
}

}  // namespace

std::vector<BatchPlayed> BatchBench::played() const {
  std::vector<BatchPlayed> out;
  for (const BatchBenchRow& row : rows) {
    if (row.role != "planned" || !row.refused_because.empty()) {
      continue;
    }
    const BatchBenchRow* const plain = timed(rows, row, "plain");
    const BatchBenchRow* const base = timed(rows, row, "baseline");
    if (plain != nullptr && base != nullptr) {
      // One tuple in two roles was timed twice, and gains nothing over itself.
      const auto over = [&row](const BatchBenchRow& other) {
        return other.strategy == row.strategy ? 1.0
                                              : row.tokens_per_second() / other.tokens_per_second();
      };
      out.push_back({.context_len = row.context_len,
                     .requests = row.requests,
                     .planned = row.strategy,
                     .tokens_per_second = row.tokens_per_second(),
                     .over_baseline = over(*base),
                     .over_plain = over(*plain)});
    }
  }
  return out;
}

void check_batch_bench(const BatchBenchOptions& options) {
  const auto least = [](const std::vector<std::int64_t>& values) {
    return values.empty() ? 0 : *std::min_element(values.begin(), values.end());
  };
  const bool many = !options.requests.empty() &&
                    *std::max_element(options.requests.begin(), options.requests.end()) > 1024;
  if (options.samples < 6 || least(options.contexts) < 8 || least(options.requests) < 1 || many ||
      options.strategies.empty()) {
    throw Error(ExitCode::kUsage,
                "bench batch takes strategies, 1 to 1024 requests, contexts of at least 8 tokens "
                "and at least 6 samples");
  }
  for (const Job& job : jobs_of(options)) {
    const Strategy& strategy = job.tuple.strategy;
    if (options.table == nullptr) {
      check_yield(strategy, options.yield);
    }
    if (const std::string reason = unbatched_because(strategy, shape_of(options, strategy));
        !reason.empty()) {
      throw Error(ExitCode::kUsage, strategy.text() + ": " + reason);
    }
  }
}

BatchBench bench_batch(const BatchBenchOptions& options,
                       const std::function<void(const BatchBenchRow&)>& on_row) {
  const ComputeDevice device = compute_device(options.on_gpu ? "cuda" : "cpu", options.threads);
  BatchBench bench{.device = device.name,
                   .backend = name_of(device.backend),
                   .dtype = options.on_gpu ? "bf16" : "f32",
                   .options = options,
                   .cold_reads = {},
                   .rows = {}};
  if (options.on_gpu) {
    bench.cold_reads = profiler::measure_cold_reads();
  }
  with_ops(device, options.on_gpu ? Dtype::kBf16 : Dtype::kF32,
           [&]<class T>(std::unique_ptr<kernels::Ops<T>> ops) { add_rows(*ops, on_row, bench); });
  return bench;
}

}  // namespace versieve::engine
