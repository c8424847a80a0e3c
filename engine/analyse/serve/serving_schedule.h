// What to draft, by context and by requests at a time, of one pair on one server: for each cell the
// drafts that were measured and chains cut from them, with the tokens that a step yields, the
// tokens at which it breaks even, and how likely speculation loses there. From the server's own
// steps where they were timed, else by the roofline of the machine, and each number says which.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/analyse/fit/acceptance_evidence.h"
#include "model/words/evaluation.h"
#include "model/words/hardware.h"
#include "model/words/measurement.h"

namespace versieve::engine {

// What a step's time over plain decoding's rests on.
enum class StepTimes {
  kTimed,     // both were timed at these requests
  kBetween,   // a longer chain and plain decoding were; this one lies on the line between them
  kRoofline,  // rows of the step over those at which the machine turns to arithmetic, and a drafted
              // level at kLevelShare of a plain step; by the timed ratios at other requests, if any
  kModel,     // the planner's cost model (planned_schedule.h)
};
inline constexpr std::size_t kStepTimesCount = 4;
const char* name_of(StepTimes times);  // "timed", "between", "roofline", "model"

enum class TokenSource {
  kCounted,    // of this very draft
  kCut,        // of a deeper chain's steps by the tokens that they emitted
  kGeometric,  // of a deeper chain's mean alone, each token as likely as the one before it
  kPlanned,    // the planner's, of the pair that its table names
};
inline constexpr std::size_t kTokenSourceCount = 4;
const char* name_of(TokenSource source);  // "counted", "cut", "geometric", "planned"

// A drafted level's time in plain steps, where nothing was timed: an assumption (a head of one
// layer and a vocabulary's rows beside some thirty layers); its interval goes from nothing to twice
// it.
inline constexpr double kLevelShare = 0.05;
// Steps take longer than their roofline by what plain ones do not: the median of 14 timed ratios
// (nsa-1b on an H200, smollm2-nsa on an H100, one request at a time), which lie at 1.00 to 2.52.
inline constexpr double kOverRoofline = 1.3;
inline constexpr double kMostOverRoofline = 2.5;
// Of the logarithm of a timed ratio, for each doubling of the requests that it is carried over: an
// assumption.
inline constexpr double kCarriedShare = 0.1;
// Means of texts differ by this share of the mean (model/plan/runtime_guard.h says whose texts); a
// log tells at least as many texts as ran at a time.
inline constexpr double kTextShare = 0.081;
// Of the logarithm of tokens, for each token that a geometric chain is cut by: an assumption.
inline constexpr double kCutShare = 0.03;

// Of a plain step's time: a step with a draft that takes less was not timed beside it, as it does
// all that a plain one does (an allowance for noise, not a measurement).
inline constexpr double kBelowPlain = 0.95;

struct ServingChoice {
  DraftChoice draft;                   // nodes 1: plain decoding
  double tokens = 1.0;                 // a step of a request, bonus counted
  Interval tokens_interval{1.0, 1.0};  // 90 %
  double break_even = 1.0;             // tokens: its step's time over a plain one's
  Interval break_even_interval{1.0, 1.0};
  double loses = 0.0;  // probability that plain decoding is faster
  TokenSource token_source = TokenSource::kCounted;
  StepTimes times = StepTimes::kTimed;
  bool at_least = false;  // drafts were cut short: tokens are a lower bound

  double gain() const { return tokens / break_even; }
};

struct ServingCell {
  std::int64_t context_low = 0, context_high = 0;    // (low, high]
  std::int64_t requests_low = 1, requests_high = 1;  // both included
  bool measured = false;                             // acceptance was, at these requests
  std::optional<double> plain_step_us;               // where it was timed
  // Fastest first, plain decoding among them.
  std::vector<ServingChoice> choices;

  const ServingChoice& best() const { return choices.front(); }
};

struct ServingSchedule {
  static constexpr std::int64_t kSchema = 1;
  std::string pair, device;
  std::string hardware;  // key whose roofline stands in; empty: the device is not in the catalogue
  std::vector<ServingCell> cells;  // by context, then by requests, without gaps from 1 on
  std::vector<std::string> notes;
};

// Requests above which nothing is said.
inline constexpr std::int64_t kMostRequests = 256;

struct ServingInput {
  AcceptancePair pair;
  std::vector<PointMeasurement> acceptance;  // its points
  std::vector<PointMeasurement> steps;       // timed whole steps
  std::string device;
  const HardwareSpec* hardware = nullptr;  // null: no roofline
};

// Throws Error(kAnswerNo) where there is nothing to go by: no Strict draft, or neither times of
// plain decoding beside a draft's nor a machine.
ServingSchedule serving_schedule(const ServingInput& input);

}  // namespace versieve::engine
