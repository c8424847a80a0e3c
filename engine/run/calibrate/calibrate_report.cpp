// The loss curve of `versieve calibrate` as JSON (the file it writes) and as a table.
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/io/formatted.h"
#include "engine/io/schedule_file.h"
#include "engine/run/calibrate/calibrate_request.h"

namespace versieve::engine {
namespace {

nlohmann::ordered_json step_json(const ScheduleStep& step) {
  nlohmann::ordered_json candidates = nlohmann::ordered_json::array();
  for (const ScheduleCandidate& c : step.candidates) {
    candidates.push_back({{"layer", c.layer}, {"loss", c.loss}});
  }
  nlohmann::ordered_json out = {{"layer", nullptr},
                                {"schedule", step.schedule},
                                {"loss", step.loss},
                                {"rise", step.rise},
                                {"candidates", candidates}};
  if (step.layer >= 0) {
    out["layer"] = step.layer;
  }
  return out;
}

std::string step_line(const ScheduleStep& step, std::size_t number, const char* remark) {
  const std::string layer = step.layer < 0 ? "-" : std::to_string(step.layer);
  return formatted("  %4zu  %5s  %-10s  %10.6f  %+10.6f  %+8.3f %%%s\n", number, layer.c_str(),
                   step.schedule.c_str(), step.loss, step.rise, 100.0 * (std::exp(step.rise) - 1.0),
                   remark);
}

}  // namespace

nlohmann::ordered_json calibration_json(const CalibrateReport& report) {
  nlohmann::ordered_json texts = nlohmann::ordered_json::array();
  for (const CalibratedText& text : report.texts) {
    texts.push_back({{"file", text.file}, {"tokens", text.tokens}});
  }
  nlohmann::ordered_json curve = nlohmann::ordered_json::array();
  for (const ScheduleStep& step : report.search.curve) {
    curve.push_back(step_json(step));
  }
  nlohmann::ordered_json out = {{"format", kScheduleFormat},
                                {"schema", kScheduleSchema},
                                {"model", report.model},
                                {"backend", report.backend},
                                {"device", report.device},
                                {"dtype", report.dtype},
                                {"texts", texts},
                                {"scored_tokens", report.scored_tokens},
                                {"unit", "nats a token"},
                                {"budget", report.budget},
                                {"schedule", report.search.schedule()},
                                {"strategy", "nsa/ar/bfs/c1/" + report.search.schedule()},
                                {"curve", curve},
                                {"refused", nullptr}};
  if (report.search.refused) {
    out["refused"] = step_json(*report.search.refused);
  }
  return out;
}

std::string calibration_text(const CalibrateReport& report) {
  std::string out = report.model + ", " + report.dtype + " on " + report.device + ": " +
                    std::to_string(report.scored_tokens) + " tokens of " +
                    std::to_string(report.texts.size()) + " texts, teacher-forced\n" +
                    "  step  layer  schedule    nats/token  over all-F  perplexity\n";
  std::size_t number = 0;
  for (const ScheduleStep& step : report.search.curve) {
    out += step_line(step, number++, "");
  }
  if (report.search.refused) {
    out += step_line(*report.search.refused, number, "  refused: beyond the budget");
  }
  return out + "schedule " + report.search.schedule() + "\n";
}

}  // namespace versieve::engine
