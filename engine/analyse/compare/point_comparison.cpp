#include "engine/analyse/compare/point_comparison.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "engine/analyse/fit/statistics.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

constexpr double kNinetyFive = 1.959963984540054;  // standard errors to either side of a 95 % range
constexpr std::array kFigures = {ComparedFigure::kTime, ComparedFigure::kDramBytes,
                                 ComparedFigure::kTokens};

auto order_of(const PointKey& k) {
  return std::tie(k.workload, k.model, k.pair, k.regime, k.split, k.strategy, k.dtype, k.backend,
                  k.cache_state, k.launch, k.context_len, k.num_queries, k.overlap, k.temperature);
}

struct KeyOrder {
  bool operator()(const PointKey& a, const PointKey& b) const { return order_of(a) < order_of(b); }
};

// All points of each tuple that have the figure, the newest last.
using Tuples = std::map<PointKey, std::vector<std::size_t>, KeyOrder>;

Tuples tuples_of(const ComparedSide& side, ComparedFigure figure) {
  Tuples tuples;
  for (std::size_t i = 0; i < side.points.size(); ++i) {
    const std::optional<double> value = figure_of(side.points[i], figure);
    if (value && std::isfinite(*value) && *value > 0.0) {
      tuples[side.points[i].key].push_back(i);
    }
  }
  return tuples;
}

// Of the logarithm of the median; none without an interval.
std::optional<double> log_error(const ComparedPoint& point, ComparedFigure figure) {
  if (figure != ComparedFigure::kTime || !point.median_low_ns || !point.median_high_ns ||
      *point.median_low_ns <= 0.0) {
    return std::nullopt;
  }
  return std::log(*point.median_high_ns / *point.median_low_ns) / (2.0 * kNinetyFive);
}

struct Judged {
  ComparedTuple tuple;
  double p = 1.0;  // of as large a difference by chance; not used where there are no intervals
};

std::string odd_reliability(const ComparedPoint& base, const ComparedPoint& other) {
  for (const ComparedPoint* point : {&base, &other}) {
    if (point->reliability == Reliability::kThrottled ||
        point->reliability == Reliability::kSuspect) {
      return std::string("its time is ") + name_of(point->reliability) +
             (point == &base ? " in the first" : " in the second");
    }
  }
  return "";
}

Judged judge(const ComparedPoint& base, const ComparedPoint& other, ComparedFigure figure) {
  Judged judged;
  judged.tuple.base_value = *figure_of(base, figure);
  judged.tuple.other_value = *figure_of(other, figure);
  const double log_ratio = std::log(judged.tuple.ratio());
  const std::optional<double> a = log_error(base, figure);
  const std::optional<double> b = log_error(other, figure);
  if (figure == ComparedFigure::kTime) {
    judged.tuple.not_judged_because = odd_reliability(base, other);
    if (!a || !b) {
      judged.tuple.not_judged_because = "fewer than six samples";
    }
  }
  if (a && b) {
    const double error = std::hypot(*a, *b);
    judged.tuple.ratio_interval = {std::exp(log_ratio - kNinetyFive * error),
                                   std::exp(log_ratio + kNinetyFive * error)};
    judged.p = error > 0.0 ? std::erfc(std::fabs(log_ratio) / error / std::sqrt(2.0))
                           : (log_ratio == 0.0 ? 1.0 : 0.0);
  } else {
    judged.p = 0.0;  // the noise between runs alone decides
  }
  return judged;
}

bool less_is_better(ComparedFigure figure) {
  return figure != ComparedFigure::kTokens;
}

// Holm: the smallest p first, each held against what is left of the family's error.
std::vector<bool> not_by_chance(const std::vector<Judged>& judged) {
  std::vector<std::size_t> order(judged.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&judged](std::size_t a, std::size_t b) { return judged[a].p < judged[b].p; });
  std::vector<bool> is_real(judged.size(), false);
  for (std::size_t place = 0; place < order.size(); ++place) {
    if (judged[order[place]].p > kFamilyError / static_cast<double>(order.size() - place)) {
      break;
    }
    is_real[order[place]] = true;
  }
  return is_real;
}

Change change_of(const ComparedTuple& tuple, double noise, bool is_real, ComparedFigure figure) {
  if (std::fabs(std::log(tuple.ratio())) <= std::log1p(noise)) {
    return Change::kSame;
  }
  if (!tuple.not_judged_because.empty()) {
    return Change::kNotJudged;
  }
  if (!is_real) {
    return Change::kSame;
  }
  return (tuple.ratio() > 1.0) == less_is_better(figure) ? Change::kWorse : Change::kBetter;
}

std::string joined(const std::set<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : ", ") + word;
  }
  return text.empty() ? "not said" : text;
}

struct Surrounding {
  const char* name;
  const char* place;  // in a run's environment
};
constexpr std::array kSurroundings = {
    Surrounding{"driver", "/gpu/state/driver"},
    Surrounding{"CUDA runtime", "/gpu/cuda_runtime"},
    Surrounding{"CUDA toolkit", "/build/cuda_toolkit"},
    Surrounding{"compiler", "/build/compiler"},
    Surrounding{"flags", "/build/flags"},
    Surrounding{"power limit, W", "/gpu/state/power_limit_w"},
    Surrounding{"memory clock, MHz", "/gpu/state/memory_clock_mhz"},
    Surrounding{"CPU", "/cpu/name"}};

// Of all runs behind the points: each word once.
std::map<std::string, std::set<std::string>> surroundings(const ComparedSide& side) {
  std::map<std::string, std::set<std::string>> words;
  words["device"] = {side.device};
  for (const RunRecord& run : side.runs) {
    words["code"].insert(run.revision.substr(0, 12));
    const nlohmann::json environment = nlohmann::json::parse(run.environment, nullptr, false);
    for (const Surrounding& part : kSurroundings) {
      const nlohmann::json::json_pointer place(part.place);
      if (environment.is_object() && environment.contains(place)) {
        const nlohmann::json& word = environment[place];
        words[part.name].insert(word.is_string() ? word.get<std::string>() : word.dump());
      }
    }
  }
  return words;
}

std::vector<std::string> differences(const ComparedSide& base, const ComparedSide& other) {
  const auto before = surroundings(base);
  auto after = surroundings(other);
  std::vector<std::string> differ;
  for (const auto& [field, words] : before) {
    if (words != after[field]) {
      differ.push_back(field + ": " + joined(words) + "; then " + joined(after[field]));
    }
  }
  return differ;
}

}  // namespace

const char* name_of(ComparedFigure figure) {
  switch (figure) {
    case ComparedFigure::kTime:
      return "time";
    case ComparedFigure::kDramBytes:
      return "bytes";
    case ComparedFigure::kTokens:
      return "tokens";
  }
  return "";
}

ComparedFigure compared_figure(const std::string& name) {
  for (const ComparedFigure figure : kFigures) {
    if (name == name_of(figure)) {
      return figure;
    }
  }
  throw Error(ExitCode::kUsage,
              "'" + name + "' is no figure to compare: they are time, bytes and tokens");
}

std::optional<double> figure_of(const ComparedPoint& point, ComparedFigure figure) {
  switch (figure) {
    case ComparedFigure::kTime:
      return point.median_ns;
    case ComparedFigure::kDramBytes:
      // Fewer say nothing by their ratio.
      return point.dram_bytes.value_or(0.0) >= kLeastJudgedBytes ? point.dram_bytes : std::nullopt;
    case ComparedFigure::kTokens:
      return point.accepted_per_step;
  }
  return std::nullopt;
}

const char* name_of(Change change) {
  switch (change) {
    case Change::kWorse:
      return "worse";
    case Change::kNotJudged:
      return "not judged";
    case Change::kBetter:
      return "better";
    case Change::kSame:
      return "same";
  }
  return "";
}

std::size_t PointComparison::count_of(Change change) const {
  return static_cast<std::size_t>(
      std::count_if(tuples.begin(), tuples.end(),
                    [change](const ComparedTuple& tuple) { return tuple.change == change; }));
}

RunNoise noise_of(const std::vector<const ComparedSide*>& sides, ComparedFigure figure) {
  RunNoise noise;
  for (const ComparedSide* side : sides) {
    std::vector<double> apart;
    for (const auto& [key, points] : tuples_of(*side, figure)) {
      const ComparedPoint& newest = side->points[points.back()];
      for (std::size_t i = 0; i + 1 < points.size(); ++i) {
        const ComparedPoint& before = side->points[points[i]];
        if (before.program == newest.program) {
          apart.push_back(
              std::fabs(std::log(*figure_of(before, figure) / *figure_of(newest, figure))));
        }
      }
    }
    const std::int64_t repeats = static_cast<std::int64_t>(apart.size());
    if (repeats < RunNoise::kLeastRepeats) {
      continue;
    }
    const double share = std::expm1(*quantile(apart, 0.95));
    if (noise.repeats == 0 || share > noise.share) {
      noise.share = share;
      noise.repeats = repeats;
    }
  }
  return noise;
}

PointComparison compare_points(const ComparedSide& base, const ComparedSide& other,
                               ComparedFigure figure, std::optional<double> noise) {
  PointComparison result;
  result.figure = figure;
  result.noise = noise ? RunNoise{.share = *noise, .repeats = 0, .is_given = true}
                       : noise_of({&base, &other}, figure);
  result.what_differs = differences(base, other);
  const Tuples before = tuples_of(base, figure);
  const Tuples after = tuples_of(other, figure);
  std::vector<Judged> judged;
  for (const auto& [key, points] : before) {
    const auto found = after.find(key);
    if (found == after.end()) {
      result.only_base.push_back(points.back());
      continue;
    }
    judged.push_back(judge(base.points[points.back()], other.points[found->second.back()], figure));
    judged.back().tuple.base = points.back();
    judged.back().tuple.other = found->second.back();
  }
  for (const auto& [key, points] : after) {
    if (!before.contains(key)) {
      result.only_other.push_back(points.back());
    }
  }
  const std::vector<bool> is_real = not_by_chance(judged);
  for (std::size_t i = 0; i < judged.size(); ++i) {
    ComparedTuple& tuple = judged[i].tuple;
    tuple.change = change_of(tuple, result.noise.share, is_real[i], figure);
    result.tuples.push_back(tuple);
  }
  std::stable_sort(result.tuples.begin(), result.tuples.end(),
                   [](const ComparedTuple& a, const ComparedTuple& b) {
                     return std::tuple(a.change, -std::fabs(std::log(a.ratio()))) <
                            std::tuple(b.change, -std::fabs(std::log(b.ratio())));
                   });
  return result;
}

}  // namespace versieve::engine
