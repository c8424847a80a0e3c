#include "gui/models/step_list.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "gui/models/snapshot.h"
#include "model/words/error.h"
#include "model/words/llm_shape.h"

namespace versieve::gui {
namespace {

// "nsa-8b", "nsa-8b:v32000"; else a trained pair's name.
bool is_geometry(const QString& model) {
  try {
    named_llm_shape(model.section(':', 0, 0).toStdString());
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::vector<std::int32_t> timed_steps(const Snapshot& snapshot) {
  const std::vector<db::PointOverview>& points = snapshot.overview.points;
  std::vector<std::int32_t> steps;
  std::map<std::int32_t, bool> geometries;  // by the model's word
  for (std::size_t i = 0; i < points.size(); ++i) {
    const db::PointOverview& point = points[i];
    const bool has_launches = point.predicted_dram_bytes.value_or(0.0) > 0.0;
    if (point.workload == WorkloadKind::kStep && point.median_ns && has_launches) {
      steps.push_back(static_cast<std::int32_t>(i));
      if (!geometries.contains(point.model)) {
        geometries[point.model] = is_geometry(snapshot.word(point.model));
      }
    }
  }
  const auto order = [&](std::int32_t word) {
    return snapshot.word_order[static_cast<std::size_t>(word)];
  };
  const auto group = [&](std::int32_t at) {
    const db::PointOverview& point = points[static_cast<std::size_t>(at)];
    return std::make_tuple(!point.is_traced, geometries.at(point.model), !point.dram_bytes,
                           order(point.model), point.context_len, order(point.strategy));
  };
  std::stable_sort(steps.begin(), steps.end(),
                   [&](std::int32_t a, std::int32_t b) { return group(a) < group(b); });
  return steps;
}

}  // namespace versieve::gui
