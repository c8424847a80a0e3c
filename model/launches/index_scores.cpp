#include "model/launches/index_scores.h"

#include <algorithm>
#include <cmath>

#include "model/launches/launch_parts.h"
#include "model/launches/step_shape.h"
#include "model/launches/topk.h"

namespace versieve {
namespace {

constexpr double kBlockRows = 8.0;       // queries of a block of index_scores
constexpr double kTilePositions = 32.0;  // of a warp of index_scores at once
constexpr double kMostBlocks = 264.0;    // of it
constexpr double kWarps = 8.0;           // of a block

// Elements of a token's keys that its index key holds.
double kept_elements(std::int64_t num_kv_heads, const IndexShape& index) {
  return number(2 * index.pairs * num_kv_heads);
}

}  // namespace

namespace traffic {

Traffic index_scores(std::int64_t rows, std::int64_t length, const IndexHeads& index,
                     std::int64_t element_bytes) {
  const double products = number(rows * length) * number(index.heads) * number(index.dim);
  Traffic t = moved(TrafficTerm::kCompressedCache, length * index.dim * element_bytes, 0,
                    2.0 * products + 3.0 * number(rows * length * index.heads));
  t.read(TrafficTerm::kQueryOutput,
         number(rows * index.heads * (index.dim * element_bytes + kF32Bytes)));
  t.write(TrafficTerm::kScores, number(rows * length * element_bytes));
  return t;
}

Traffic index_keys(std::int64_t layers, std::int64_t tokens, std::int64_t num_kv_heads,
                   const IndexShape& index, std::int64_t element_bytes) {
  const double rows = number(layers * tokens * element_bytes);
  Traffic t;
  t.read(TrafficTerm::kKvAppend, rows * kept_elements(num_kv_heads, index));
  t.write(TrafficTerm::kCompressedCache, rows * number(index.dim));
  return t;
}

Traffic index_query(std::int64_t num_heads, const IndexShape& index, std::int64_t chosen,
                    std::int64_t newest, std::int64_t element_bytes) {
  Traffic t;
  t.read(TrafficTerm::kQueryOutput, number(num_heads * 2 * index.pairs * element_bytes));
  t.write(TrafficTerm::kQueryOutput, number(index.heads * index.dim * element_bytes));
  t.read(TrafficTerm::kScores, number(chosen * kIntBytes));
  t.write(TrafficTerm::kScores, number((chosen + newest + 1) * kIntBytes));
  return t;
}

}  // namespace traffic

namespace {

// Keys of all layers' newest tokens in one launch of a step; of a layer alone its own.
void add_index_keys(const StepShape& s, double layers, const IndexShape& index, StepWork& out) {
  const std::int64_t of_launch =
      s.dense.whole_step ? std::max<std::int64_t>(1, std::llround(layers)) : 1;
  const std::int64_t tokens = std::max<std::int64_t>(1, std::llround(committed_tokens(s)));
  add_dense_launch(streaming(LaunchKind::kIndexKeys, Phase::kAttention, layers / number(of_launch),
                             traffic::index_keys(of_launch, tokens, s.target.num_kv_heads, index,
                                                 s.element_bytes),
                             number(of_launch * tokens * index.dim) / kElementsPerBlock, 1.0),
                   out);
}

}  // namespace

void add_index_scores(std::int64_t rows, std::int64_t length, const IndexHeads& index,
                      std::int64_t element_bytes, double launches, StepWork& out) {
  const double tiles = std::ceil(number(length) / kTilePositions);
  const double blocks = std::min(tiles, kMostBlocks);
  LaunchWork scores = streaming(LaunchKind::kIndexScores, Phase::kAttention, launches,
                                traffic::index_scores(rows, length, index, element_bytes),
                                blocks * std::ceil(number(rows) / kBlockRows),
                                std::ceil(tiles / (blocks * kWarps)));
  scores.order = LatencyOrder::kBefore;  // keys are read once, by warps that wait for nobody
  add_dense_launch(scores, out);
}

void add_indexer(const StepShape& s, double layers, StepWork& out) {
  const IndexShape index = index_shape(s.target);
  const std::int64_t scored = std::max<std::int64_t>(1, s.context_len - s.dense.indexer_window);
  const std::int64_t chosen = s.dense.indexer_k;
  add_index_keys(s, layers, index, out);
  add_dense_launch(streaming(LaunchKind::kIndexQuery, Phase::kAttention, layers,
                             traffic::index_query(s.target.num_heads, index, chosen,
                                                  s.dense.indexer_window, s.element_bytes),
                             number(index.heads * index.dim) / kElementsPerBlock,
                             number(chosen) / number(index.heads * index.dim)),
                   out);
  add_index_scores(1, scored, {index.heads, index.dim}, s.element_bytes, layers, out);
  const bool hints = s.dense.indexer_topk == TopkAlgorithm::kGvr;
  add_topk({.algorithm = s.dense.indexer_topk,
            .k = chosen,
            .hint = hints ? std::optional(1.0) : std::nullopt},
           scored, 1, s.element_bytes, false, out);
  LaunchWork& topk = out.work[out.count - 1];
  topk.launches = layers;
  topk.phase = Phase::kAttention;
  topk.layer = LayerKind::kRefresh;
}

}  // namespace versieve
