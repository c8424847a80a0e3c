// flash_decode: a CTA (block of query rows, KV head, split) reads its share of the shared keys in
// tiles of 64 and keeps a partial result of each row at each chunk's end; a tree's first CTAs take
// the ends of paths, a warp a query. flash_combine: a CTA a row merges the chunks; of weights that
// are kept further ones make the mean over heads.
#include "engine/analyse/sim/dense_traces.h"

#include <algorithm>
#include <limits>

#include "engine/analyse/sim/attention_access.h"
#include "model/launches/flash_decode.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kFloat = 4;
constexpr std::int64_t kTile = 64;         // keys
constexpr std::int64_t kChunk = 128;       // keys, the fewest of a chunk
constexpr std::int64_t kMostChunks = 128;  // of a row
constexpr std::int64_t kRun = 16;          // listed tokens that one copy brings
constexpr std::int64_t kSliceQueries = 128;
constexpr std::int64_t kCombineParts = 8;  // of a row that is merged
constexpr std::int64_t kRegisters = 128;
constexpr std::int64_t kAnyEnd = std::numeric_limits<std::int64_t>::max();
constexpr double kTileCycles = 300.0;  // of 16 rows' products with a tile

std::int64_t chunk_keys(std::int64_t keys) {
  return static_cast<std::int64_t>(flash_chunk_keys(static_cast<double>(keys)));
}

std::int64_t ceil_of(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// How a launch is cut (kernels/flash_decode/launch.cu).
struct FlashCut {
  std::int64_t warps = 1, row_tiles = 1, slots = 3;
  std::int64_t first_query = 0, queries = 1;  // of the slice
  std::int64_t row_blocks = 1, splits = 1, path_blocks = 0;

  std::int64_t rows() const { return warps * row_tiles * 16; }  // of a CTA
  std::int64_t teams() const { return warps == 1 ? 1 : 2; }     // that attend paths
};

FlashCut flash_cut(const DenseCase& a, std::int64_t first_query) {
  FlashCut cut{.first_query = first_query,
               .queries = std::min(kSliceQueries, a.num_queries() - first_query)};
  const std::int64_t rows = cut.queries * a.group_heads();
  if (rows > 16) {
    cut.slots = 4;
    const bool tall = rows > 64 && a.shape.head_dim == 64;
    cut.row_tiles = tall ? 2 : 1;
    cut.warps = rows <= 32 ? 2 : rows <= 64 || tall ? 4 : 8;
  }
  cut.row_blocks = ceil_of(rows, cut.rows());
  cut.splits = std::min(kMostChunks, ceil_of(a.bound_keys() + a.num_queries(), kChunk));
  cut.path_blocks = a.tree ? ceil_of(cut.queries, cut.row_blocks * cut.teams()) : 0;
  return cut;
}

LaunchShape flash_shape(const DenseCase& a, const FlashCut& cut) {
  const double cycles = kTileCycles * static_cast<double>(cut.row_tiles * a.shape.head_dim) / 64.0;
  return {.path = "flash_decode",
          .ctas = cut.row_blocks * a.shape.num_kv_heads * (cut.path_blocks + cut.splits),
          .threads = 32 * cut.warps,
          .registers = kRegisters,
          .shared_bytes = cut.slots * kTile * a.row_bytes(),
          .step_cycles = cycles,
          .issue_cycles = cycles * static_cast<double>(cut.warps) / 4.0,
          .steps_in_flight = static_cast<double>(cut.slots) / 2.0};
}

class FlashTrace final : public LaunchTrace {
 public:
  FlashTrace(const DenseCase& a, const FlashCut& cut)
      : LaunchTrace(flash_shape(a, cut)), a_(a), cut_(cut) {}

  bool append_step(std::int64_t cta, std::int64_t step, std::vector<Access>& out) const override;

 private:
  // A team's share of the keys, in tiles.
  struct Span {
    std::int64_t unit = kChunk;        // keys of a partial result
    std::int64_t first = 0, last = 0;  // units
    std::int64_t keys_end = 0;

    std::int64_t first_tile() const { return first * (unit / kTile); }
    std::int64_t tiles() const {
      return std::max<std::int64_t>(
          0, std::min(last * (unit / kTile), ceil_of(keys_end, kTile)) - first_tile());
    }
  };
  Span split_span(std::int64_t row_block, std::int64_t split) const;
  Span path_span(std::int64_t query) const;
  void append_queries(std::int64_t g, std::int64_t first_row, std::int64_t rows,
                      std::vector<Access>& out) const;
  void append_tile(std::int64_t g, std::int64_t tile, std::int64_t keys_end, std::int64_t query,
                   std::vector<Access>& out) const;
  void append_listed(std::int64_t g, std::int64_t tile, std::vector<Access>& out) const;
  void append_kept(std::int64_t g, std::int64_t tile, std::vector<Access>& out) const;
  void append_partials(std::int64_t g, std::int64_t first_row, std::int64_t rows, std::int64_t unit,
                       bool last, std::int64_t length, std::int64_t whole_end,
                       std::vector<Access>& out) const;
  // Whether a team's step `step` exists; appends it.
  bool append_split(std::int64_t row_block, std::int64_t g, std::int64_t split, std::int64_t step,
                    std::vector<Access>& out) const;
  bool append_path(std::int64_t query, std::int64_t g, std::int64_t step,
                   std::vector<Access>& out) const;
  std::int64_t chunks() const {  // room of a row
    return a_.num_queries() > 1 ? kMostChunks
                                : std::min(kMostChunks, ceil_of(a_.bound_keys() + 1, kChunk));
  }

  DenseCase a_;
  FlashCut cut_;
};

// A chain's rows see all keys up to their own node; a tree's the whole chunks before the tree.
FlashTrace::Span FlashTrace::split_span(std::int64_t row_block, std::int64_t split) const {
  const std::int64_t known = a_.shared_keys();
  const std::int64_t oldest = cut_.first_query + row_block * cut_.rows() / a_.group_heads();
  const std::int64_t newest =
      cut_.first_query +
      std::min(cut_.queries - 1, ((row_block + 1) * cut_.rows() - 1) / a_.group_heads());
  const std::int64_t most = known + (a_.tree ? a_.num_queries() : newest + 1);
  Span span{.unit = chunk_keys(known + 1 + (a_.tree ? 0 : oldest))};
  span.keys_end = a_.tree ? known / span.unit * span.unit : most;
  const std::int64_t stride = most > kMostChunks * span.unit ? 2 : 1;
  const std::int64_t parts = ceil_of(span.keys_end, stride * span.unit);
  span.first = split * parts / cut_.splits * stride;
  span.last = (split + 1) * parts / cut_.splits * stride;
  return span;
}

FlashTrace::Span FlashTrace::path_span(std::int64_t query) const {
  const std::int64_t keys = a_.keys_of(query);
  const std::int64_t chunk = chunk_keys(keys);
  return {.unit = chunk,
          .first = a_.shared_keys() / chunk,
          .last = ceil_of(keys, chunk),
          .keys_end = keys};
}

void FlashTrace::append_queries(std::int64_t g, std::int64_t first_row, std::int64_t rows,
                                std::vector<Access>& out) const {
  const std::int64_t group = a_.group_heads();
  const std::int64_t first = first_row / group;
  const std::int64_t end = std::min(cut_.queries, ceil_of(first_row + rows, group));
  out.push_back(
      {.address = a_.at.q + static_cast<std::uint64_t>(
                                ((cut_.first_query + first) * a_.shape.num_heads + g * group) *
                                a_.row_bytes()),
       .bytes = static_cast<std::uint32_t>(group * a_.row_bytes()),
       .count = static_cast<std::uint32_t>(end - first),
       .stride = static_cast<std::uint64_t>(a_.shape.num_heads * a_.row_bytes())});
}

// Whole runs of sixteen by one copy, other tokens each by its own.
void FlashTrace::append_listed(std::int64_t g, std::int64_t tile, std::vector<Access>& out) const {
  const std::int64_t end = std::min(a_.shared_keys(), (tile + 1) * kTile);
  append_read(a_.at.tokens + static_cast<std::uint64_t>(tile * kTile * 4), (end - tile * kTile) * 4,
              out);
  for (const std::uint64_t cache : {a_.at.k, a_.at.v}) {
    for (std::int64_t place = tile * kTile; place < end;) {
      const std::int64_t token = a_.tokens[static_cast<std::size_t>(place)];
      std::int64_t count = 1;
      while (place + count < end && count < kRun &&
             a_.tokens[static_cast<std::size_t>(place + count)] == token + count) {
        ++count;
      }
      append_dense_rows(a_, cache, g, token, count, AccessKind::kBulkRead, out);
      place += count;
    }
  }
}

void FlashTrace::append_tile(std::int64_t g, std::int64_t tile, std::int64_t keys_end,
                             std::int64_t query, std::vector<Access>& out) const {
  const std::int64_t shared = a_.shared_keys();
  if (a_.listed) {
    append_listed(g, tile, out);
  } else {
    const std::int64_t count = std::min(kTile, shared - tile * kTile);
    append_dense_rows(a_, a_.at.k, g, tile * kTile, count, AccessKind::kBulkRead, out);
    append_dense_rows(a_, a_.at.v, g, tile * kTile, count, AccessKind::kBulkRead, out);
  }
  // Nodes are put in by hand: a chain's in order, of a tree those of the query's path.
  const std::int64_t from = std::max(shared, tile * kTile);
  const std::int64_t end = std::min(keys_end, (tile + 1) * kTile);
  for (std::int64_t place = from; place < end; ++place) {
    std::int64_t node = place - shared;
    if (a_.tree) {
      node = query;
      for (std::int64_t up = keys_end - 1 - place; up > 0; --up) {
        node = a_.parent[static_cast<std::size_t>(node)];
      }
    }
    append_dense_rows(a_, a_.at.k_tree, g, node, 1, AccessKind::kRead, out);
    append_dense_rows(a_, a_.at.v_tree, g, node, 1, AccessKind::kRead, out);
  }
}

// The newest query's weights of a tile: its heads' rows by sectors, and what they are measured
// from.
void FlashTrace::append_kept(std::int64_t g, std::int64_t tile, std::vector<Access>& out) const {
  for (std::int64_t head = g * a_.group_heads(); head < (g + 1) * a_.group_heads(); ++head) {
    const std::int64_t first = head * a_.captured_keys() + tile * kTile;
    append_sectors(a_.at.capture + static_cast<std::uint64_t>(first * kFloat), kTile * kFloat,
                   AccessKind::kWrite, out);
    append_write(a_.at.capture_tops + static_cast<std::uint64_t>(first / kTile * kFloat), kFloat,
                 out);
  }
}

// Of chunks that end by `whole_end`. A warp stores eight sectors of a row at a time, a sector a
// row.
void FlashTrace::append_partials(std::int64_t g, std::int64_t first_row, std::int64_t rows,
                                 std::int64_t unit, bool last, std::int64_t length,
                                 std::int64_t whole_end, std::vector<Access>& out) const {
  const std::int64_t group = a_.group_heads();
  const std::int64_t bytes = a_.shape.head_dim * kFloat;
  for (std::int64_t r = first_row; r < first_row + rows; ++r) {
    const std::int64_t query = r / group;
    if (query >= cut_.queries) {
      return;
    }
    const std::int64_t keys = a_.keys_of(cut_.first_query + query);
    const bool wide = keys > kMostChunks * length;
    const std::int64_t chunk = wide ? unit / 2 : unit;
    // Chunks of two units end with the second.
    const std::int64_t own = wide ? 2 * length : length;
    if (chunk * own >= keys || (wide && unit % 2 == 0 && !last) || (chunk + 1) * own > whole_end) {
      continue;
    }
    const std::int64_t at = (query * a_.shape.num_heads + g * group + r % group) * chunks() + chunk;
    append_stored_pairs(a_.at.values + static_cast<std::uint64_t>(at * bytes), bytes, out);
    append_write(a_.at.states + static_cast<std::uint64_t>(at * 2 * kFloat), 2 * kFloat, out);
  }
}

bool FlashTrace::append_split(std::int64_t row_block, std::int64_t g, std::int64_t split,
                              std::int64_t step, std::vector<Access>& out) const {
  const Span span = split_span(row_block, split);
  const std::int64_t first_row = row_block * cut_.rows();
  if (step == 0) {
    if (span.tiles() > 0) {
      append_queries(g, first_row, cut_.rows(), out);
    }
    return true;
  }
  if (step > span.tiles()) {
    return false;
  }
  const std::int64_t tile = span.first_tile() + step - 1;
  append_tile(g, tile, span.keys_end, 0, out);
  if (a_.captures) {
    append_kept(g, tile, out);
  }
  const std::int64_t unit_tiles = span.unit / kTile;
  if ((tile + 1) % unit_tiles == 0 || step == span.tiles()) {
    append_partials(g, first_row, cut_.rows(), tile / unit_tiles, step == span.tiles(), span.unit,
                    a_.tree ? span.keys_end : kAnyEnd, out);
  }
  return true;
}

bool FlashTrace::append_path(std::int64_t query, std::int64_t g, std::int64_t step,
                             std::vector<Access>& out) const {
  const Span span = path_span(cut_.first_query + query);
  if (step == 0) {
    append_queries(g, query * a_.group_heads(), a_.group_heads(), out);
    append_read(a_.at.position + static_cast<std::uint64_t>(query * 4), 4, out);
    append_read(a_.at.parent, a_.num_queries() * 4, out);
    return true;
  }
  if (step > span.tiles()) {
    return false;
  }
  const std::int64_t tile = span.first_tile() + step - 1;
  append_tile(g, tile, span.keys_end, cut_.first_query + query, out);
  const std::int64_t unit_tiles = span.unit / kTile;
  if ((tile + 1) % unit_tiles == 0 || step == span.tiles()) {
    append_partials(g, query * a_.group_heads(), a_.group_heads(), tile / unit_tiles,
                    step == span.tiles(), span.unit, kAnyEnd, out);
  }
  return true;
}

bool FlashTrace::append_step(std::int64_t cta, std::int64_t step, std::vector<Access>& out) const {
  const std::int64_t x = cta % cut_.row_blocks;
  const std::int64_t g = cta / cut_.row_blocks % a_.shape.num_kv_heads;
  const std::int64_t z = cta / cut_.row_blocks / a_.shape.num_kv_heads;
  if (z >= cut_.path_blocks) {
    return append_split(x, g, z - cut_.path_blocks, step, out);
  }
  bool any = false;
  for (std::int64_t team = 0; team < cut_.teams(); ++team) {
    const std::int64_t query = (z * cut_.row_blocks + x) * cut_.teams() + team;
    any = (query < cut_.queries && append_path(query, g, step, out)) || any;
  }
  return any;
}

// A CTA a query row; where the newest query's weights are kept, further ones behind them for their
// mean over heads (kernels/flash_decode/capture.cuh), a position a thread.
class CombineTrace final : public LaunchTrace {
 public:
  CombineTrace(const DenseCase& a, const FlashCut& cut)
      : LaunchTrace(
            {.path = "flash_combine",
             .ctas =
                 cut.queries * a.shape.num_heads +
                 (a.captures ? ceil_of(a.captured_keys(), kCombineParts * a.shape.head_dim) : 0),
             .threads = kCombineParts * a.shape.head_dim,
             .registers = 40,
             .shared_bytes = 5 * 1024}),
        a_(a),
        cut_(cut),
        rows_(cut.queries * a.shape.num_heads) {}

  bool append_step(std::int64_t row, std::int64_t step, std::vector<Access>& out) const override {
    if (row >= rows_) {
      return append_mean(row - rows_, step, out);
    }
    const std::int64_t keys = a_.keys_of(cut_.first_query + row / a_.shape.num_heads);
    const std::int64_t chunks = ceil_of(keys, chunk_keys(keys));
    const std::int64_t bytes = a_.shape.head_dim * kFloat;
    if (step == 0) {
      append_read(a_.at.values + static_cast<std::uint64_t>(row * room() * bytes), chunks * bytes,
                  out);
      append_states(row, chunks, out);
      return true;
    }
    if (step == 1) {
      const std::int64_t at = cut_.first_query * a_.shape.num_heads + row;
      append_write(a_.at.out + static_cast<std::uint64_t>(at * a_.row_bytes()), a_.row_bytes(),
                   out);
    }
    return step == 1;
  }

 private:
  // Chunks of a row that there is room for.
  std::int64_t room() const {
    return a_.num_queries() > 1 ? kMostChunks
                                : std::min(kMostChunks, ceil_of(a_.bound_keys() + 1, kChunk));
  }
  void append_states(std::int64_t row, std::int64_t chunks, std::vector<Access>& out) const {
    append_read(a_.at.states + static_cast<std::uint64_t>(row * room() * 2 * kFloat),
                chunks * 2 * kFloat, out);
  }
  bool append_mean(std::int64_t block, std::int64_t step, std::vector<Access>& out) const;

  DenseCase a_;
  FlashCut cut_;
  std::int64_t rows_;
};

// The heads' sums from their chunks' and the tiles' maxima; the weights; their mean.
bool CombineTrace::append_mean(std::int64_t block, std::int64_t step,
                               std::vector<Access>& out) const {
  const std::int64_t positions = kCombineParts * a_.shape.head_dim;
  const std::int64_t keys = a_.keys_of(a_.num_queries() - 1);
  const std::int64_t first = block * positions;
  if (first >= keys) {
    return false;
  }
  const std::int64_t count = std::min(positions, keys - first);
  const std::int64_t chunks = ceil_of(keys, chunk_keys(keys));
  for (std::int64_t h = 0; step < 2 && h < a_.shape.num_heads; ++h) {
    const std::int64_t at = h * a_.captured_keys() + first;
    if (step == 0) {
      append_states(rows_ - a_.shape.num_heads + h, chunks, out);
      append_read(a_.at.capture_tops + static_cast<std::uint64_t>(at / kCapturedTile * kFloat),
                  ceil_of(count, kCapturedTile) * kFloat, out);
    } else {
      append_read(a_.at.capture + static_cast<std::uint64_t>(at * kFloat), count * kFloat, out);
    }
  }
  if (step == 2) {
    append_write(a_.at.weights + static_cast<std::uint64_t>(first * kFloat), count * kFloat, out);
  }
  return step <= 2;
}

}  // namespace

void append_flash_decode(const DenseCase& a, LaunchSequence& out) {
  for (std::int64_t first = 0; first < a.num_queries(); first += kSliceQueries) {
    const FlashCut cut = flash_cut(a, first);
    out.push_back(std::make_unique<FlashTrace>(a, cut));
    out.push_back(std::make_unique<CombineTrace>(a, cut));
  }
}

}  // namespace versieve::engine
