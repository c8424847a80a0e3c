#include "engine/analyse/sim/vanilla_cut.h"

namespace versieve::engine {

void place_vanilla_scratch(AddressSpace& space, AttentionCase& attention) {
  AttentionBuffers& at = attention.at;
  const std::int64_t pairs = attention.num_queries() * attention.shape.num_kv_heads;
  const std::int64_t padded = padded_heads(attention);
  const std::int64_t spans = vanilla_spans(attention);
  const std::int64_t outs = attention.num_queries() * attention.shape.q_width();
  at.scores = space.place(attention.reuse ? 0 : pairs * attention.max_compressed() * padded * 4);
  at.states = space.place(pairs * spans * padded * 2 * 4);
  at.partials = space.place(pairs * spans * padded * attention.shape.head_dim * 4);
  at.selected = space.place(outs * 4);
  at.window = space.place(outs * 4);
}

}  // namespace versieve::engine
