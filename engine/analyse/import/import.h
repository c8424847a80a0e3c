// Measurements that another program made, as one run and its points. The whole file is read and
// checked before anything is handed out; what it does not say is stated by the request or unstated.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/words/measurement.h"

namespace versieve::engine {

struct ImportRequest {
  std::string format;  // csv, sglang, vllm, trtllm, profile, sequoia
  std::filesystem::path file;
  std::string device;  // where it was measured, as stated
  std::string model;   // of the pair, as stated
  std::string regime = "unstated";
  std::optional<std::string> attention;     // dense (if not said), nsa; csv says it itself
  std::optional<std::int64_t> context_len;  // csv says it itself, and some others show it
  std::optional<std::string> draft;         // d5k1n6: what was drafted, where the file does not say
  std::optional<std::int64_t> steps;        // that a record rests on which does not count them
  std::filesystem::path before;             // an earlier scrape of the same counters; or empty
};

struct ImportedRun {
  // Its uuid follows from the file's bytes and the request, so that a second import is noticed.
  RunRecord record;
  std::vector<PointMeasurement> points;  // all is_imported
  std::int64_t rows_taken = 0;
  std::map<std::string, std::int64_t> left_out;  // reason -> rows
  std::vector<std::string> remarks;              // a sentence each
};

// Throws Error: kUsage for a request that cannot be, kBadInput for a file that is not of the format
// or has nothing to take.
ImportedRun read_import(const ImportRequest& request);

}  // namespace versieve::engine
