// A set of tensors as the bytes of a safetensors file, for those who hand it on in memory.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/io/safetensors.h"

namespace versieve::engine {

std::vector<std::byte> safetensors_bytes(const TensorSet& set);

}  // namespace versieve::engine
