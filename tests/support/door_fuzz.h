// Random legal inputs of the kernel door's families, and what is wrong with an answer to one. Small
// shapes, odd ones, zero sizes; a seed gives the same case everywhere the standard library does.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "engine/measure/door/door.h"

namespace versieve::testing {

struct DoorCase {
  std::string family, variant, dtype;  // f32 or bf16
  engine::TensorSet input;
  bool cuda_takes = true;  // else CUDA refuses it with kAnswerNo
  // What is wrong with an answer to `own`, this case; an empty text: nothing.
  std::function<std::string(const DoorCase& own, const engine::TensorSet& got)> compare;

  std::string text() const;  // family, variant, dtype, shapes, metadata
};

// The door's families, one generator each.
std::span<const char* const> door_fuzz_families();
DoorCase random_door_case(const std::string& family, std::uint64_t seed);

// Runs the case through the door. Empty, or what is wrong: a refusal or an error that is none of
// the case's, a wrong answer. `device`: kept between cases, or null.
std::string door_fault(const DoorCase& c, engine::DoorBackend backend,
                       engine::DoorDevice* device = nullptr);

}  // namespace versieve::testing
