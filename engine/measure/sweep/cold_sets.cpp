#include "engine/measure/sweep/cold_sets.h"
#include "model/launches/nsa_shape.h"
#include "model/launches/nsa_vanilla.h"

#include <algorithm>
#include <cmath>

namespace versieve::engine {
namespace {

double read(const Traffic& t, TrafficTerm term) {
  return t.read_bytes[static_cast<std::size_t>(term)];
}

}  // namespace

double touched_bytes(const traffic::NsaVerifyShape& shape) {
  // Window and selected blocks overlap (the newest blocks are forced): the larger one counts.
  return read(traffic::nsa_compressed(shape), TrafficTerm::kCompressedCache) +
         std::max(read(traffic::nsa_selected(shape), TrafficTerm::kSelectedBlocks),
                  read(traffic::nsa_window(shape), TrafficTerm::kWindow));
}

std::int64_t cold_sets(double cold_bytes, double bytes_each, std::int64_t most) {
  const double sets = std::ceil(cold_bytes / bytes_each) + 1.0;
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(sets), 2, most);
}

}  // namespace versieve::engine
