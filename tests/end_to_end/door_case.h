// Small valid inputs of every family of the door, to be run as they are or broken in one place.
#pragma once

#include <cstdint>
#include <string>

#include "engine/io/safetensors.h"
#include "tests/end_to_end/command.h"
#include "tests/support/nsa_case.h"

namespace versieve::test {

// The case as a file: floats as F64, the path-local tensors only if there are any.
engine::TensorSet nsa_tensors(const testing::NsaCase& c);
// L = 40, N = 6, H = 4, G = 2, d = 8; blocks 8/4/16, 4 selected, window 12.
testing::NsaCase small_nsa_case(std::uint64_t seed);
// L = 300, N = 11, a random tree: more blocks than are selected, so that rows choose differently.
testing::NsaCase many_blocks_case(std::uint64_t seed);
engine::TensorSet topk_tensors();         // R = 2, Lp = 5, k = 3
engine::TensorSet spec_sample_tensors();  // gamma = 2, V = 4
engine::TensorSet tree_sample_tensors();  // N = 4, V = 4

struct DoorRun {
  CommandResult command;
  bool wrote = false;      // the output file is there
  std::size_t beside = 0;  // files in the folder that are neither input nor output
  engine::SafetensorsFile results;
};
// `arguments`: family and options without --in and --out.
DoorRun run_door_on(const engine::TensorSet& input, const std::string& arguments,
                    const std::string& before = "");

}  // namespace versieve::test
