// What `versieve align` does: calibration texts to the map from target layers to draft layers
// (SpecAttn, section 3.3), kept beside the model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/io/layer_map_file.h"

namespace versieve::engine {

struct AlignRequest {
  std::filesystem::path model;               // directory of a dense target with a dense draft/
  std::vector<std::filesystem::path> texts;  // their bytes are the calibration texts
  std::int64_t stride = 32;                  // every so many positions one is compared
  std::int64_t first = 128;                  // positions before this are not
  // Diffuse attention chooses nothing: the first layers of a draft are no choice for the target
  // layers that read chosen tokens (the first layers of a target read all, SpecAttn, section 4.1).
  std::int64_t dense_layers = 2;        // of the target
  std::int64_t dense_draft_layers = 1;  // of the draft; 0: none is left out
  std::string backend = "auto";         // cpu, cuda, auto: a GPU if there is one
  std::string dtype = "f32";            // f32, bf16, f64 (cpu)
  int threads = 0;                      // of the CPU; 0: all
};

struct AlignReport {
  std::string model, backend, device, dtype;
  std::vector<std::string> texts;  // file names
  std::int64_t positions = 0, stride = 0, first = 0, dense_layers = 0, dense_draft_layers = 0;
  LayerMap map;
  std::vector<std::string> remarks;  // what was odd in the models' files and did no harm
};

// Throws Error: kUsage without a text, kAnswerNo for a model without a dense draft, kBadInput for
// model or text files, kEnvironment without the GPU asked for.
AlignReport run_alignment(const AlignRequest& request);

nlohmann::ordered_json alignment_json(const AlignReport& report);
std::string alignment_text(const AlignReport& report);

}  // namespace versieve::engine
