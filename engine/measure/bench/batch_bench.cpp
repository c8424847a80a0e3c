#include "engine/measure/bench/batch_bench.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "engine/run/batch/batch_memory.h"
#include "engine/run/model/compute_device.h"
#include "engine/run/model/synthetic.h"
#include "model/launches/step_composition.h"
#include "model/launches/step_shape.h"
#include "model/words/assert.h"
#include "model/words/error.h"
#include "profiler/cold_reads.h"
#include "profiler/environment.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kWarmUpSteps = 3;

LlmShape shape_for(const std::string& geometry, AttentionKind attention) {
  LlmShape shape = named_llm_shape(geometry);
  shape.attention = attention;
  return shape;
}

AttentionKind attention_of(const Strategy& strategy) {
  return strategy.attention == AttentionMethod::kNsa ? AttentionKind::kNsa : AttentionKind::kDense;
}

// What a step of one request reads, by whether many requests read it once together.
void count_bytes(const LlmShape& shape, const DraftShape& draft, std::int64_t element_bytes,
                 BatchBenchRow& row) {
  StepWork work;
  add_step(asked_step(row.strategy, shape, draft, row.context_len, element_bytes), 1.0, work);
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
  BatchBencher(kernels::Ops<T>& ops, const BatchBenchOptions& options, AttentionKind attention)
      : ops_(ops),
        options_(options),
        shape_(shape_for(options.geometry, attention)),
        draft_shape_(usual_draft(shape_)),
        target_(make_synthetic_target(ops, shape_, draft_shape_, options.seed)),
        draft_(make_synthetic_draft(ops, draft_shape_, target_, options.seed + 1)) {}

  AttentionKind attention() const { return shape_.attention; }

  BatchBenchRow row(const Strategy& strategy, std::int64_t context, std::int64_t requests) {
    BatchBenchRow out{.strategy = strategy, .context_len = context, .requests = requests};
    out.tokens = strategy.draft.speculates()
                     ? static_cast<double>(std::min(options_.yield, strategy.draft.depth + 1))
                     : 1.0;
    count_bytes(shape_, draft_shape_, sizeof(T), out);
    const BatchRequest request = request_of(strategy, context);
    SessionOptions session{.concurrency = requests, .drafts_by_rank = true};
    try {
      const std::vector<BatchRequest> all(static_cast<std::size_t>(requests), request);
      const MemoryPlan memory = plan_memory<T>(ops_, options_.on_gpu, shape_, &draft_shape_,
                                               nullptr, all, session, std::nullopt);
      session.pages = requests * BatchSession<T>::pages_needed(shape_, request);
      if (memory.pages < session.pages) {
        out.refused_because = "keys and values of " + std::to_string(requests) +
                              " requests do not fit into this machine's memory";
        return out;
      }
    } catch (const Error& error) {
      out.refused_because = error.what();
      return out;
    }
    measure(request, session, out);
    return out;
  }

 private:
  BatchRequest request_of(const Strategy& strategy, std::int64_t context) const {
    const std::int64_t steps = kWarmUpSteps + options_.samples + 1;
    BatchRequest request{
        .prompt = std::vector<std::int32_t>(static_cast<std::size_t>(context + 1), 1),
        .options = {.strategy = strategy, .max_new_tokens = 1 + steps * (options_.yield + 1)}};
    request.forced_yield = strategy.draft.speculates() ? options_.yield : 0;
    return request;
  }

  // The first request's context is random, the others' are copies of it.
  void measure(const BatchRequest& request, const SessionOptions& options, BatchBenchRow& out) {
    BatchSession<T> session(ops_, target_, &draft_, options);
    std::optional<KvCache<T>> first;
    for (std::int64_t id = 0; id < out.requests; ++id) {
      session.submit_prefilled(id, request, [&](KvCache<T>& cache) {
        if (first) {
          copy_context(*first, cache, out.context_len);
        } else {
          fill_context(ops_, shape_, cache, out.context_len, options_.seed + 2);
          first = KvCache<T>(ops_, shape_, cache.rows());
        }
      });
    }
    std::vector<double> us;
    SessionSeconds before;
    for (std::int64_t step = 0; step < kWarmUpSteps + options_.samples; ++step) {
      if (step == kWarmUpSteps) {
        before = session.seconds();
      }
      const double begin = microseconds();
      const std::vector<FinishedRequest> finished = session.step();
      ops_.synchronize();
      VERSIEVE_ASSERT(finished.empty(), "requests outlast the samples");
      if (step >= kWarmUpSteps) {
        us.push_back(microseconds() - begin);
      }
    }
    out.time = profiler::summary_of(us);
    const double steps = static_cast<double>(options_.samples);
    const SessionSeconds& after = session.seconds();
    out.spent = {.enqueue = (after.enqueue - before.enqueue) / steps,
                 .accept = (after.accept - before.accept) / steps,
                 .commit = (after.commit - before.commit) / steps,
                 .draft = (after.draft - before.draft) / steps};
  }

  void copy_context(const KvCache<T>& from, KvCache<T>& to, std::int64_t tokens) {
    to.set_length(tokens);
    const auto copy = [&](const T* source, T* destination, std::int64_t stride, std::int64_t rows) {
      if (source != nullptr && rows > 0) {
        ops_.copy_rows({.rows = shape_.layers,
                        .width = rows * shape_.kv_width(),
                        .src_stride = stride * shape_.kv_width(),
                        .dst_stride = stride * shape_.kv_width(),
                        .src = source,
                        .dst = destination,
                        .term = TrafficTerm::kKvAppend});
      }
    };
    const KvRows<T>& a = from.rows();
    const KvRows<T>& b = to.rows();
    copy(a.k, b.k, a.layer_rows, tokens);
    copy(a.v, b.v, a.layer_rows, tokens);
    copy(a.k_raw, b.k_raw, a.layer_rows, tokens);
    copy(a.k_cmp, b.k_cmp, a.cmp_layer_rows, to.compressed_length());
    copy(a.v_cmp, b.v_cmp, a.cmp_layer_rows, to.compressed_length());
  }

  kernels::Ops<T>& ops_;
  const BatchBenchOptions& options_;
  LlmShape shape_;
  DraftShape draft_shape_;
  Target<T> target_;
  Draft<T> draft_;
};

// Rows of one strategy and context, B after B.
template <class T>
void add_rows(kernels::Ops<T>& ops, const std::function<void(const BatchBenchRow&)>& on_row,
              BatchBench& bench) {
  const BatchBenchOptions& options = bench.options;
  const std::optional<double> rate = cold_read_rate(bench.cold_reads);
  std::unique_ptr<BatchBencher<T>> bencher;
  for (const std::string& text : options.strategies) {
    const Strategy strategy = Strategy::parse(text);
    if (bencher == nullptr || bencher->attention() != attention_of(strategy)) {
      bencher.reset();  // frees first: two models need not fit together
      bencher = std::make_unique<BatchBencher<T>>(ops, options, attention_of(strategy));
    }
    for (const std::int64_t context : options.contexts) {
      std::optional<double> one;
      for (const std::int64_t requests : options.requests) {
        BatchBenchRow row = bencher->row(strategy, context, requests);
        if (rate) {
          row.bound_us = 1e6 * row.bytes() / *rate;
        }
        if (row.refused_because.empty() && requests == 1) {
          one = row.tokens_per_second();
        }
        if (row.refused_because.empty() && one) {
          row.over_one = row.tokens_per_second() / *one;
        }
        bench.rows.push_back(row);
        on_row(row);
      }
    }
  }
}

}  // namespace

void check_batch_bench(const BatchBenchOptions& options) {
  const auto least = [](const std::vector<std::int64_t>& values) {
    return values.empty() ? 0 : *std::min_element(values.begin(), values.end());
  };
  const bool many = !options.requests.empty() &&
                    *std::max_element(options.requests.begin(), options.requests.end()) > 1024;
  if (options.samples < 6 || least(options.contexts) < 8 || least(options.requests) < 1 || many ||
      options.strategies.empty() || options.yield < 1) {
    throw Error(ExitCode::kUsage,
                "bench batch takes strategies, 1 to 1024 requests, contexts of at least 8 tokens, "
                "a yield of at least 1 and at least 6 samples");
  }
  for (const std::string& text : options.strategies) {
    const Strategy strategy = Strategy::parse(text);
    const LlmShape shape = shape_for(options.geometry, attention_of(strategy));
    if (strategy.attention != AttentionMethod::kNsa &&
        strategy.attention != AttentionMethod::kDense) {
      throw Error(ExitCode::kUsage, "bench batch takes nsa and dense strategies, not " + text);
    }
    if (const std::string reason = illegal_because(strategy, shape); !reason.empty()) {
      throw Error(ExitCode::kUsage, text + ": " + reason);
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
