#include "model/launches/block_keys.h"

#include <algorithm>
#include <cmath>

#include "model/launches/launch_parts.h"
#include "model/launches/step_shape.h"

namespace versieve {

namespace traffic {

Traffic block_keys(std::int64_t layers, std::int64_t blocks, std::int64_t key_block,
                   std::int64_t width, std::int64_t element_bytes) {
  const double block = static_cast<double>(layers * blocks * width * element_bytes);
  Traffic t;
  t.read(TrafficTerm::kKvAppend, block * static_cast<double>(key_block));
  t.write(TrafficTerm::kCompressedCache, 2.0 * block);
  t.flops = 2.0 * static_cast<double>(layers * blocks * key_block * width);
  return t;
}

}  // namespace traffic

void add_block_keys(const StepShape& s, double layers, StepWork& out) {
  const std::int64_t of_launch = s.dense.whole_step ? std::llround(layers) : 1;
  add_dense_launch(
      streaming(LaunchKind::kBlockKeys, Phase::kAttention,
                layers / number(std::max<std::int64_t>(1, of_launch)),
                traffic::block_keys(of_launch, 1, std::llround(s.dense.filled), s.target.kv_width(),
                                    s.element_bytes),
                number(of_launch * s.target.kv_width()) / kElementsPerBlock, s.dense.filled),
      out);
}

}  // namespace versieve
