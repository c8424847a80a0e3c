// resa_decode: a cluster a KV head. Its CTAs score a share of the block keys each, write the list
// of chosen blocks, attend chunks of it, one warp a chunk, and merge the chunks. block_keys: the
// newest block's rows in, its two keys out.
#include <algorithm>

#include "engine/analyse/sim/attention_access.h"
#include "engine/analyse/sim/dense_traces.h"
#include "engine/analyse/sim/row_trace.h"
#include "model/words/assert.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kFloat = 4;
constexpr std::int64_t kCluster = 16;
constexpr std::int64_t kThreads = 256;
constexpr std::int64_t kTeams = 4;           // warps of a CTA that attend
constexpr std::int64_t kSlots = 3;           // tiles of a team's ring
constexpr std::int64_t kTile = 64;           // tokens
constexpr std::int64_t kChunks = 64;         // of a list, at most
constexpr std::int64_t kRowsInFlight = 256;  // block keys that a CTA asks for together
constexpr std::int64_t kPiece = 16;          // elements of a row that a CTA merges together

std::int64_t ceil_of(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

class ResaTrace final : public LaunchTrace {
 public:
  explicit ResaTrace(const DenseCase& a)
      : LaunchTrace({.path = "resa_decode",
                     .ctas = kCluster * a.shape.num_kv_heads,
                     .cluster = kCluster,
                     .threads = kThreads,
                     .registers = a.shape.head_dim == 64 ? 128 : 255,
                     .shared_bytes = kTeams * kSlots * kTile * a.row_bytes(),
                     .steps_in_flight = 2.0}),
        a_(a),
        active_(static_cast<std::int64_t>(a.blocks.size()) / a.shape.num_kv_heads),
        free_(a.scored_blocks()),
        share_(ceil_of(free_, kCluster)) {
    tokens_ = listed_tokens(a_);
    chunk_ = std::max<std::int64_t>(1, ceil_of(tokens_, kTile * kChunks)) * kTile;
    chunks_ = ceil_of(tokens_, chunk_);
  }

  bool append_step(std::int64_t cta, std::int64_t step, std::vector<Access>& out) const override;
  bool meets_cluster(std::int64_t /*cta*/, std::int64_t step) const override {
    return step == first_attended() || step == first_attended() + attended_steps();
  }

 private:
  // Steps of all CTAs: scores, the list, tiles of a chunk, the merge.
  std::int64_t first_attended() const { return ceil_of(share_, kRowsInFlight) + 1; }
  std::int64_t attended_steps() const {
    return ceil_of(chunks_, kTeams * kCluster) * (chunk_ / kTile);
  }
  void append_scores(std::int64_t g, std::int64_t rank, std::int64_t step,
                     std::vector<Access>& out) const;
  void append_list(std::int64_t g, std::int64_t rank, std::vector<Access>& out) const;
  void append_tiles(std::int64_t g, std::int64_t rank, std::int64_t step,
                    std::vector<Access>& out) const;
  void append_partials(std::int64_t g, std::int64_t chunk, std::vector<Access>& out) const;
  void append_merge(std::int64_t g, std::int64_t rank, std::vector<Access>& out) const;
  void append_queries(std::int64_t g, std::vector<Access>& out) const {
    append_read(a_.at.q + static_cast<std::uint64_t>(g * a_.group_heads() * a_.row_bytes()),
                a_.group_heads() * a_.row_bytes(), out);
  }

  DenseCase a_;
  std::int64_t active_, free_, share_;  // blocks: attended, chosen from, a CTA's of those
  std::int64_t tokens_ = 0, chunk_ = kTile, chunks_ = 1;
};

void ResaTrace::append_scores(std::int64_t g, std::int64_t rank, std::int64_t step,
                              std::vector<Access>& out) const {
  const std::int64_t first = rank * share_ + step * kRowsInFlight;
  const std::int64_t end = std::min({free_, (rank + 1) * share_, first + kRowsInFlight});
  append_dense_rows(a_, a_.at.kmin, g, first, end - first, AccessKind::kBulkRead, out);
  append_dense_rows(a_, a_.at.kmax, g, first, end - first, AccessKind::kBulkRead, out);
  if (step == 0) {
    append_queries(g, out);
  }
}

// Each CTA writes those of its own share.
void ResaTrace::append_list(std::int64_t g, std::int64_t rank, std::vector<Access>& out) const {
  const auto begin = a_.blocks.begin() + g * active_;
  const auto from = std::lower_bound(begin, begin + active_, rank * share_);
  const auto to = rank + 1 == kCluster
                      ? begin + active_
                      : std::lower_bound(begin, begin + active_, (rank + 1) * share_);
  const std::int64_t at = g * a_.all_blocks() + (from - begin);
  append_write(a_.at.indices + static_cast<std::uint64_t>(at * 4), (to - from) * 4, out);
}

// A warp stores a sector of eight rows at a time; two
// neighbours leave together.
void ResaTrace::append_partials(std::int64_t g, std::int64_t chunk,
                                std::vector<Access>& out) const {
  const std::int64_t bytes = a_.shape.head_dim * kFloat;
  for (std::int64_t head = 0; head < a_.group_heads(); ++head) {
    const std::int64_t at = (g * a_.group_heads() + head) * kChunks + chunk;
    append_stored_pairs(a_.at.values + static_cast<std::uint64_t>(at * bytes), bytes, out);
    append_write(a_.at.states + static_cast<std::uint64_t>(at * 2 * kFloat), 2 * kFloat, out);
  }
}

void ResaTrace::append_tiles(std::int64_t g, std::int64_t rank, std::int64_t step,
                             std::vector<Access>& out) const {
  const std::int64_t teams = kTeams * kCluster;
  const std::int64_t chunk_tiles = chunk_ / kTile;
  for (std::int64_t warp = 0; warp < kTeams; ++warp) {
    const std::int64_t team = warp * kCluster + rank;
    const std::int64_t chunk = team * chunks_ / teams + step / chunk_tiles;
    const std::int64_t tile = chunk * chunk_tiles + step % chunk_tiles;
    if (chunk >= (team + 1) * chunks_ / teams || tile * kTile >= tokens_) {
      continue;
    }
    if (step == 0) {
      append_queries(g, out);
    }
    append_listed_tokens(a_, g, tile * kTile, std::min(tokens_, (tile + 1) * kTile),
                         AccessKind::kBulkRead, out);
    if (step % chunk_tiles + 1 == chunk_tiles || (tile + 1) * kTile >= tokens_) {
      append_partials(g, chunk, out);
    }
  }
}

void ResaTrace::append_merge(std::int64_t g, std::int64_t rank, std::vector<Access>& out) const {
  const std::int64_t pieces = a_.shape.head_dim / kPiece;
  for (std::int64_t unit = rank; unit < a_.group_heads() * pieces; unit += kCluster) {
    const std::int64_t row = g * a_.group_heads() + unit / pieces;
    const std::int64_t first = row * kChunks;
    const std::int64_t element = unit % pieces * kPiece;
    out.push_back({.address = a_.at.values + static_cast<std::uint64_t>(
                                                 (first * a_.shape.head_dim + element) * kFloat),
                   .bytes = kPiece * kFloat,
                   .count = static_cast<std::uint32_t>(chunks_),
                   .stride = static_cast<std::uint64_t>(a_.shape.head_dim * kFloat)});
    append_read(a_.at.states + static_cast<std::uint64_t>(first * 2 * kFloat), chunks_ * 2 * kFloat,
                out);
    append_write(
        a_.at.out + static_cast<std::uint64_t>(row * a_.row_bytes() + element * a_.element_bytes),
        kPiece * a_.element_bytes, out);
  }
}

bool ResaTrace::append_step(std::int64_t cta, std::int64_t step, std::vector<Access>& out) const {
  const std::int64_t g = cta / kCluster;
  const std::int64_t rank = cta % kCluster;
  const std::int64_t merge = first_attended() + attended_steps();
  if (step + 1 < first_attended()) {
    append_scores(g, rank, step, out);
  } else if (step + 1 == first_attended()) {
    append_list(g, rank, out);
  } else if (step < merge) {
    append_tiles(g, rank, step - first_attended(), out);
  } else if (step == merge) {
    append_merge(g, rank, out);
  }
  return step <= merge;
}

}  // namespace

std::unique_ptr<LaunchTrace> trace_resa_decode(const DenseCase& a) {
  VERSIEVE_ASSERT(a.num_queries() == 1 && a.key_block > 0 && !a.blocks.empty(),
                  "one query attends chosen blocks");
  return std::make_unique<ResaTrace>(a);
}

std::int64_t listed_tokens(const DenseCase& a) {
  const std::int64_t blocks = ceil_of(a.context_len + 1, a.key_block);
  const std::int64_t active = static_cast<std::int64_t>(a.blocks.size()) / a.shape.num_kv_heads;
  return active * a.key_block - (blocks * a.key_block - a.context_len - 1);
}

void append_listed_tokens(const DenseCase& a, std::int64_t g, std::int64_t first, std::int64_t end,
                          AccessKind kind, std::vector<Access>& out) {
  const std::int64_t block = a.key_block;
  const std::int64_t active = static_cast<std::int64_t>(a.blocks.size()) / a.shape.num_kv_heads;
  const std::int64_t row = ceil_of(a.context_len + 1, block);  // of the lists
  append_read(a.at.indices + static_cast<std::uint64_t>((g * row + first / block) * 4),
              (ceil_of(end, block) - first / block) * 4, out);
  for (const std::uint64_t cache : {a.at.k, a.at.v}) {
    for (std::int64_t token = first; token < end;) {
      const std::int64_t listed = a.blocks[static_cast<std::size_t>(g * active + token / block)];
      const std::int64_t place = listed * block + token % block;
      const std::int64_t count = std::min(end - token, block - token % block);
      append_dense_rows(a, cache, g, place, std::min(count, a.context_len - place), kind, out);
      token += count;
    }
    if (end == listed_tokens(a)) {
      append_dense_rows(a, cache == a.at.k ? a.at.k_tree : a.at.v_tree, g, 0, 1, AccessKind::kRead,
                        out);
    }
  }
}

void append_block_keys(const DenseCase& a, RowLaunch& out) {
  const std::int64_t block = (a.context_len - 1) / a.key_block;
  const std::int64_t width = a.token_bytes();
  out.reads.push_back({a.at.k + static_cast<std::uint64_t>(block * a.key_block * width),
                       (a.context_len - block * a.key_block) * width, 0});
  for (const std::uint64_t keys : {a.at.kmin, a.at.kmax}) {
    out.writes.push_back({keys + static_cast<std::uint64_t>(block * width), width, 0});
  }
}

std::unique_ptr<LaunchTrace> trace_block_keys(const DenseCase& a) {
  RowLaunch launch{.path = "block_keys"};
  append_block_keys(a, launch);
  return trace_rows(launch);
}

}  // namespace versieve::engine
