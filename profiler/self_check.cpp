#include "profiler/self_check.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "model/words/formatted.h"

namespace versieve::profiler {

SelfCheck judged(SelfCheck figures) {
  const auto off = [](double counted, double expected) {
    return std::abs(counted - expected) / expected;
  };
  const double worst = std::max({off(figures.copy_read_bytes, figures.copy_bytes),
                                 off(figures.copy_write_bytes, figures.copy_bytes),
                                 off(figures.reread_read_bytes, figures.reread_bytes)});
  const bool ok = worst <= kSelfCheckTolerance;
  figures.status = ok ? SelfCheckVerdict::kOk : SelfCheckVerdict::kSuspect;
  figures.sentence = formatted(
      "Known kernels %s within %.0f %% of their DRAM bytes: a copy of %.1f MB read %.1f "
      "and wrote %.1f MB, %.1f MB read 8 times read %.1f MB.",
      ok ? "came" : "did not come", 100.0 * kSelfCheckTolerance, figures.copy_bytes / 1e6,
      figures.copy_read_bytes / 1e6, figures.copy_write_bytes / 1e6, figures.reread_bytes / 1e6,
      figures.reread_read_bytes / 1e6);
  return figures;
}

}  // namespace versieve::profiler
