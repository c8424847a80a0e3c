// Is what was given as a model's folder one, and if not, which other form of a model is it?
#pragma once

#include <filesystem>

namespace versieve::engine {

// Throws Error(kBadInput), one sentence that says what is there instead, unless `folder` is a
// folder with a config.json. `whose`: "a" model directory, or "a draft's".
void require_model_folder(const std::filesystem::path& folder, const char* whose = "a");

}  // namespace versieve::engine
