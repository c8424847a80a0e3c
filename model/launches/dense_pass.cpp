#include "model/launches/dense_pass.h"

#include <algorithm>

#include "model/launches/launch_parts.h"
#include "model/launches/step_shape.h"
#include "model/launches/tree_attention.h"

namespace versieve {
namespace {

// What a block does before its first tile and after its last, in tiles.
constexpr std::int64_t kStartTiles = 3;
constexpr std::int64_t kMostWaves = 2;  // of blocks, where keys are split

std::int64_t whole(std::int64_t count, std::int64_t of) {
  return (count + of - 1) / of;
}

}  // namespace

bool takes_dense_pass(std::int64_t num_heads, std::int64_t num_kv_heads, std::int64_t head_dim,
                      std::int64_t queries, std::int64_t element_bytes) {
  return element_bytes == kPassElementBytes && (head_dim == 64 || head_dim == 128) &&
         queries * (num_heads / num_kv_heads) > kPassFewRows;
}

bool takes_dense_pass(const StepShape& s) {
  return s.dense.rewrites && takes_dense_pass(s.target.num_heads, s.target.num_kv_heads,
                                              s.target.head_dim, s.num_queries, s.element_bytes);
}

std::int64_t most_pass_splits(std::int64_t num_heads, std::int64_t num_kv_heads,
                              std::int64_t queries) {
  const std::int64_t blocks = whole(queries * (num_heads / num_kv_heads), kPassRows) * num_kv_heads;
  return std::clamp<std::int64_t>(kMostWaves * kPassBlocksWanted / blocks, 1, kPassSplits);
}

// As many splits as end soonest: waves of blocks, each with its tiles.
DensePassCut dense_pass_cut(std::int64_t num_heads, std::int64_t num_kv_heads, std::int64_t queries,
                            std::int64_t keys) {
  DensePassCut best{.row_blocks = whole(queries * (num_heads / num_kv_heads), kPassRows)};
  const std::int64_t tiles = whole(keys, kPassKeys);
  const std::int64_t most = std::min(tiles, most_pass_splits(num_heads, num_kv_heads, queries));
  std::int64_t soonest = 0;
  for (std::int64_t splits = 1; splits <= most; ++splits) {
    const std::int64_t waves = whole(best.row_blocks * num_kv_heads * splits, kPassBlocksWanted);
    const std::int64_t time = waves * (whole(tiles, splits) + kStartTiles);
    if (splits == 1 || time < soonest) {
      soonest = time;
      best.splits = splits;
    }
  }
  return best;
}

namespace traffic {

Traffic dense_pass_partials(std::int64_t rows, std::int64_t splits, std::int64_t head_dim,
                            bool written) {
  const double bytes = number(rows * splits * (head_dim + 2) * kF32Bytes);
  Traffic t;
  written ? t.write(TrafficTerm::kScores, bytes) : t.read(TrafficTerm::kScores, bytes);
  return t;
}

}  // namespace traffic

// Blocks of rows that see the same keys run side by side, so that L2 serves all but the first.
void add_dense_pass(const StepShape& s, double layers, StepWork& out) {
  const std::int64_t keys = s.context_len + s.num_queries;
  const DensePassCut cut =
      dense_pass_cut(s.target.num_heads, s.target.num_kv_heads, s.num_queries, keys);
  const std::int64_t rows = s.num_queries * s.target.num_heads;
  const double padded = number(cut.row_blocks * kPassRows * s.target.num_kv_heads);
  Traffic t = traffic::dense_attention(s);
  t.flops *= padded / number(rows);
  t += traffic::dense_pass_partials(rows, cut.splits, s.target.head_dim, true);
  LaunchWork work = reloading(LaunchKind::kDensePass, Phase::kAttention, layers, t, dense_term(s),
                              number(cut.row_blocks) * dense_keys(s) * token_bytes(s),
                              number(cut.row_blocks * s.target.num_kv_heads * cut.splits),
                              number(whole(whole(keys, kPassKeys), cut.splits)));
  work.reuse_distance = 0.0;
  // Softmax of a tile takes turns with its products; queries come in and results leave by rows.
  work.order = LatencyOrder::kInTurn;
  work.rounds = lines(s.target.head_dim, s.element_bytes);
  add_dense_launch(work, out);
  const Traffic merged = traffic::dense_pass_partials(rows, cut.splits, s.target.head_dim, false);
  add_dense_launch(streaming(LaunchKind::kDensePassMerge, Phase::kAttention, layers, merged,
                             number(rows), number(cut.splits)),
                   out);
}

}  // namespace versieve
