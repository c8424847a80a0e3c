// The context ranges by which errors and acceptance are told apart; finer than the planner's
// default buckets need and independent of them. A range is (low, high].
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "model/cost/acceptance.h"

namespace versieve::engine {

struct ContextRange {
  std::int64_t low;
  std::int64_t high;
};
inline constexpr std::array<ContextRange, 8> kContextRanges = {{{0, 4096},
                                                                {4096, 8192},
                                                                {8192, 12288},
                                                                {12288, 16384},
                                                                {16384, 32768},
                                                                {32768, 65536},
                                                                {65536, 131072},
                                                                {131072, 262144}}};

// Contexts beyond the last range belong to it.
inline std::size_t context_range_of(std::int64_t context_len) {
  for (std::size_t i = 0; i < kContextRanges.size(); ++i) {
    if (in_range(context_len, kContextRanges[i].low, kContextRanges[i].high)) {
      return i;
    }
  }
  return kContextRanges.size() - 1;
}

inline std::string context_range_name(std::size_t range) {
  return std::to_string(kContextRanges[range].low) + "-" +
         std::to_string(kContextRanges[range].high);
}

}  // namespace versieve::engine
