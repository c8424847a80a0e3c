// What both judges of samplers do with draws: each has emitted some accepted proposals and one last
// token, its outcome. Outcomes are counted against the law that the inputs give them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/measure/door/input.h"
#include "engine/measure/door/judge.h"

namespace versieve::engine {

// A right sampler is called wrong at most once in ten thousand times.
inline constexpr double kLeastChance = 1e-4;
// Pearson's statistic over cells of as few as five draws is beyond a p value of 1.25e-5 up to 3.4
// times as often as that (300,000 simulated counts each of three laws, 200 draws).
inline constexpr double kHeavyTail = 4.0;
// Where a probability is this share of what it is made of, another engine's rounding may have left
// it or taken it away (the door's tolerance of decisions, README.md).
inline constexpr double kRounding = 1e-4;

// The most outcomes that are counted.
inline constexpr std::int64_t kMostOutcomes = std::int64_t{1} << 27;

struct Outcome {
  std::int64_t place = 0;  // position of a chain, node of a tree, after which the last token stands
  std::int64_t token = 0;
};

struct DrawTally {
  const char* family = "";
  std::int64_t places = 0, vocab = 0;
  std::vector<double> expected;       // [places, vocab], over all draws
  std::vector<std::int64_t> counts;   // likewise
  std::vector<std::int64_t> stopped;  // [places]: of all draws; from counts
  std::int64_t draws = 0;
  std::string impossible;  // the first draw that cannot be, as a sentence's end; empty: none
  std::int64_t impossible_draw = -1;

  DrawTally(const char* of, std::int64_t places, std::int64_t vocab);
  std::size_t at(std::int64_t place, std::int64_t token) const {
    return static_cast<std::size_t>(place * vocab + token);
  }
  void count(const Outcome& outcome) {
    counts[at(outcome.place, outcome.token)] += 1;
    draws += 1;
  }
  void refuse_draw(std::int64_t draw, const std::string& why);
};

// `same_draws`: the answers are the very draws that the uniforms of the inputs give.
Judgement judged_draws(const DrawTally& tally, bool same_draws);

// The answers of a sampler: of each draw the tokens that it emitted, accepted ones first.
struct Draws {
  std::vector<std::vector<std::int32_t>> emitted;

  std::int64_t count() const { return static_cast<std::int64_t>(emitted.size()); }
};
// `tokens [R, width]`, padded with -1, or those of one draw; `accepted [R]` beside them, if it is
// there, counts all but the last. Refuses what contradicts itself.
Draws read_draws(DoorInput& answers, std::int64_t width);
// Are they what the door draws with the uniforms of the inputs, if these hold any?
bool are_same_draws(const DoorInput& input, const DoorRequest& request, const Draws& draws);

}  // namespace versieve::engine
