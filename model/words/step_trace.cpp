#include "model/words/step_trace.h"

#include <algorithm>

#include "model/words/error.h"

namespace versieve {
namespace {

constexpr const char* kEvidenceNames[kRangeEvidenceCount] = {"launched", "order", "name",
                                                             "unknown"};

}  // namespace

const char* name_of(RangeEvidence evidence) {
  return kEvidenceNames[static_cast<int>(evidence)];
}

RangeEvidence range_evidence_of(const std::string& name) {
  for (int i = 0; i < kRangeEvidenceCount; ++i) {
    if (name == kEvidenceNames[i]) {
      return static_cast<RangeEvidence>(i);
    }
  }
  throw Error(ExitCode::kBadInput, "a launch's range is not known by '" + name + "'");
}

std::int64_t StepTrace::length_ns() const {
  std::int64_t end = 0;
  for (const TracedLaunch& launch : launches) {
    end = std::max(end, launch.start_ns + launch.duration_ns);
  }
  return end - (launches.empty() ? 0 : launches.front().start_ns);
}

std::int64_t StepTrace::busy_ns() const {
  std::int64_t busy = 0;
  std::int64_t end = launches.empty() ? 0 : launches.front().start_ns;
  for (const TracedLaunch& launch : launches) {
    const std::int64_t launch_end = launch.start_ns + launch.duration_ns;
    busy += std::max<std::int64_t>(0, launch_end - std::max(end, launch.start_ns));
    end = std::max(end, launch_end);
  }
  return busy;
}

}  // namespace versieve
