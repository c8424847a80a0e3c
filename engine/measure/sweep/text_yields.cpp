#include "engine/measure/sweep/text_yields.h"

#include <algorithm>

#include "engine/measure/sweep/text_windows.h"

namespace versieve::engine {
namespace {

std::int64_t yielded_by(const Generation& run) {
  std::int64_t tokens = 0;
  for (std::size_t a = 0; a < run.accepted_histogram.size(); ++a) {
    tokens += static_cast<std::int64_t>(a) * run.accepted_histogram[a];
  }
  return tokens;
}

double mean_of(const std::vector<std::int64_t>& histogram) {
  double tokens = 0.0;
  double steps = 0.0;
  for (std::size_t a = 0; a < histogram.size(); ++a) {
    tokens += static_cast<double>(a) * static_cast<double>(histogram[a]);
    steps += static_cast<double>(histogram[a]);
  }
  return steps > 0.0 ? tokens / steps : 0.0;
}

}  // namespace

void add_generated(const std::string& text, const Generation& run, AcceptanceMeasurement& sum) {
  if (run.steps == 0) {
    return;
  }
  sum.texts.push_back({.text = text,
                       .steps = run.steps,
                       .tokens = yielded_by(run),
                       .looping = is_looping(run.tokens)});
  sum.steps += run.steps;
  sum.generated_tokens += static_cast<std::int64_t>(run.tokens.size());
  sum.accepted_histogram.resize(
      std::max(sum.accepted_histogram.size(), run.accepted_histogram.size()));
  for (std::size_t a = 0; a < run.accepted_histogram.size(); ++a) {
    sum.accepted_histogram[a] += run.accepted_histogram[a];
  }
}

void finish_generated(AcceptanceMeasurement& sum) {
  sum.accepted_per_step = mean_of(sum.accepted_histogram);
  sum.looping =
      !sum.texts.empty() && std::all_of(sum.texts.begin(), sum.texts.end(),
                                        [](const TextYield& text) { return text.looping; });
}

}  // namespace versieve::engine
