// A range in words: "3 to 8", and where both ends read alike that one.
#pragma once

#include <string>

namespace versieve {

inline std::string range_text(const std::string& low, const std::string& high) {
  return low == high ? high : low + " to " + high;
}

}  // namespace versieve
