#include "model/launches/flash_decode.h"

#include <cmath>

#include "model/launches/launch_parts.h"
#include "model/launches/step_shape.h"
#include "model/launches/tree_attention.h"

namespace versieve {
namespace {

constexpr double kDenseChunk = 128.0, kMostChunks = 128.0;
constexpr double kLoneRows = 16.0;     // rows of one warp
constexpr double kSharedRows = 128.0;  // rows of a CTA that shares its tiles of keys
constexpr double kFlashStart = 1.5;    // tiles of keys
// Chosen tokens lie in pieces: one chunk of 16 in twenty is read at half of a stream's rate, two in
// three at 0.87 of it.
constexpr double kScattered = 0.95;
// Tokens that are chosen one by one come row by row: a tile of 64 takes 2.6 of a whole one's steps
// for heads of a line, 4.7 for heads of two (an H100's ranges of the sweep `indexer`).
constexpr double kSingleRows = 0.5, kSingleLines = 2.1;

}  // namespace

double flash_chunk_keys(double keys) {
  double chunk = kDenseChunk;
  while (keys > kMostChunks * chunk) {
    chunk *= 2.0;
  }
  return chunk;
}

double flash_chunks(double keys) {
  return at_least_one(std::ceil(keys / flash_chunk_keys(keys)));
}

LaunchKind flash_kind(const LlmShape& target, std::int64_t queries) {
  const double rows = number(queries * (target.num_heads / target.num_kv_heads));
  return rows <= kLoneRows ? LaunchKind::kFlashDecode : LaunchKind::kFlashRows;
}

// Query rows of a KV head go through tiles of 16, 32, 64 or 128, padded; a tile's CTAs take a chunk
// of keys each.
void add_flash_decode(const StepShape& s, double layers, StepWork& out) {
  const double keys = dense_keys(s) + number(s.num_queries);
  const double group = number(s.target.num_heads / s.target.num_kv_heads);
  const double rows = number(s.num_queries) * group;
  double tile = kLoneRows;
  while (tile < rows && tile < kSharedRows) {
    tile *= 2.0;
  }
  const double tiles = std::ceil(rows / tile);
  const double chunks = flash_chunks(keys);
  const double partials = number(s.num_queries * s.target.num_heads * (s.target.head_dim + 2)) *
                          chunks * number(kF32Bytes);
  Traffic t = traffic::dense_attention(s);
  t.flops *= tiles * tile / rows;
  t.write(TrafficTerm::kScores, partials);
  // In CTAs of four warps of 16 rows each: an SM runs as many more of fewer. Each begins anew.
  const double blocks = tiles * number(s.target.num_kv_heads) * chunks *
                        (rows > kLoneRows ? tile / (4.0 * kLoneRows) : 1.0);
  const double tile_steps =
      s.dense.method == AttentionMethod::kIndexer
          ? kSingleRows + kSingleLines * lines(s.target.head_dim, s.element_bytes)
          : 1.0;
  const double steps =
      tile_steps * flash_chunk_keys(keys) / kKeysPerStep + (rows > kLoneRows ? kFlashStart : 0.0);
  LaunchWork work = reloading(flash_kind(s.target, s.num_queries), Phase::kAttention, layers, t,
                              dense_term(s), tiles * dense_keys(s) * token_bytes(s), blocks, steps);
  work.reuse_distance = 0.0;  // tiles of the same keys are neighbours in the grid
  work.scattered = 1.0 + kScattered * (1.0 - dense_keys(s) / number(s.context_len));
  add_dense_launch(work, out);
  Traffic merged;
  merged.read(TrafficTerm::kScores, partials);
  add_dense_launch(streaming(LaunchKind::kFlashCombine, Phase::kAttention, layers, merged,
                             number(s.num_queries * s.target.num_heads), chunks),
                   out);
}

}  // namespace versieve
