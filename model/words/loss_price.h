// What a strategy costs in quality against the exact run of the same target: nothing by
// construction, what was measured of the pair that is planned for or of another one, or nobody
// knows. What was not measured is never zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model/words/quality_point.h"
#include "model/words/strategy.h"

namespace versieve {

// kConstruction: the strategy changes nothing that the target computes.
enum class PriceFrom { kConstruction, kOwn, kBorrowed, kUnmeasured };
inline constexpr std::size_t kPriceFromCount = 4;
const char* name_of(PriceFrom from);  // "construction", "own", "borrowed", "not measured"

// Right answers to one set of questions.
struct TaskPrice {
  std::string set;
  QualityAnswers answers;
};

struct LossPrice {
  PriceFrom from = PriceFrom::kUnmeasured;
  std::string unmeasured_because;  // one sentence; empty where there is a price
  PairId pair;                     // whose the numbers are; of construction nobody's
  std::string price_of;  // the nearest strategy, measured in the place of the one that is priced
  std::string sets;      // that the numbers are of: "texts: all", "hops + recall"
  std::string split;     // test, calibration; empty: not said
  std::int64_t tokens = 0;
  Estimate95 kl_nats, rise_nats;  // a token; perplexity is the exact run's times exp(rise)
  Estimate95 same_token{1.0, 1.0, 1.0};
  std::vector<TaskPrice> tasks;

  bool is_known() const { return from != PriceFrom::kUnmeasured; }
};

// Of a strategy that changes nothing: zero.
LossPrice price_by_construction();
// "exact", "not measured", "KL 0.011 nats, 97 % same"; behind that in brackets what it is of, where
// it is not of this very choice of this very pair on held-out text.
std::string short_text(const LossPrice& price);
// Whether what a strategy loses depends on what is drafted.
bool loses_by_draft(const Strategy& strategy);

}  // namespace versieve
