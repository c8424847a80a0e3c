#include <algorithm>

#include "engine/analyse/sim/dense_traces.h"
#include "model/launches/dense_pass.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kFloat = 4;
constexpr std::int64_t kThreads = 384;             // two warpgroups that multiply, one that copies
constexpr std::int64_t kSharedBytes = 226 * 1024;  // an SM's own
constexpr std::int64_t kMergeRows = 4;             // of a CTA, a warp each
constexpr double kTileCycles = 1100.0;             // of 128 rows against 128 keys, d = 64
constexpr double kRingTiles = 6.0;                 // of keys and values that are under way

std::int64_t whole(std::int64_t count, std::int64_t of) {
  return (count + of - 1) / of;
}

DensePassCut cut_of(const DenseCase& a) {
  return dense_pass_cut(a.shape.num_heads, a.shape.num_kv_heads, a.num_queries(),
                        a.context_len + a.num_queries());
}

// Grid: block of 128 query rows x KV head x split of the keys, whose tiles a ring of copies brings.
class PassTrace final : public LaunchTrace {
 public:
  PassTrace(const DenseCase& a, const DensePassCut& cut)
      : LaunchTrace({.path = "dense_pass",
                     .ctas = cut.row_blocks * a.shape.num_kv_heads * cut.splits,
                     .threads = kThreads,
                     .registers = 168,
                     .shared_bytes = kSharedBytes,
                     .step_cycles = kTileCycles * static_cast<double>(a.shape.head_dim) / 64.0,
                     .steps_in_flight = kRingTiles}),
        a_(a),
        cut_(cut) {}

  bool append_step(std::int64_t cta, std::int64_t step, std::vector<Access>& out) const override;

 private:
  std::int64_t cache_tiles() const { return whole(a_.context_len, kPassKeys); }
  // The chain's tiles that the block's queries see.
  std::int64_t tiles_of(std::int64_t block) const {
    const std::int64_t queries =
        std::min(a_.num_queries(), whole((block + 1) * kPassRows, a_.group_heads()));
    return cache_tiles() + whole(queries, kPassKeys);
  }
  // `bytes` of each of the block's rows, `row` apart in [N, H, ...].
  void append_rows(std::uint64_t tensor, std::int64_t block, std::int64_t g, std::int64_t at,
                   std::int64_t bytes, std::int64_t row, AccessKind kind,
                   std::vector<Access>& out) const;

  DenseCase a_;
  DensePassCut cut_;
};

void PassTrace::append_rows(std::uint64_t tensor, std::int64_t block, std::int64_t g,
                            std::int64_t at, std::int64_t bytes, std::int64_t row, AccessKind kind,
                            std::vector<Access>& out) const {
  const std::int64_t group = a_.group_heads();
  const std::int64_t first = block * kPassRows / group;
  const std::int64_t end = std::min(a_.num_queries(), (block + 1) * kPassRows / group);
  for (std::int64_t head = 0; head < group; ++head) {
    const std::int64_t from = first * a_.shape.num_heads + g * group + head;
    out.push_back({.address = tensor + static_cast<std::uint64_t>(from * row + at),
                   .bytes = static_cast<std::uint32_t>(bytes),
                   .count = static_cast<std::uint32_t>(end - first),
                   .stride = static_cast<std::uint64_t>(a_.shape.num_heads * row),
                   .kind = kind});
  }
}

bool PassTrace::append_step(std::int64_t cta, std::int64_t step, std::vector<Access>& out) const {
  const std::int64_t block = cta % cut_.row_blocks;
  const std::int64_t g = cta / cut_.row_blocks % a_.shape.num_kv_heads;
  const std::int64_t split = cta / cut_.row_blocks / a_.shape.num_kv_heads;
  const std::int64_t tiles = tiles_of(block);
  const std::int64_t tile = split * tiles / cut_.splits + step - 1;
  const std::int64_t end = (split + 1) * tiles / cut_.splits;
  if (step == 0) {
    append_rows(a_.at.q, block, g, 0, a_.row_bytes(), a_.row_bytes(), AccessKind::kRead, out);
    return true;
  }
  if (tile < end) {
    const bool cached = tile < cache_tiles();
    const std::int64_t first = (cached ? tile : tile - cache_tiles()) * kPassKeys;
    const std::int64_t count =
        std::min(kPassKeys, (cached ? a_.context_len : a_.num_queries()) - first);
    for (const std::uint64_t cache :
         {cached ? a_.at.k : a_.at.k_tree, cached ? a_.at.v : a_.at.v_tree}) {
      append_dense_rows(a_, cache, g, first, count, AccessKind::kBulkRead, out);
    }
    return true;
  }
  if (tile > end) {
    return false;
  }
  const std::int64_t value = a_.shape.head_dim * kFloat;
  append_rows(a_.at.values, block, g, split * value, value, cut_.splits * value, AccessKind::kWrite,
              out);
  append_rows(a_.at.states, block, g, split * 2 * kFloat, 2 * kFloat, cut_.splits * 2 * kFloat,
              AccessKind::kWrite, out);
  return true;
}

}  // namespace

void append_dense_pass(const DenseCase& a, LaunchSequence& out) {
  const DensePassCut cut = cut_of(a);
  out.push_back(std::make_unique<PassTrace>(a, cut));
  const std::int64_t rows = a.num_queries() * a.shape.num_heads;
  const std::int64_t values = kMergeRows * cut.splits * a.shape.head_dim * kFloat;
  const std::int64_t states = kMergeRows * cut.splits * 2 * kFloat;
  const std::int64_t merged = kMergeRows * a.row_bytes();
  out.push_back(trace_rows({.path = "dense_pass_merge",
                            .rows = whole(rows, kMergeRows),
                            .threads = 32 * kMergeRows,
                            .reads = {{a.at.values, values, values}, {a.at.states, states, states}},
                            .writes = {{a.at.out, merged, merged}}}));
}

}  // namespace versieve::engine
