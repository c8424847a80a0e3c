// What the clocks of a campaign did: a line where the reasons for a lower clock change from point
// to point, and a sentence at its end. Times taken under a slowdown (heat, power brake, hardware)
// are marked "throttled" by the instrument, and the fit leaves them out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "model/words/measurement.h"

namespace versieve::engine {

struct ClockLine {
  std::string severity;  // warning: the point is marked; info
  std::string text;      // one sentence
};

class ClockLog {
 public:
  // None where the point's reasons are those of the point before, or nobody asked.
  std::optional<ClockLine> line_of(const PointMeasurement& point);
  // Empty where no point was marked.
  std::string summary() const;
  std::int64_t throttled() const { return throttled_; }

 private:
  std::string last_ = "none";
  std::string seen_;  // reasons of the marked points
  std::int64_t throttled_ = 0;
};

}  // namespace versieve::engine
