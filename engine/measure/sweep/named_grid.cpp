#include "engine/measure/sweep/named_grid.h"

#include "engine/measure/sweep/sweep_fields.h"
#include "model/words/batch_point.h"
#include "model/words/kernel_case.h"

namespace versieve::engine {
namespace {

using Texts = std::vector<std::string>;
constexpr const char* kAlikeContexts = "alike";  // of all requests of a batch

using Counts = std::vector<std::int64_t>;

constexpr std::int64_t kMostRows = 4096;
constexpr std::int64_t kLongest = std::int64_t{1} << 20;

bool is_kernel(WorkloadKind workload) {
  return workload == WorkloadKind::kTopk || workload == WorkloadKind::kSampling ||
         workload == WorkloadKind::kMachine;
}

bool is_step(WorkloadKind workload) {
  return workload == WorkloadKind::kStep || workload == WorkloadKind::kRectifiedStep;
}

// A pair's weights on a text that the point names.
bool reads_text(WorkloadKind workload) {
  return workload == WorkloadKind::kAcceptance;
}

struct NamedGrid {
  WorkloadKind workload = WorkloadKind::kDecode;
  Texts model, text, dtype, cache_state, launch;
  std::string regime = "synthetic", split;  // of the text that steps of a trained pair run on
  Counts length, rows;  // rows: of kernels, requests of batches; strategies say their own
  std::vector<double> temperature;  // of steps
  std::vector<double> overlap;      // of batches: what neighbours share; empty: as it comes
};

void require_within(const std::string& where, const char* key, const Counts& values,
                    std::int64_t most) {
  for (const std::int64_t value : values) {
    if (value < 1 || value > most) {
      throw Error(ExitCode::kBadInput,
                  where + ": '" + key + "' must lie within 1 and " + std::to_string(most));
    }
  }
}

NamedGrid read_named(const nlohmann::json& object, const std::string& where) {
  Fields fields(object, where);
  NamedGrid grid;
  grid.workload = workload_kind(fields.value<std::string>("workload", "attention"));
  const bool kernel = is_kernel(grid.workload);
  const bool reads = reads_text(grid.workload);
  const bool batch = grid.workload == WorkloadKind::kBatch;
  const bool step = is_step(grid.workload) || reads || batch;
  const char* const text = kernel ? "case" : "strategy";
  const char* const length = kernel ? "length" : "context_len";
  grid.text = fields.axis<std::string>(text, {});
  if (grid.text.empty()) {
    throw Error(ExitCode::kBadInput, where + ": '" + text + "' is missing");
  }
  grid.model = kernel ? Texts{"kernel"}
                      : fields.axis<std::string>("model", {reads ? kPairModel : "dense-1b"});
  grid.rows = kernel  ? fields.axis<std::int64_t>("rows", {1})
              : batch ? fields.axis<std::int64_t>("requests", {1})
                      : Counts{0};
  if (batch) {
    const std::string contexts = fields.value<std::string>("contexts", kAlikeContexts);
    require_known(fields, "contexts", {contexts}, {kAlikeContexts, kMixedContexts});
    grid.regime = contexts == kMixedContexts ? kMixedContexts : grid.regime;
    require_within(where, "requests", grid.rows, kMostBatch);
    grid.overlap = fields.axis<double>("overlap", {});
    require_shares(where, grid.overlap);
  }
  grid.length = fields.axis<std::int64_t>(length, {4096});
  grid.dtype = fields.axis<std::string>("dtype", {"bf16"});
  grid.cache_state = fields.axis<std::string>("cache_state", {step ? "as_is" : "cold_rotate"});
  grid.launch = fields.axis<std::string>("launch", {reads || batch ? "stream" : "graph"});
  if (batch) {
    require_known(fields, "launch", grid.launch, {"stream"});
  }
  if (is_of_pair(grid.model, where) && step) {
    grid.regime = fields.value<std::string>("regime", text_regimes().front());
    grid.split = fields.value<std::string>("split", "calibration");
  }
  grid.temperature = grid.workload == WorkloadKind::kStep
                         ? fields.axis<double>("temperature", {0.0})
                         : std::vector<double>{0.0};
  fields.refuse_the_rest();
  require_temperatures(where, grid.temperature);
  require_targets(where, grid.workload, grid.model);
  require_known(fields, "dtype", grid.dtype, {"f32", "bf16"});
  require_known(fields, "launch", grid.launch, {"stream", "graph"});
  if (step) {
    require_known(fields, "cache_state", grid.cache_state, {"as_is"});
  }
  require_known(fields, "cache_state", grid.cache_state, {"warm", "cold_rotate", "as_is"});
  require_within(where, length, grid.length, kLongest);
  if (kernel) {
    require_within(where, "rows", grid.rows, kMostRows);
  }
  return grid;
}

// Queries of a pass: the tokens of a period.
std::int64_t rectified_tokens(const Strategy& strategy, const NamedGrid& grid) {
  if (strategy.attention != AttentionMethod::kResa || strategy.resa_rectify_every < 1) {
    throw Error(ExitCode::kBadInput, std::string("the workload ") + name_of(grid.workload) +
                                         " takes resa:b<block>p<ratio>f<period> with a period, "
                                         "not '" +
                                         strategy.text() + "'");
  }
  return strategy.resa_rectify_every;
}

// What neighbouring queries are to share, which only trees have; plain decoding is as it is.
std::vector<std::optional<double>> overlaps_of(const NamedGrid& grid, const std::string& where,
                                               const std::string& text) {
  if (grid.overlap.empty()) {
    return {std::nullopt};
  }
  const Strategy strategy = Strategy::parse(text);
  if (strategy.attention != AttentionMethod::kNsa) {
    throw Error(ExitCode::kBadInput,
                where + ": 'overlap' is of nsa strategies, not of '" + strategy.text() + "'");
  }
  if (!strategy.draft.speculates()) {
    return {std::nullopt};
  }
  return {grid.overlap.begin(), grid.overlap.end()};
}

// The canonical text and rows of a point.
void name_point(const NamedGrid& grid, const std::string& text, std::int64_t rows, PointKey& key) {
  key.num_queries = rows;
  switch (grid.workload) {
    case WorkloadKind::kTopk:
      key.strategy = TopkCase::parse(text).text();
      return;
    case WorkloadKind::kSampling:
      key.strategy = SamplingCase::parse(text).text();
      return;
    case WorkloadKind::kMachine:
      key.strategy = MachineCase::parse(text).text();
      return;
    case WorkloadKind::kAttention:
    case WorkloadKind::kStep:
    case WorkloadKind::kAcceptance:
    case WorkloadKind::kDecode:
    case WorkloadKind::kRectify:
    case WorkloadKind::kRectifiedStep:
    case WorkloadKind::kBatch:
      break;
  }
  const Strategy strategy = Strategy::parse(text);
  if (grid.workload == WorkloadKind::kRectifiedStep) {
    rectified_tokens(strategy, grid);  // refuses
  }
  key.strategy = strategy.text();
  if (grid.workload == WorkloadKind::kBatch) {
    key.num_queries = rows * strategy.draft.nodes;
    return;
  }
  key.num_queries = grid.workload == WorkloadKind::kRectify ? rectified_tokens(strategy, grid)
                                                            : strategy.draft.nodes;
}

void add_points(const NamedGrid& grid, const std::vector<std::optional<double>>& overlaps,
                PointKey key, SweepPlan& plan) {
  for (const std::optional<double>& overlap : overlaps) {
    key.overlap = overlap;
    for (const double temperature : grid.temperature) {
      key.temperature = temperature;
      add_point(key, plan);
    }
  }
}

}  // namespace

bool names_points(const nlohmann::json& grid) {
  const std::string workload =
      grid.is_object() && grid.contains("workload") && grid.at("workload").is_string()
          ? grid.at("workload").get<std::string>()
          : "";
  const bool step = (workload == name_of(WorkloadKind::kStep) ||
                     workload == name_of(WorkloadKind::kAcceptance)) &&
                    grid.contains("strategy");
  return step || workload == name_of(WorkloadKind::kDecode) ||
         workload == name_of(WorkloadKind::kRectify) ||
         workload == name_of(WorkloadKind::kRectifiedStep) ||
         workload == name_of(WorkloadKind::kBatch) || workload == name_of(WorkloadKind::kTopk) ||
         workload == name_of(WorkloadKind::kSampling) ||
         workload == name_of(WorkloadKind::kMachine);
}

// Innermost axes change fastest; tensors depend on the outer ones.
void expand_named(const nlohmann::json& object, const std::string& where, Backend backend,
                  SweepPlan& plan) {
  const NamedGrid grid = read_named(object, where);
  PointKey key{
      .workload = grid.workload, .regime = grid.regime, .split = grid.split, .backend = backend};
  for (const std::string& model : grid.model) {
    for (const std::string& dtype : grid.dtype) {
      for (const std::int64_t length : grid.length) {
        for (const std::int64_t rows : grid.rows) {
          for (const std::string& text : grid.text) {
            for (const std::string& cache_state : grid.cache_state) {
              for (const std::string& launch : grid.launch) {
                key.model = model;
                key.dtype = backend == Backend::kCpu ? Dtype::kF32 : dtype_of(dtype);
                key.context_len = length;
                key.cache_state = cache_state_of(cache_state);
                key.launch = launch_mode_of(launch);
                name_point(grid, text, rows, key);
                add_points(grid, overlaps_of(grid, where, text), key, plan);
              }
            }
          }
        }
      }
    }
  }
}

}  // namespace versieve::engine
