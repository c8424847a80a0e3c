// What a played table says of the planner's claims: yes or no, with the interval that it is judged
// by. A prompt that several classes of a bucket share is one observation.
#include <algorithm>
#include <cmath>
#include <map>

#include "engine/io/formatted.h"
#include "engine/measure/bench/planner_bench.h"
#include "model/words/assert.h"

namespace versieve::engine {
namespace {

using Ratios = std::vector<double> PlannerRow::*;

// Of the gains over the fixed baseline in table 3 of Sparse Speculative Verification.
constexpr double kPaperStatic = 0.106;
constexpr double kPaperBestR = 0.144;
// What a predicted 90 % interval should hold at least of the cells.
constexpr double kLeastCoverage = 0.85;
constexpr std::size_t kFewestForMean = 3;

// The 97.5 % quantile of Student's t, as the normal one's expansion in 1 / degrees (Cornish and
// Fisher): 4.17 for 2 degrees (4.30), 2.55 for 5 (2.57), 2.13 for 15.
double student_quantile(double degrees) {
  constexpr double kNormal = 1.959964;
  return kNormal + 2.37227 / degrees + 2.82250 / (degrees * degrees) +
         2.55585 / (degrees * degrees * degrees);
}

// Over the prompts of all buckets, each the mean over its classes.
std::vector<double> by_prompt(const std::vector<PlannerCell>& cells, Contender contender,
                              Ratios ratios) {
  std::map<std::pair<std::int64_t, std::size_t>, std::vector<double>> found;
  for (const PlannerCell& cell : cells) {
    const std::vector<double>& each = cell.row(contender).*ratios;
    for (std::size_t prompt = 0; prompt < each.size(); ++prompt) {
      found[{cell.bucket, prompt}].push_back(each[prompt]);
    }
  }
  std::vector<double> out;
  for (const auto& [prompt, of_classes] : found) {
    double sum = 0.0;
    for (const double ratio : of_classes) {
      sum += ratio;
    }
    out.push_back(sum / static_cast<double>(of_classes.size()));
  }
  return out;
}

// At least `least` in the mean: no where the whole interval lies below.
Verdict in_the_mean(const std::vector<PlannerCell>& cells, Contender contender, Ratios ratios,
                    double least, std::string claim) {
  Verdict out{.claim = std::move(claim)};
  const std::vector<double> each = by_prompt(cells, contender, ratios);
  if (each.empty()) {
    return out;
  }
  out.gain = mean_gain_of(each);
  out.holds = out.gain.high.value_or(out.gain.mean) >= least;
  out.detail = std::to_string(each.size()) + (each.size() == 1 ? " prompt" : " prompts");
  if (*out.holds && out.gain.mean < least) {
    out.detail += ", within noise";
  }
  return out;
}

// In no cell below plain decoding by more than its prompts scatter; the gain is the worst cell's.
Verdict never_below_plain(const std::vector<PlannerCell>& cells, Contender contender) {
  Verdict out{.claim =
                  std::string(name_of(contender)) + " never below plain decoding beyond noise"};
  std::int64_t judged = 0, below = 0;
  for (const PlannerCell& cell : cells) {
    const Verdict::Mean gain = mean_gain_of(cell.row(contender).each_over_plain);
    if (!gain.high) {
      continue;
    }
    below += *gain.high < 0.0 ? 1 : 0;
    if (judged++ == 0 || gain.mean < out.gain.mean) {
      out.gain = gain;
      out.detail = "least at " + name_of(cell.range) + ", " + name_of(cell.precision);
    }
  }
  if (judged > 0) {
    out.holds = below == 0;
    out.detail += formatted("; below in %lld of %lld cells", static_cast<long long>(below),
                            static_cast<long long>(judged));
  }
  return out;
}

}  // namespace

Verdict::Mean mean_gain_of(const std::vector<double>& ratios) {
  VERSIEVE_ASSERT(!ratios.empty(), "a mean is of something");
  const double count = static_cast<double>(ratios.size());
  double sum = 0.0;
  for (const double ratio : ratios) {
    sum += ratio;
  }
  Verdict::Mean out{.mean = sum / count - 1.0, .low = {}, .high = {}};
  if (ratios.size() >= kFewestForMean) {
    double squares = 0.0;
    for (const double ratio : ratios) {
      squares += std::pow(ratio - sum / count, 2);
    }
    const double half = student_quantile(count - 1.0) * std::sqrt(squares / (count - 1.0) / count);
    out.low = out.mean - half;
    out.high = out.mean + half;
  }
  return out;
}

std::vector<Verdict> PlannerBench::verdicts() const {
  std::vector<Verdict> out = {
      in_the_mean(cells, Contender::kStatic, &PlannerRow::each_over_base, kPaperStatic,
                  "static gains 10.6 % over base in the mean"),
      in_the_mean(cells, Contender::kBestR, &PlannerRow::each_over_base, kPaperBestR,
                  "best+R gains 14.4 % over base in the mean")};
  for (const Contender guarded : {Contender::kBestR, Contender::kBestP}) {
    out.push_back(in_the_mean(cells, guarded, &PlannerRow::each_over_static, 0.0,
                              std::string(name_of(guarded)) + " >= static in the mean"));
    out.push_back(never_below_plain(cells, guarded));
  }
  const Coverage covered = cell_coverage();
  Verdict coverage{.claim = "the predicted 90 % interval holds 85 % of the cells"};
  if (covered.all > 0) {
    const double share = static_cast<double>(covered.within) / static_cast<double>(covered.all);
    coverage.holds = share >= kLeastCoverage;
    coverage.detail =
        formatted("%.0f %%: %lld of %lld cells", 100.0 * share,
                  static_cast<long long>(covered.within), static_cast<long long>(covered.all));
  }
  out.push_back(std::move(coverage));
  return out;
}

}  // namespace versieve::engine
