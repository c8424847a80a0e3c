// Which tokens end a generation: those of config.json and of generation_config.json together.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace versieve::engine {

// `known`: those of config.json. Throws Error(kBadInput) for a generation_config.json whose
// eos_token_id is neither an id, a list of ids nor null.
std::vector<std::int32_t> stop_tokens(const std::filesystem::path& model,
                                      std::vector<std::int32_t> known);

}  // namespace versieve::engine
