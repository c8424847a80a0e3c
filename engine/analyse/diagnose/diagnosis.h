// Why is the speed-up poor? Nine rules, each behind many threads of those who run speculative
// decoding, judged on what a database holds of one pair. A rule that the points cannot answer says
// what it lacks.
#pragma once

#include <string>
#include <vector>

#include "engine/analyse/fit/acceptance_evidence.h"
#include "model/words/hardware.h"
#include "model/words/measurement.h"

namespace versieve::engine {

// By how much it matters: something is broken; it works and does not pay; good to know; nothing
// found; not answered.
enum class Verdict { kFault, kLoss, kNote, kFine, kNotJudged };
const char* name_of(Verdict verdict);  // "fault", "loss", "note", "fine", "not judged"

struct Finding {
  std::string rule;  // "first token"
  Verdict verdict = Verdict::kNotJudged;
  std::string sentence;  // what the points show, with figures; without its full stop
  std::string advice;    // what to look at; empty if there is nothing to do
};

struct DiagnosisInput {
  AcceptanceEvidence evidence;               // of the pair
  std::vector<PointMeasurement> acceptance;  // its points
  std::vector<PointMeasurement> steps;       // timed whole steps of one device
  std::string device;                        // theirs; empty without steps
  const HardwareSpec* hardware = nullptr;    // its entry; null if the catalogue has none
};

// One finding a rule, those that matter most first.
std::vector<Finding> diagnose(const DiagnosisInput& input);
std::string findings_text(const std::vector<Finding>& findings);

}  // namespace versieve::engine
