#include "engine/measure/sweep/sweep.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "engine/io/formatted.h"
#include "engine/io/strict_json.h"
#include "engine/measure/sweep/named_grid.h"
#include "engine/measure/sweep/sweep_fields.h"
#include "model/words/error.h"
#include "model/words/strategy.h"

namespace versieve::engine {
namespace {

using nlohmann::json;

constexpr int kMaxJsonDepth = 8;

// The axes of one grid; the points are their product.
struct Grid {
  WorkloadKind workload = WorkloadKind::kAttention;
  std::vector<std::string> model, regime, split, draft, order, group, schedule, form, dtype;
  std::vector<std::string> cache_state, launch;
  std::vector<std::int64_t> context_len;
  std::vector<double> overlap, temperature;
  // Points left out of the product: those that match every key of one of these objects.
  std::vector<json> except;
};

// The filter's keys: the axes as the grid writes them, and num_queries.
constexpr std::initializer_list<const char*> kFilterKeys = {
    "model",   "regime",      "split",  "context_len", "num_queries", "draft",
    "order",   "group",       "layer",  "schedule",    "form",        "dtype",
    "overlap", "cache_state", "launch", "temperature"};

std::vector<json> read_except(const json* filters, const std::string& where) {
  std::vector<json> out;
  if (filters == nullptr) {
    return out;
  }
  if (!filters->is_array()) {
    throw Error(ExitCode::kBadInput, where + ": 'except' must be a list of objects");
  }
  for (const json& filter : *filters) {
    if (!filter.is_object() || filter.empty()) {
      throw Error(ExitCode::kBadInput, where + ": 'except' holds objects with at least one key");
    }
    for (const auto& [key, value] : filter.items()) {
      if (std::find(kFilterKeys.begin(), kFilterKeys.end(), key) == kFilterKeys.end()) {
        throw Error(ExitCode::kBadInput, where + ": 'except' knows no key '" + key + "'");
      }
    }
    out.push_back(filter);
  }
  return out;
}

bool matches(const json& filter, const json& point) {
  for (const auto& [key, wanted] : filter.items()) {
    const json found = point.value(key, json());
    const bool among = wanted.is_array()
                           ? std::find(wanted.begin(), wanted.end(), found) != wanted.end()
                           : wanted == found;
    if (!among) {
      return false;
    }
  }
  return true;
}

bool is_excepted(const Grid& grid, const json& point) {
  return std::any_of(grid.except.begin(), grid.except.end(),
                     [&](const json& filter) { return matches(filter, point); });
}

// One layer alone is a refresh or a reuse layer; whole models follow a schedule.
std::vector<std::string> read_schedules(Fields& fields, WorkloadKind workload) {
  if (workload != WorkloadKind::kAttention) {
    return fields.axis<std::string>("schedule", {"F*"});
  }
  std::vector<std::string> schedules = fields.axis<std::string>("layer", {"refresh"});
  require_known(fields, "layer", schedules, {"refresh", "reuse"});
  for (std::string& layer : schedules) {
    layer = layer == "reuse" ? "(FR)*" : "F*";
  }
  return schedules;
}

Grid read_grid(const json& object, const std::string& where) {
  Fields fields(object, where);
  Grid grid;
  grid.workload = workload_kind(fields.value<std::string>("workload", "attention"));
  const bool text = grid.workload == WorkloadKind::kAcceptance;
  using Texts = std::vector<std::string>;
  grid.model = fields.axis<std::string>("model", {text ? kPairModel : "nsa-1b"});
  const bool step_of_pair = is_of_pair(grid.model, where) && grid.workload == WorkloadKind::kStep;
  grid.regime = fields.axis<std::string>("regime", text           ? text_regimes()
                                                   : step_of_pair ? Texts{text_regimes().front()}
                                                                  : Texts{"synthetic"});
  grid.split = fields.axis<std::string>("split", {text || step_of_pair ? "calibration" : ""});
  grid.draft = fields.axis<std::string>("draft", {"ar"});
  grid.order = fields.axis<std::string>("order", {"bfs"});
  grid.group = fields.axis<std::string>("group", {"c1"});
  grid.schedule = read_schedules(fields, grid.workload);
  grid.form = fields.axis<std::string>("form", {"fused"});
  grid.dtype = fields.axis<std::string>("dtype", {"bf16"});
  grid.cache_state = fields.axis<std::string>(
      "cache_state", {grid.workload == WorkloadKind::kAttention ? "cold_rotate" : "as_is"});
  grid.launch = fields.axis<std::string>("launch", {});
  grid.context_len = fields.axis<std::int64_t>("context_len", {4096});
  if (grid.workload == WorkloadKind::kAttention) {
    grid.overlap = fields.axis<double>("overlap", {0.8});
  }
  const bool chooses = text || grid.workload == WorkloadKind::kStep;
  grid.temperature = chooses ? fields.axis<double>("temperature", {0.0}) : std::vector<double>{0.0};
  grid.except = read_except(fields.child("except"), where);
  fields.refuse_the_rest();
  require_targets(where, grid.workload, grid.model);
  require_known(fields, "dtype", grid.dtype, {"f32", "bf16"});
  require_known(fields, "form", grid.form, {"fused", "vanilla"});
  require_known(fields, "cache_state", grid.cache_state,
                {"warm", "cold_rotate", "cold_flush", "as_is"});
  require_known(fields, "launch", grid.launch, {"stream", "graph"});
  if (grid.workload == WorkloadKind::kAttention) {
    require_known(fields, "regime", grid.regime, {"synthetic"});
  }
  if (text) {
    require_known(fields, "launch", grid.launch, {"stream"});
  }
  if (grid.workload != WorkloadKind::kAttention) {
    require_known(fields, "cache_state", grid.cache_state, {"as_is"});
  }
  for (const std::int64_t length : grid.context_len) {
    if (length < 1 || length > (std::int64_t{1} << 20)) {
      throw Error(ExitCode::kBadInput, where + ": 'context_len' must lie within 1 and 1048576");
    }
  }
  require_shares(where, grid.overlap);
  require_temperatures(where, grid.temperature);
  return grid;
}

// Autoregressive points have one query: no order and no group.
Strategy strategy_of(const std::string& draft, const std::string& order, const std::string& group,
                     const std::string& schedule, const std::string& form) {
  const std::string tail =
      "/" + schedule + (form == "vanilla" ? std::string("/form=vanilla") : std::string());
  if (draft != "ar") {
    return Strategy::parse("nsa/" + draft + "/" + order + "/" + group + tail);
  }
  return Strategy::parse(tail == "/F*" ? std::string("nsa/ar") : "nsa/ar/bfs/c1" + tail);
}

json filterable(const PointKey& key, const std::string& draft, const std::string& order,
                const std::string& group, const std::string& schedule, const std::string& form) {
  json point = {{"model", key.model},
                {"regime", key.regime},
                {"split", key.split},
                {"context_len", key.context_len},
                {"draft", draft},
                {"num_queries", key.num_queries},
                {"order", order},
                {"group", group},
                {"schedule", schedule},
                {"form", form},
                {"dtype", name_of(key.dtype)},
                {"cache_state", name_of(key.cache_state)},
                {"launch", name_of(key.launch)},
                {"layer", schedule == "F*" ? "refresh" : "reuse"}};
  if (key.overlap) {
    point["overlap"] = *key.overlap;
  }
  if (key.temperature > 0.0) {
    point["temperature"] = key.temperature;
  }
  return point;
}

// Where a grid does not say: recorded, but for what reads text and for steps of the vanilla form,
// whose launches ask the host for the context's length, so that no recording could be played again.
std::vector<std::string> launches_of(const Grid& grid, const std::string& form) {
  if (!grid.launch.empty()) {
    return grid.launch;
  }
  const bool host_leads = grid.workload == WorkloadKind::kAcceptance ||
                          (grid.workload == WorkloadKind::kStep && form == "vanilla");
  return {host_leads ? "stream" : "graph"};
}

// Strategies of one draft and order at one overlap: the queries stay as they are.
void expand_variants(const Grid& grid, const std::string& draft, const std::string& order,
                     PointKey key, SweepPlan& plan) {
  for (const std::string& group : grid.group) {
    for (const std::string& schedule : grid.schedule) {
      for (const std::string& form : grid.form) {
        key.strategy = strategy_of(draft, order, group, schedule, form).text();
        for (const std::string& cache_state : grid.cache_state) {
          for (const std::string& launch : launches_of(grid, form)) {
            key.cache_state = cache_state_of(cache_state);
            key.launch = launch_mode_of(launch);
            if (!is_excepted(grid, filterable(key, draft, order, group, schedule, form))) {
              add_point(key, plan);
            }
          }
        }
      }
    }
  }
}

// Innermost axes change fastest; tensors depend on the outer ones.
void expand_strategies(const Grid& grid, PointKey key, SweepPlan& plan) {
  const std::vector<std::optional<double>> overlaps =
      grid.overlap.empty()
          ? std::vector<std::optional<double>>{std::nullopt}
          : std::vector<std::optional<double>>(grid.overlap.begin(), grid.overlap.end());
  for (const std::string& draft : grid.draft) {
    key.num_queries = strategy_of(draft, "bfs", "c1", "F*", "fused").draft.nodes;
    for (const std::string& order : grid.order) {
      for (const std::optional<double>& overlap : overlaps) {
        key.overlap = key.num_queries > 1 ? overlap : std::nullopt;
        expand_variants(grid, draft, order, key, plan);
      }
    }
  }
}

void expand(const Grid& grid, Backend backend, SweepPlan& plan) {
  PointKey key{.workload = grid.workload, .backend = backend};
  for (const std::string& model : grid.model) {
    for (const std::string& dtype : grid.dtype) {
      for (const std::int64_t length : grid.context_len) {
        for (const std::string& regime : grid.regime) {
          for (const std::string& split : grid.split) {
            key.model = model;
            key.dtype = backend == Backend::kCpu ? Dtype::kF32 : dtype_of(dtype);
            key.context_len = length;
            key.regime = regime;
            key.split = split;
            for (const double temperature : grid.temperature) {
              key.temperature = temperature;
              expand_strategies(grid, key, plan);
            }
          }
        }
      }
    }
  }
}

void read_timing(const json* object, const std::string& where, profiler::TimingPlan& timing) {
  if (object == nullptr) {
    return;
  }
  Fields fields(*object, where);
  timing.warm_up_s = fields.value("warm_up_s", timing.warm_up_s);
  profiler::StopPlan& stop = timing.stop;
  stop.min_samples = fields.value("min_samples", stop.min_samples);
  stop.max_samples = fields.value("max_samples", stop.max_samples);
  stop.target_half_width = fields.value("target_half_width", stop.target_half_width);
  stop.time_limit_s = fields.value("time_limit_s", stop.time_limit_s);
  stop.fixed_samples = fields.value("fixed_samples", stop.fixed_samples);
  fields.refuse_the_rest();
}

void require_sane(const SweepPlan& plan, const std::string& origin) {
  const profiler::StopPlan& stop = plan.timing.stop;
  const bool sane = stop.min_samples >= 1 && stop.max_samples >= stop.min_samples &&
                    stop.target_half_width > 0.0 && stop.time_limit_s > 0.0 &&
                    stop.fixed_samples >= 0 && plan.trace_repetitions >= 0 &&
                    plan.counter_repetitions >= 0 && plan.energy_s >= 0.0 &&
                    plan.energy_s <= kMostEnergySeconds && plan.prompts >= 1 && plan.walks >= 0 &&
                    plan.new_tokens >= 1;
  if (!sane) {
    throw Error(ExitCode::kBadInput,
                origin + ": counts and limits of a sweep must be positive and in order");
  }
}

// A point that is written both ways, as the pair's and by its name, is one.
void name_pair(const PairId& pair, SweepPlan& plan) {
  const std::vector<PointKey> points = std::move(plan.points);
  plan.points.clear();
  for (PointKey key : points) {
    const bool by_name = key.workload == WorkloadKind::kAcceptance && key.model == pair.name;
    if (key.model == kPairModel || by_name) {
      key.model = pair.name;
      key.pair = pair.sha256;
    }
    add_point(key, plan);
  }
}

json point_json(const PointKey& key) {
  json object = {{"workload", name_of(key.workload)},
                 {"model", key.model},
                 {"regime", key.regime},
                 {"split", key.split},
                 {"strategy", key.strategy},
                 {"dtype", name_of(key.dtype)},
                 {"backend", name_of(key.backend)},
                 {"cache_state", name_of(key.cache_state)},
                 {"launch", name_of(key.launch)},
                 {"context_len", key.context_len}};
  if (!key.pair.empty()) {
    object["pair"] = key.pair;
  }
  if (key.overlap) {
    object["overlap"] = *key.overlap;
  }
  if (key.temperature > 0.0) {
    object["temperature"] = key.temperature;
  }
  return object;
}

}  // namespace

std::vector<std::string> text_regimes() {
  return {"chat", "plan", "prose", "code"};
}

bool wants_pair(const SweepPlan& plan) {
  return std::any_of(plan.points.begin(), plan.points.end(), [](const PointKey& key) {
    return key.workload == WorkloadKind::kAcceptance || !key.pair.empty();
  });
}

SweepPlan sweep_from_json(const std::string& text, const std::string& origin, Backend backend,
                          const PairId& pair) {
  const json object = parse_strict_json(text, kMaxJsonDepth, origin);
  Fields fields(object, origin);
  SweepPlan plan;
  plan.name = fields.value<std::string>("name", "");
  plan.seed = fields.value<std::uint64_t>("seed", plan.seed);
  plan.trace_repetitions = fields.value("trace_repetitions", plan.trace_repetitions);
  plan.counter_repetitions = fields.value("counter_repetitions", plan.counter_repetitions);
  plan.energy_s = fields.value("energy_s", plan.energy_s);
  plan.prompts = fields.value("prompts", plan.prompts);
  plan.walks = fields.value("walks", plan.walks);
  plan.new_tokens = fields.value("new_tokens", plan.new_tokens);
  read_timing(fields.child("timing"), origin + ": timing", plan.timing);
  const json* grids = fields.child("grids");
  fields.refuse_the_rest();
  if (plan.name.empty() || grids == nullptr || !grids->is_array() || grids->empty()) {
    throw Error(ExitCode::kBadInput, origin + ": a sweep needs a 'name' and a list of 'grids'");
  }
  for (std::size_t i = 0; i < grids->size(); ++i) {
    const std::string where = origin + ": grid " + std::to_string(i + 1);
    try {
      if (names_points((*grids)[i])) {
        expand_named((*grids)[i], where, backend, plan);
      } else {
        expand(read_grid((*grids)[i], where), backend, plan);
      }
    } catch (const Error& error) {
      if (error.code() != ExitCode::kUsage) {
        throw;
      }
      throw Error(ExitCode::kBadInput, where + ": " + error.what());  // a text of the file
    }
  }
  require_sane(plan, origin);
  name_pair(pair, plan);
  return plan;
}

std::string configuration_json(const SweepPlan& plan) {
  const profiler::StopPlan& stop = plan.timing.stop;
  json object = {{"name", plan.name},
                 {"seed", plan.seed},
                 {"trace_repetitions", plan.trace_repetitions},
                 {"counter_repetitions", plan.counter_repetitions},
                 {"counter_warm_up", true},  // counted runs follow uncounted ones
                 {"prompts", plan.prompts},
                 {"walks", plan.walks},
                 {"new_tokens", plan.new_tokens},
                 {"timing",
                  {{"warm_up_s", plan.timing.warm_up_s},
                   {"min_samples", stop.min_samples},
                   {"max_samples", stop.max_samples},
                   {"target_half_width", stop.target_half_width},
                   {"time_limit_s", stop.time_limit_s},
                   {"fixed_samples", stop.fixed_samples}}},
                 {"points", json::array()}};
  for (const PointKey& key : plan.points) {
    object["points"].push_back(point_json(key));
  }
  if (plan.energy_s > 0.0) {
    object["energy_s"] = plan.energy_s;
  }
  if (!plan.pair.empty()) {
    object["pair"] = json::parse(plan.pair);
  }
  return object.dump();
}

std::vector<PointKey> shard_of(const std::vector<PointKey>& points, std::int64_t index,
                               std::int64_t count) {
  std::vector<PointKey> shard;
  for (std::size_t i = static_cast<std::size_t>(index); i < points.size();
       i += static_cast<std::size_t>(count)) {
    shard.push_back(points[i]);
  }
  return shard;
}

Shard parse_shard(std::string_view text) {
  std::int64_t index = 0;
  std::int64_t count = 0;
  const char* const end = text.data() + text.size();
  const std::from_chars_result first = std::from_chars(text.data(), end, index);
  const bool slash = first.ec == std::errc() && first.ptr != end && *first.ptr == '/';
  const std::from_chars_result second =
      slash ? std::from_chars(first.ptr + 1, end, count) : std::from_chars_result{end, {}};
  if (!slash || second.ec != std::errc() || second.ptr != end || index < 1 || index > count) {
    throw Error(ExitCode::kUsage,
                "a shard is 'i/n' with 1 <= i <= n, not '" + std::string(text) + "'");
  }
  return {index - 1, count};
}

std::vector<PointKey> remaining_points(const std::vector<PointKey>& points,
                                       const std::function<bool(const PointKey&)>& is_stored) {
  std::vector<PointKey> remaining;
  std::copy_if(points.begin(), points.end(), std::back_inserter(remaining),
               [&](const PointKey& key) { return !is_stored(key); });
  return remaining;
}

}  // namespace versieve::engine
