// Two sets of points matched by tuple: which figures got worse, which better, which are the same
// within noise, and by which rule. Used by `versieve compare` and by the app alike.
//
// A difference counts where it is larger than what a tuple differs by from one run to the next, and
// where chance alone does not explain it: medians against each other by their 95 % intervals, with
// Holm's correction for as many tuples as are compared.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/words/compared_point.h"
#include "model/words/evaluation.h"

namespace versieve::engine {

// What is compared: the time and the DRAM bytes of a point (less is better), tokens a step (more).
enum class ComparedFigure { kTime, kDramBytes, kTokens };
const char* name_of(ComparedFigure figure);               // "time", "bytes", "tokens"
ComparedFigure compared_figure(const std::string& name);  // throws Error(kUsage)
std::optional<double> figure_of(const ComparedPoint& point, ComparedFigure figure);

enum class Change { kWorse, kNotJudged, kBetter, kSame };
const char* name_of(Change change);  // "worse", "not judged", "better", "same"
// "slower", "faster"; of bytes "more", "fewer": what worse and better mean of a figure.
const char* word_of(Change change, ComparedFigure figure);

// How far apart repeated measurements of a tuple by one program lie: between programs it may have
// become faster.
struct RunNoise {
  static constexpr double kAssumed = 0.02;
  static constexpr std::int64_t kLeastRepeats = 20;

  double share = kAssumed;  // 95 % of the repeats lie within it of the tuple's newest
  std::int64_t repeats = 0;
  bool is_given = false;  // by whoever asks

  bool is_assumed() const { return repeats == 0 && !is_given; }
};

struct ComparedTuple {
  std::size_t base = 0, other = 0;  // indices into the sides' points
  double base_value = 0.0, other_value = 0.0;
  std::optional<Interval> ratio_interval;  // 95 %, of other / base
  Change change = Change::kSame;
  std::string not_judged_because;

  double ratio() const { return other_value / base_value; }
};

struct PointComparison {
  ComparedFigure figure = ComparedFigure::kTime;
  RunNoise noise;
  std::vector<ComparedTuple> tuples;      // worse first, each kind by how far it is from 1
  std::vector<std::size_t> only_base;     // indices of tuples that the other lacks
  std::vector<std::size_t> only_other;    //
  std::vector<std::string> what_differs;  // "device: A, then B": of the runs behind the points
  std::size_t count_of(Change change) const;
};

inline constexpr double kFamilyError = 0.05;  // that any tuple is called different by chance

// Of one side's tuples that were measured more than once; none where fewer than kLeastRepeats are.
RunNoise noise_of(const std::vector<const ComparedSide*>& sides, ComparedFigure figure);
// `noise`: noise_of's, if it is not given.
PointComparison compare_points(const ComparedSide& base, const ComparedSide& other,
                               ComparedFigure figure, std::optional<double> noise = {});

// "attention nsa/d8k8n128/bfs/c1/F*, L 10,240, N 128, rho 0.8, nsa-1b bf16 warm graph"
std::string tuple_text(const PointKey& key);
// The rule in one sentence, with its figures.
std::string rule_text(const PointComparison& comparison);
// "1,810 tuples in both: 12 slower, ..." with those that only one side has.
std::string counts_text(const PointComparison& comparison);
// "812.4 us", "1.05 MB", "3.21"
std::string value_text(double value, ComparedFigure figure);
// For people: the first `rows` of each kind that is no "same"; 0: all, those too.
std::string comparison_text(const ComparedSide& base, const ComparedSide& other,
                            const PointComparison& comparison, std::int64_t rows);
nlohmann::json comparison_json(const ComparedSide& base, const ComparedSide& other,
                               const PointComparison& comparison);

}  // namespace versieve::engine
