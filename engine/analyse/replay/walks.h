// Recorded walks: what a strategy yielded step by step along a text that is the same for all
// strategies (model/words/measurement.h), found by what acceptance depends on.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/words/measurement.h"
#include "model/words/pair_id.h"
#include "model/words/strategy.h"

namespace versieve::engine {

// One text of one regime at one context length.
struct ReplayRequest {
  std::string regime;
  std::int64_t context_len = 0;  // tokens before the text
  std::string text;

  auto operator<=>(const ReplayRequest&) const = default;
};

// Whether walks of such a strategy can be recorded: greedy steps of an NSA target, of trees that do
// not change with what was accepted.
bool can_be_recorded(const Strategy& strategy);
// What a walk depends on: the tree, the schedule, and of approximate groups the order and size.
// Exact groups of any size and order accept what single queries accept.
std::string walk_key(const Strategy& strategy);

class Walks {
 public:
  // Of acceptance points of that pair (by its name where its hash is not known), split and regime
  // (empty: all); of two with the same key the later one counts.
  Walks(const std::vector<PointMeasurement>& points, const PairId& pair, const std::string& split,
        const std::string& regime = "");

  // Texts at contexts in (low, high], in a fixed order.
  std::vector<ReplayRequest> requests(std::int64_t low, std::int64_t high) const;
  // Yields of the strategy's steps there; empty where nobody recorded them. A strategy without a
  // draft needs no recording: it has as many steps of one token as the longest walk has tokens.
  const std::vector<std::int64_t>& of(const ReplayRequest& request, const Strategy& strategy) const;

 private:
  std::map<ReplayRequest, std::map<std::string, std::vector<std::int64_t>>> walks_;
};

}  // namespace versieve::engine
