// What a launch's trace asks for, added up.
#pragma once

#include <set>
#include <vector>

#include "engine/analyse/sim/memory_trace.h"

namespace versieve::engine {

struct Touched {
  double read = 0.0, written = 0.0;  // bytes, repeats counted
  double keys = 0.0;                 // of read: copied tiles
  double unique_read = 0.0;          // of 32-byte sectors
};

inline Touched touched_by(const LaunchTrace& launch) {
  Touched touched;
  std::set<std::uint64_t> sectors;
  for (std::int64_t cta = 0; cta < launch.shape().ctas; ++cta) {
    std::vector<Access> accesses;
    for (std::int64_t step = 0; launch.append_step(cta, step, accesses); ++step) {
    }
    for (const Access& access : accesses) {
      const double bytes = static_cast<double>(access.bytes) * access.count;
      if (access.kind == AccessKind::kWrite) {
        touched.written += bytes;
        continue;
      }
      touched.read += bytes;
      touched.keys += access.kind == AccessKind::kBulkRead ? bytes : 0.0;
      for (std::uint32_t run = 0; run < access.count; ++run) {
        const std::uint64_t begin = access.address + run * access.stride;
        for (std::uint64_t s = begin / 32; s * 32 < begin + access.bytes; ++s) {
          sectors.insert(s);
        }
      }
    }
  }
  touched.unique_read = 32.0 * static_cast<double>(sectors.size());
  return touched;
}

}  // namespace versieve::engine
