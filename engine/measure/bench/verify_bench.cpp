#include "engine/measure/bench/verify_bench.h"

#include <algorithm>
#include <memory>
#include <set>

#include "engine/measure/bench/bench_place.h"
#include "engine/measure/sweep/cold_sets.h"
#include "engine/measure/sweep/sweep_ops.h"
#include "model/launches/nsa_shape.h"
#include "model/words/assert.h"
#include "model/words/cache_passes.h"
#include "model/words/draft_tree.h"
#include "profiler/cold_reads.h"
#include "profiler/environment.h"
#include "profiler/gpu_timer.h"
#include "profiler/timing.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kMostQueries = 256;
constexpr std::int64_t kMostHeads = 1024;

LayerVariant grouped(const std::string& group) {
  const Strategy s = Strategy::parse("nsa/d2k2n4/bfs/" + group + "/F*");
  return {.group_size = s.group_size, .group_mode = s.group_mode};
}

std::vector<VerifyVariant> contenders(const VerifyBenchOptions& options) {
  std::vector<VerifyVariant> out = {{.name = "vanilla", .variant = {.form = NsaForm::kVanilla}}};
  for (const bool reuse : {false, true}) {
    for (const std::string& group : options.groups) {
      LayerVariant variant = grouped(group);
      variant.reuse = reuse;
      out.push_back({.name = (reuse ? "reuse " : "refresh ") + group, .variant = variant});
    }
  }
  return out;
}

// Times what was prepared, in us a run.
class Stopwatch {
 public:
  virtual ~Stopwatch() = default;
  virtual void* stream() { return nullptr; }
  virtual double cold_bytes() const { return 0.0; }
  // Gets contender `index` ready; it has run once before.
  virtual void prepare(const std::function<void(std::int64_t set)>& run, std::int64_t sets) = 0;
  virtual double sample_us(std::size_t index) = 0;
  virtual void clear() = 0;
};

class HostStopwatch final : public Stopwatch {
 public:
  void prepare(const std::function<void(std::int64_t set)>& run, std::int64_t) override {
    runs_.push_back(run);
  }
  double sample_us(std::size_t index) override {
    return 1e-3 * profiler::host_time_ns([&] { runs_[index](0); });
  }
  void clear() override { runs_.clear(); }

 private:
  std::vector<std::function<void(std::int64_t)>> runs_;
};

class GpuStopwatch final : public Stopwatch {
 public:
  explicit GpuStopwatch(bool warm) : warm_(warm), timer_(stream_) {}
  void* stream() override { return stream_.handle(); }
  double cold_bytes() const override {
    return warm_ ? 0.0 : static_cast<double>(kColdPasses * profiler::gpu_l2_bytes());
  }
  void prepare(const std::function<void(std::int64_t set)>& run, std::int64_t sets) override {
    const std::int64_t runs = warm_ ? kWarmRuns : sets;
    graphs_.push_back(std::make_unique<profiler::GpuGraph>(stream_, [&] {
      for (std::int64_t i = 0; i < runs; ++i) {
        run(warm_ ? 0 : i);
      }
    }));
    runs_.push_back(static_cast<double>(runs));
  }
  double sample_us(std::size_t index) override {
    return 1e-3 * timer_.time_ns([&] { graphs_[index]->launch(); }) / runs_[index];
  }
  void clear() override {
    stream_.synchronize();
    graphs_.clear();
    runs_.clear();
  }

 private:
  bool warm_;
  profiler::GpuStream stream_;
  profiler::GpuTimer timer_;
  std::vector<std::unique_ptr<profiler::GpuGraph>> graphs_;
  std::vector<double> runs_;
};

std::unique_ptr<Stopwatch> make_stopwatch(const VerifyBenchOptions& options) {
  if (!options.on_gpu) {
    return std::make_unique<HostStopwatch>();
  }
  if (const std::string missing = profiler::gpu_missing_because(); !missing.empty()) {
    throw Error(ExitCode::kEnvironment, missing);
  }
  return std::make_unique<GpuStopwatch>(options.warm);
}

template <class T>
class VerifyBencher {
 public:
  VerifyBencher(const VerifyBenchOptions& options, std::span<const ReadTime> cold_reads)
      : options_(options),
        cold_reads_(cold_reads),
        shape_(bench_layer(options)),
        watch_(make_stopwatch(options)),
        ops_(make_sweep_ops<T>(options.on_gpu, watch_->stream(), options.threads)) {}

  void run(const std::function<void(VerifyCell)>& on_cell) {
    for (const std::int64_t context : options_.contexts) {
      make_layer(context);
      for (const std::int64_t queries : options_.queries) {
        layer_->set_tree(synthetic_tree(bench_tree(queries)));
        for (const double overlap : queries > 1 ? options_.overlaps : std::vector<double>{1.0}) {
          layer_->set_overlap(overlap);
          VerifyCell cell{.queries = queries, .context_len = context, .overlap = overlap};
          cell.variants = contenders(options_);
          measure(cell);
          on_cell(std::move(cell));
        }
      }
    }
  }

 private:
  void make_layer(std::int64_t context) {
    const traffic::NsaVerifyShape one_query{.nsa = shape_.nsa,
                                            .num_heads = shape_.num_heads,
                                            .num_kv_heads = shape_.num_kv_heads,
                                            .head_dim = shape_.head_dim,
                                            .context_len = context,
                                            .num_queries = 1,
                                            .element_bytes = sizeof(T)};
    layer_.reset();  // its memory first
    layer_ = std::make_unique<SyntheticLayer<T>>(*ops_, shape_, context, sets_for(one_query),
                                                 options_.seed);
  }

  std::int64_t sets_for(const traffic::NsaVerifyShape& shape) const {
    return watch_->cold_bytes() > 0.0 ? cold_sets(watch_->cold_bytes(), touched_bytes(shape)) : 1;
  }

  // A first run of each grows scratch to what the greediest needs: graphs keep its address.
  void describe(VerifyVariant& v) {
    layer_->set_variant(v.variant);
    layer_->run(0);
    const BlockStatistics blocks = layer_->measured_blocks();
    v.overlap = blocks.adjacent_overlap.value_or(1.0);
    v.unique_blocks = blocks.unique_blocks;
    v.floor_bytes = fetched_bytes(layer_->traffic_shape(), layer_->selected_blocks());
    v.floor_us = cold_read_us(cold_reads_, v.floor_bytes);
  }

  void measure(VerifyCell& cell) {
    for (VerifyVariant& v : cell.variants) {
      describe(v);
    }
    for (const VerifyVariant& v : cell.variants) {
      layer_->set_variant(v.variant);
      traffic::NsaVerifyShape shape = layer_->traffic_shape();
      shape.unique_blocks = v.unique_blocks;
      watch_->prepare(
          [this](std::int64_t set) {
            layer_->run(set);
            if (!options_.on_gpu) {
              ops_->synchronize();
            }
          },
          std::min(layer_->sets(), sets_for(shape)));
    }
    take_turns(cell);
    watch_->clear();
  }

  void take_turns(VerifyCell& cell) {
    std::vector<std::vector<double>> times(cell.variants.size());
    // The first round warms up.
    for (std::int64_t round = -1; round < options_.samples; ++round) {
      for (std::size_t i = 0; i < cell.variants.size(); ++i) {
        layer_->set_variant(cell.variants[i].variant);  // a reuse layer's blocks
        const double us = watch_->sample_us(i);
        if (round >= 0) {
          times[i].push_back(us);
        }
      }
    }
    for (std::size_t i = 0; i < cell.variants.size(); ++i) {
      std::vector<double> ratios(times[i].size());
      std::transform(times[0].begin(), times[0].end(), times[i].begin(), ratios.begin(),
                     [](double vanilla, double own) { return vanilla / own; });
      cell.variants[i].time = profiler::summary_of(times[i]);
      cell.variants[i].over_vanilla = profiler::summary_of(ratios);
    }
  }

  const VerifyBenchOptions& options_;
  std::span<const ReadTime> cold_reads_;
  LlmShape shape_;
  std::unique_ptr<Stopwatch> watch_;
  std::unique_ptr<kernels::Ops<T>> ops_;
  std::unique_ptr<SyntheticLayer<T>> layer_;
};

// Committed tokens that one KV head's queries read: selected blocks, and the window of the root.
std::int64_t attended_tokens(const traffic::NsaVerifyShape& s,
                             const std::set<std::int32_t>& selected) {
  const std::int64_t block = s.nsa.sel_block;
  const std::int64_t window_begin = std::max<std::int64_t>(0, s.context_len - s.nsa.window + 1);
  std::int64_t tokens = 0;
  for (std::int64_t b = 0; b * block < s.context_len; ++b) {
    const std::int64_t begin = b * block;
    const std::int64_t end = std::min(begin + block, s.context_len);
    const bool whole = selected.count(static_cast<std::int32_t>(b)) != 0;
    tokens += std::max<std::int64_t>(0, end - (whole ? begin : std::max(begin, window_begin)));
  }
  return tokens;
}

}  // namespace

bool has_own_layer(const VerifyBenchOptions& options) {
  return options.heads || options.compression;
}

LlmShape bench_layer(const VerifyBenchOptions& options) {
  LlmShape layer = named_llm_shape(options.geometry);
  if (options.heads) {
    layer.num_heads = options.heads->query;
    layer.num_kv_heads = options.heads->kv;
    if (layer.num_kv_heads < 1 || layer.num_heads < 1 || layer.num_heads > kMostHeads ||
        layer.num_heads % layer.num_kv_heads != 0) {
      throw Error(ExitCode::kUsage,
                  "heads are query heads over KV heads that divide them, as 64/4, up to 1024");
    }
  }
  if (options.compression) {
    layer.nsa.cmp_block = options.compression->block;
    layer.nsa.cmp_stride = options.compression->stride;
    if (const std::string error = geometry_error(layer.nsa); !error.empty()) {
      throw Error(ExitCode::kUsage, error);
    }
  }
  return layer;
}

void check_options(const VerifyBenchOptions& options) {
  bench_layer(options);
  const auto within = [](const std::vector<std::int64_t>& values, std::int64_t most) {
    return !values.empty() && std::all_of(values.begin(), values.end(),
                                          [most](std::int64_t v) { return v >= 1 && v <= most; });
  };
  const bool shares = std::all_of(options.overlaps.begin(), options.overlaps.end(),
                                  [](double rho) { return rho >= 0.0 && rho <= 1.0; });
  if (!within(options.queries, kMostQueries) || !within(options.contexts, std::int64_t{1} << 20) ||
      !shares || options.overlaps.empty() || options.groups.empty() || options.samples < 6) {
    throw Error(
        ExitCode::kUsage,
        "bench verify takes 1 to 256 queries, contexts of 1 to 1048576 tokens, overlaps of 0 "
        "to 1 and at least 6 samples");
  }
}

const VerifyVariant& VerifyCell::best(bool reuse) const {
  const VerifyVariant* found = nullptr;
  for (const VerifyVariant& v : variants) {
    const bool candidate = v.variant.form == NsaForm::kFused && v.variant.reuse == reuse;
    if (candidate && (found == nullptr || v.time.median < found->time.median)) {
      found = &v;
    }
  }
  VERSIEVE_ASSERT(found != nullptr, "a cell has contenders of both layers");
  return *found;
}

double fetched_bytes(const traffic::NsaVerifyShape& s, const std::vector<std::int32_t>& selected) {
  const double token = static_cast<double>(2 * s.head_dim * s.element_bytes);  // of one KV head
  double bytes =
      static_cast<double>(compressed_count(s.nsa, s.context_len) * s.num_kv_heads) * token;
  for (std::int64_t g = 0; g < s.num_kv_heads; ++g) {
    std::set<std::int32_t> blocks;
    for (std::int64_t i = 0; i < s.num_queries; ++i) {
      const std::ptrdiff_t row = (i * s.num_kv_heads + g) * s.nsa.sel_count;
      blocks.insert(selected.begin() + row, selected.begin() + row + s.nsa.sel_count);
    }
    bytes += static_cast<double>(attended_tokens(s, blocks) + s.num_queries) * token;
  }
  return bytes +
         static_cast<double>(s.num_queries * s.num_heads * (s.head_dim + 3) * s.element_bytes);
}

DraftChoice bench_tree(std::int64_t queries) {
  VERSIEVE_ASSERT(queries >= 1 && queries <= kMostQueries, "a tree has 1 to 256 nodes");
  if (queries == 1) {
    return {};
  }
  struct Row {
    std::int64_t most, depth, width;
  };
  for (const Row& row : {Row{4, 3, 2}, Row{8, 4, 4}, Row{16, 5, 4}, Row{32, 6, 6}, Row{64, 6, 8}}) {
    if (queries <= row.most) {
      return {.depth = row.depth, .width = row.width, .nodes = queries};
    }
  }
  return {.depth = 8, .width = 8, .nodes = queries};
}

VerifyBench bench_verify(const VerifyBenchOptions& options,
                         const std::function<void(const VerifyCell&)>& on_cell) {
  check_options(options);
  VerifyBench bench = bench_here<VerifyBench>(options);
  const auto keep = [&](VerifyCell cell) {
    if (target_name(options.geometry) == "nsa-1b" && !has_own_layer(options) && options.on_gpu) {
      cell.recorded = recorded_public_path(cell.context_len, cell.queries);
    }
    on_cell(cell);
    bench.cells.push_back(std::move(cell));
  };
  if (options.on_gpu) {
    VerifyBencher<Bf16>(options, bench.cold_reads).run(keep);
  } else {
    VerifyBencher<float>(options, bench.cold_reads).run(keep);
  }
  return bench;
}

}  // namespace versieve::engine
