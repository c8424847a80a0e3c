// A second opinion: another engine's answers to captured inputs of the door, judged by the CPU's
// reference. Choices (topk, nsa_verify) are exact, differ where candidates tie, or are wrong, which
// the worst row shows. Samplers, whose draws are their own, are held against the law that these
// inputs give.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/measure/door/door.h"

namespace versieve::engine {

enum class JudgedAs {
  kExact,      // the same choices, or the very draws that the uniforms give
  kTiesOnly,   // others, but only among candidates that cannot be told apart
  kFits,       // draws of the right law, as far as their number tells
  kUndecided,  // too few draws
  kWrong,
};
const char* name_of(JudgedAs verdict);  // "exact", "ties only", "fits", "undecided", "wrong"

struct Judgement {
  JudgedAs verdict = JudgedAs::kExact;
  nlohmann::json json = nlohmann::json::object();  // figures of the family
  std::string sentence;                            // the verdict with what it rests on
};

// Captured inputs in the file of the request and another engine's answers in `against`, tensors as
// the family reads and writes them; answers' integers may be of any width. Throws Error: kUsage for
// a family that cannot be judged or a backend other than the CPU, kBadInput for what is no answer
// to these inputs.
Judgement judge_answers(const DoorRequest& request, const std::filesystem::path& against);

}  // namespace versieve::engine
