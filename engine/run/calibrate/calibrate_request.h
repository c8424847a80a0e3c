// What `versieve calibrate` does: texts and a loss budget to a schedule and its loss curve.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/run/calibrate/schedule_search.h"

namespace versieve::engine {

// A text that is no file of its own: a piece of one, in tokens of the target's.
struct CalibrateWindow {
  std::string name;
  std::vector<std::int32_t> tokens;
};

struct CalibrateRequest {
  std::filesystem::path model;               // directory: config.json, weights, tokenizer
  std::vector<std::filesystem::path> texts;  // their bytes are the texts
  std::vector<CalibrateWindow> windows;
  std::int64_t most_tried = 0;   // schedule_search.h
  double budget = -1.0;          // nats a token over all-F; must be given
  std::string backend = "auto";  // cpu, cuda, auto: a GPU if there is one
  std::string dtype = "f32";     // f32, bf16, f64 (cpu)
  int threads = 0;               // of the CPU; 0: all
  // Called after each loss.
  std::function<void(const std::string& schedule, double loss)> on_loss;
};

struct CalibratedText {
  std::string file;
  std::int64_t tokens = 0;  // with BOS
};

struct CalibrateReport {
  std::string model, backend, device, dtype;
  std::vector<CalibratedText> texts;
  std::int64_t scored_tokens = 0;
  double budget = 0.0;
  ScheduleSearch search;
  std::vector<std::string> remarks;  // what was odd in the model's files and did no harm
};

// Throws Error: kUsage for a contradictory request, kAnswerNo for a target without selection,
// kBadInput for model or text files, kEnvironment without the GPU asked for.
CalibrateReport run_calibration(const CalibrateRequest& request);

nlohmann::ordered_json calibration_json(const CalibrateReport& report);
std::string calibration_text(const CalibrateReport& report);

}  // namespace versieve::engine
