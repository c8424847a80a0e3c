// One generator of random legal cases a family of the door; door_fuzz.h for all of them.
#pragma once

#include <random>
#include <string>

#include "model/words/error.h"
#include "tests/support/door_fuzz.h"
#include "tests/support/resa_case.h"

namespace versieve::testing {

DoorCase random_nsa_door(std::mt19937_64& rng);
DoorCase random_topk_door(std::mt19937_64& rng);
DoorCase random_spec_door(std::mt19937_64& rng);
DoorCase random_tree_door(std::mt19937_64& rng);
DoorCase random_layer_map(std::mt19937_64& rng);
DoorCase random_top_p_door(std::mt19937_64& rng);
DoorCase random_block_keys(std::mt19937_64& rng);
DoorCase random_resa_door(std::mt19937_64& rng);

// `ratio`: the decimal text of c.selection.active_ratio.
DoorCase resa_door(ResaCase c, const std::string& ratio, std::int64_t splits,
                   const std::string& dtype);

// What the door says to a case: results, or its refusal.
struct DoorAnswer {
  ExitCode code = ExitCode::kDone;
  std::string sentence;
  engine::TensorSet results;
};
DoorAnswer answer_of(const DoorCase& c, const std::string& backend, const std::string& dtype,
                     engine::DoorDevice* device = nullptr);

std::vector<double> floats_of(const engine::TensorSet& set, const std::string& name);
std::vector<std::int32_t> integers_of(const engine::TensorSet& set, const std::string& name);
// An empty text, or which tensor has not the bits that the CPU gives in the same dtype.
std::string bits_fault(const DoorCase& c, const engine::TensorSet& got);

}  // namespace versieve::testing
