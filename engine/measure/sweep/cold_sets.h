// How many copies of a layer's cache make it cold: enough that the others push each out of L2.
#pragma once

#include <cstdint>

#include "model/launches/nsa_shape.h"

namespace versieve::engine {

// The bytes of its copy of the cache that a run reads at least: the compressed cache, and the
// selected blocks or the window. What all copies share (q, out, tree) is left out.
double touched_bytes(const traffic::NsaVerifyShape& shape);
// `cold_bytes`: that must pass between two uses of a copy. `most`: copies; a layer's cache needs
// fewer.
std::int64_t cold_sets(double cold_bytes, double bytes_each, std::int64_t most = 96);

}  // namespace versieve::engine
