// Which tensors a checkpoint must hold, by canonical name with their shapes, and how each family
// spells them.
#pragma once

#include <string>
#include <vector>

#include "engine/io/model_config.h"
#include "engine/io/tensor_view.h"

namespace versieve::engine {

struct ExpectedTensor {
  std::string name;                    // canonical
  Shape shape;                         // what it must be
  std::vector<std::string> spellings;  // in files; the first that is there is taken
  bool required = true;
  const char* keys = "";  // of the config, whose values are its extents
};

// What libraries store beside the weights and compute anew when they load them: rotary frequencies
// and tables, masks, positions.
bool is_rotary_frequencies(const std::string& name);
bool is_buffer(const std::string& name, const TensorView& view);

std::vector<ExpectedTensor> expected_target(const TargetConfig& config);
std::vector<ExpectedTensor> expected_draft(const DraftConfig& config, const LlmShape& target);

}  // namespace versieve::engine
