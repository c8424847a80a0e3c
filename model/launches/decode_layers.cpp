#include "model/launches/decode_layers.h"

#include <algorithm>
#include <cmath>

#include "model/launches/compress.h"
#include "model/launches/fused_parts.h"
#include "model/launches/launch_parts.h"
#include "model/launches/nsa_fused.h"
#include "model/launches/nsa_shape.h"
#include "model/launches/rope_append.h"
#include "model/launches/step_shape.h"
#include "model/words/joint_rows.h"

namespace versieve {
namespace {

constexpr double kTileKeys = 64.0;

// A matrix in units of 64 rows (64 pairs under swiglu) and a slice of K; 0: linear takes blocks of
// other rows, or the chip does not hold all slices at once.
std::int64_t matrix_units(std::int64_t k, std::int64_t rows, bool swiglu, std::int64_t sms) {
  const LinearCut cut = linear_cut(k, rows, swiglu);
  const bool rows_fit = (cut.groups == 2) == swiglu;
  const std::int64_t units =
      (rows + kLinearGroupRows - 1) / kLinearGroupRows * static_cast<std::int64_t>(cut.slices);
  const std::int64_t tiles = (k / kLinearTileK + cut.slices - 1) / cut.slices;
  constexpr std::int64_t kBf16Bytes = 2;
  const bool fits = rows_fit && (cut.slices == 1 || units <= sms) &&
                    tiles * kLinearTileK * kBf16Bytes <= kDecodeWorkBytes;
  return fits ? units : 0;
}

bool matrices_fit(const LlmShape& t, std::int64_t sms) {
  const std::int64_t output = matrix_units(t.q_width(), t.hidden, false, sms);
  const std::int64_t down = matrix_units(t.intermediate, t.hidden, false, sms);
  return output > 0 && output <= sms && down > 0 && down <= sms &&
         matrix_units(t.hidden, joint_rows(t), false, sms) > 0 &&
         matrix_units(t.hidden, t.intermediate, true, sms) > 0;
}

bool geometry_fits(const NsaGeometry& n) {
  const bool power_of_two = n.cmp_stride > 0 && (n.cmp_stride & (n.cmp_stride - 1)) == 0;
  return power_of_two && n.sel_block == kDecodeBlockTokens && n.sel_block == 4 * n.cmp_stride &&
         n.cmp_block == 2 * n.cmp_stride && n.sel_count <= kDecodeMostChosen &&
         n.init_blocks + n.local_blocks <= n.sel_count;
}

bool heads_fit(const LlmShape& t, std::int64_t sms) {
  return (t.head_dim == 64 || t.head_dim == 128) && t.num_kv_heads > 0 &&
         t.num_heads % t.num_kv_heads == 0 && t.num_heads <= kDecodeMostHeads * t.num_kv_heads &&
         sms / t.num_kv_heads > kDecodeSegments;
}

// Tiles of keys that the slowest CTA of a layer goes through, one after the other. Segments of the
// window run beside compressed tokens; those of chosen blocks wait for them where a layer routes.
double layer_tiles(const LlmShape& t, std::int64_t context_len, bool reuse) {
  const double spans = at_least_one(traffic::nsa_route_spans(compressed_count(t.nsa, context_len)));
  const double ranks =
      number(kLinearBlocksWanted / t.num_kv_heads - kDecodeSegments) + traffic::kSelectedSegments;
  const double keys = number(compressed_count(t.nsa, context_len));
  const double compressed = keys / kTileKeys / std::min(spans, ranks);
  const double blocks = std::floor(number(context_len) / number(t.nsa.sel_block)) + 1.0;
  const double chosen = std::ceil(std::min(number(t.nsa.sel_count), blocks) *
                                  number(t.nsa.sel_block) / kTileKeys / traffic::kSelectedSegments);
  const double window = window_segment(t.nsa.window, context_len);
  const double attended = reuse ? std::max(compressed, chosen) : compressed + chosen;
  return std::max(attended, window);
}

}  // namespace

bool decodes_in_one_launch(const LlmShape& t, std::int64_t context_len, std::int64_t sms) {
  constexpr std::int64_t kWeightBytes = 4;  // of a selection block, f32
  return t.attention == AttentionKind::kNsa && t.is_plain() && t.layers > 0 &&
         geometry_fits(t.nsa) && heads_fit(t, sms) && t.hidden % kLinearTileK == 0 &&
         t.q_width() % kLinearTileK == 0 && t.intermediate % kLinearTileK == 0 &&
         matrices_fit(t, sms) && context_len < kDecodeWorkBytes / kWeightBytes * t.nsa.sel_block &&
         traffic::nsa_route_spans(compressed_count(t.nsa, context_len + 1)) <=
             static_cast<double>(kDecodeMostSpans);
}

namespace traffic {

Traffic decode_layers(const LlmShape& t, const DecodeLayersShape& s) {
  const std::int64_t e = s.element_bytes;
  const TrafficTerm weights = TrafficTerm::kWeights;
  Traffic each = linear(1, t.hidden, joint_rows(t), e, weights);
  each += rope_append(1, t.num_heads, t.num_kv_heads, t.head_dim, 3 * t.num_heads,
                      t.compress_stage == CompressStage::kBeforeRope, e);
  each += compress({.rows = s.pooled,
                    .num_kv_heads = t.num_kv_heads,
                    .head_dim = t.head_dim,
                    .cmp_block = t.nsa.cmp_block,
                    .cmp_stride = t.nsa.cmp_stride,
                    .element_bytes = e});
  each += linear(1, t.q_width(), t.hidden, e, weights);
  each += weighted_rows(1, t.hidden, e);
  each += linear_swiglu(1, t.hidden, t.intermediate, e, weights);
  each += linear(1, t.intermediate, t.hidden, e, weights);
  each += weighted_rows(1, t.hidden, e);
  const NsaVerifyShape attention{.nsa = t.nsa,
                                 .num_heads = t.num_heads,
                                 .num_kv_heads = t.num_kv_heads,
                                 .head_dim = t.head_dim,
                                 .context_len = s.context_len,
                                 .num_queries = 1,
                                 .element_bytes = e};
  Traffic refresh = nsa_route(attention);
  refresh += nsa_attend(attention);
  Traffic all;
  all.write(TrafficTerm::kDraft, number(s.captures * t.hidden * e));
  for (std::int64_t i = 0; i < s.refresh_layers + s.reuse_layers; ++i) {
    all += each;
    all += i < s.refresh_layers ? refresh : nsa_reuse(attention);
  }
  return all;
}

}  // namespace traffic

void add_decode_layers(const StepShape& s, double growth, StepWork& out) {
  const LlmShape& t = s.target;
  const double layers = number(t.layers);
  Traffic moved = traffic::decode_layers(t, {.context_len = s.context_len,
                                             .refresh_layers = s.refresh_layers,
                                             .reuse_layers = s.reuse_layers,
                                             .element_bytes = s.element_bytes});
  moved += scaled(pooled_tokens(s), layers);
  const double steps = number(s.refresh_layers) * layer_tiles(t, s.context_len, false) +
                       number(s.reuse_layers) * layer_tiles(t, s.context_len, true);
  LaunchWork work = streaming(LaunchKind::kDecodeLayers, Phase::kMatrices, 1.0, moved,
                              number(kLinearBlocksWanted), steps);
  const SparedTokens spared = spared_tokens(attention_shape(s, growth));
  const double token = layers * 2.0 * number(t.kv_width() * s.element_bytes);
  spare(TrafficTerm::kSelectedBlocks, spared.selected * token, work);
  spare(TrafficTerm::kWindow, spared.window * token, work);
  work.handover_distance = 0.0;  // packets that are read as soon as they are there
  // A layer's chain of meetings takes longer than its rings take to fill.
  work.streams = true;
  work.rounds = layers;  // each layer's meetings: projection, attention, merge, output, MLP
  work.ahead = layers * number(kDecodeRingBytes * kLinearBlocksWanted);
  out.add(work);
}

}  // namespace versieve
