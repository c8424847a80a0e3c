#include "model/launches/specattn.h"

#include <cmath>

#include "model/launches/launch_parts.h"
#include "model/launches/step_shape.h"

namespace versieve {
namespace {

constexpr double kMostTopPCtas = 16.0;   // of a row's cluster
constexpr double kTopPWeights = 4096.0;  // a CTA's, if there are more CTAs than one
constexpr double kTopPExchange = 0.46;   // of sums, and by twice as many CTAs, in such parts
constexpr double kTopPSteps = 4.0;       // of all halvings over such a part

}  // namespace

namespace traffic {

Traffic attention_weights(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim,
                          std::int64_t context_len, std::int64_t element_bytes) {
  return moved(TrafficTerm::kDraft, context_len * kv_heads * head_dim * element_bytes,
               context_len * kF32Bytes, 2.0 * static_cast<double>(context_len * heads * head_dim));
}

Traffic layer_map(std::int64_t draft_layers, std::int64_t verifier_layers) {
  const std::int64_t cells = draft_layers * verifier_layers;
  const std::int64_t f64_bytes = 2 * kF32Bytes;
  return moved(TrafficTerm::kScores, cells * f64_bytes, verifier_layers * kF32Bytes + f64_bytes,
               2.0 * static_cast<double>(cells));
}

Traffic top_p(std::int64_t rows, std::int64_t length) {
  const std::int64_t bytes = rows * length * kF32Bytes;
  return moved(TrafficTerm::kScores, 2 * bytes, length * kF32Bytes + rows * kF32Bytes,
               static_cast<double>(rows * length));
}

Traffic token_list(std::int64_t lists, std::int64_t length) {
  const std::int64_t bytes = lists * length * kF32Bytes;
  return moved(TrafficTerm::kScores, bytes, bytes, 0.0);
}

}  // namespace traffic

// The draft's own attention leaves every head's weights behind; a launch takes their mean.
void add_attention_weights(const StepShape& s, StepWork& out) {
  Traffic weights;
  weights.read(TrafficTerm::kScores, number(s.target.num_heads * s.context_len) * 4.0);
  weights.write(TrafficTerm::kScores, number(s.context_len) * 4.0);
  out.add(streaming(LaunchKind::kAttentionWeights, Phase::kDraft, number(s.dense.weight_rows),
                    weights, number(s.context_len * s.target.num_heads) / kElementsPerBlock, 1.0));
}

// Which tokens carry the share p of the draft's attention: a cluster a row, whose CTAs go over
// their parts of it and exchange sums, once a halving (kernels/top_p).
void add_top_p(const StepShape& s, double layers, StepWork& out) {
  double ctas = 1.0;
  while (ctas < kMostTopPCtas && ctas * kTopPWeights < number(s.context_len)) {
    ctas *= 2.0;
  }
  const double steps = number(s.context_len) / ctas / kTopPWeights +
                       (ctas > 1.0 ? kTopPExchange * (1.0 + std::log2(ctas)) : 0.0);
  add_dense_launch(streaming(LaunchKind::kTopP, Phase::kAttention, layers,
                             traffic::top_p(s.dense.weight_rows, s.context_len),
                             number(s.dense.weight_rows) * ctas, kTopPSteps * steps),
                   out);
}

}  // namespace versieve
