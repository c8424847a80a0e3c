// The points that ship with the project, as a fit takes them.
#pragma once

#include <string>
#include <vector>

#include "db/evidence.h"
#include "tests/support/paths.h"

namespace versieve::test {

// Acceptance of any machine, and all else that `device` measured, of db/measured/`file`.
inline std::vector<PointMeasurement> shipped_points(const std::string& file,
                                                    const std::string& device) {
  const db::Store store = db::Store::open(std::string(VERSIEVE_SOURCE_DIR "/db/measured/") + file,
                                          db::OpenMode::kReadOnly);
  return db::evidence_of(store, device).points;
}

}  // namespace versieve::test
