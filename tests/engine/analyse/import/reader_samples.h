// One record of each kind that an import reads, written by its writer's format, for tests that
// break it; and what must hold of whatever comes out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/analyse/import/import.h"
#include "tests/support/temp_folder.h"

namespace versieve::test {

struct ReaderSample {
  const char* name;
  engine::ImportRequest request;
  std::string text;
};

std::vector<ReaderSample> reader_samples();

// Imports `text` under the sample's request: points that can be, or one sentence of the right code.
void check_survives(const ReaderSample& sample, const std::string& text, const TempFolder& folder);

}  // namespace versieve::test
