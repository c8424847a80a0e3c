#include "model/launches/system_work.h"

#include <algorithm>
#include <cmath>

#include "model/launches/launch_parts.h"
#include "model/launches/op_traffic.h"
#include "model/launches/topk_layout.h"

namespace versieve {
namespace {

constexpr double kDenseChunk = 128.0, kMostChunks = 128.0;
constexpr double kTileKeys = 64.0;
constexpr double kLoneRows = 16.0;     // rows of one warp
constexpr double kSharedRows = 128.0;  // rows of a CTA that shares its tiles of keys
constexpr double kFlashStart = 1.5;    // tiles of keys
// Chosen tokens lie in pieces: one chunk of 16 in twenty is read at half of a stream's rate, two in
// three at 0.87 of it.
constexpr double kScattered = 0.95;
constexpr double kScoresPerStep = 1024.0;
constexpr double kResaClusters = 16.0;  // blocks of a KV head
constexpr double kResaKeysPerStep = 4096.0;
constexpr std::int64_t kFewestBlocks = 16;  // n_min of resa_decode
constexpr double kMostTopPCtas = 16.0;      // of a row's cluster
constexpr double kTopPWeights = 4096.0;     // a CTA's, if there are more CTAs than one
constexpr double kTopPExchange = 0.46;      // of sums, and by twice as many CTAs, in such parts
constexpr double kTopPSteps = 4.0;          // of all halvings over such a part
constexpr double kFloat = 4.0;
constexpr std::int64_t kSortBlocks = 132;  // of CUB's segmented sort at once

double token_bytes(const StepShape& s) {
  return number(2 * s.target.num_kv_heads * s.target.head_dim * s.element_bytes);
}

bool chooses(const StepShape& s) {
  return s.dense.method == AttentionMethod::kSpecAttn;
}

double keys_of(const StepShape& s) {
  return chooses(s) ? std::min(s.dense.chosen_tokens, number(s.context_len))
                    : number(s.context_len);
}

Traffic read_traffic(const StepShape& s) {
  return traffic::tree_attention(
      {.num_heads = s.target.num_heads,
       .num_kv_heads = s.target.num_kv_heads,
       .head_dim = s.target.head_dim,
       .context_len = std::llround(keys_of(s)),
       .num_queries = s.num_queries,
       .num_nodes = s.num_queries,
       .element_bytes = s.element_bytes,
       .cache_term = chooses(s) ? TrafficTerm::kSelectedBlocks : TrafficTerm::kWindow});
}

void add_layer(LaunchWork work, StepWork& out) {
  work.layer = LayerKind::kRefresh;
  work.dependent = true;
  out.add(work);
}

// Query rows of a KV head go through tiles of 16, 32, 64 or 128, padded; a tile's CTAs take a chunk
// of keys each.
void add_flash(const StepShape& s, double layers, StepWork& out) {
  const double keys = keys_of(s) + number(s.num_queries);
  const double group = number(s.target.num_heads / s.target.num_kv_heads);
  const double rows = number(s.num_queries) * group;
  double tile = kLoneRows;
  while (tile < rows && tile < kSharedRows) {
    tile *= 2.0;
  }
  const double tiles = std::ceil(rows / tile);
  const double chunks = flash_chunks(keys);
  const double partials =
      number(s.num_queries * s.target.num_heads * (s.target.head_dim + 2)) * chunks * kFloat;
  Traffic t = read_traffic(s);
  t.flops *= tiles * tile / rows;
  t.write(TrafficTerm::kScores, partials);
  const TrafficTerm cached = chooses(s) ? TrafficTerm::kSelectedBlocks : TrafficTerm::kWindow;
  // In CTAs of four warps of 16 rows each: an SM runs as many more of fewer. Each begins anew.
  const double blocks = tiles * number(s.target.num_kv_heads) * chunks *
                        (rows > kLoneRows ? tile / (4.0 * kLoneRows) : 1.0);
  const double steps = flash_chunk_keys(keys) / kTileKeys + (rows > kLoneRows ? kFlashStart : 0.0);
  LaunchWork work = reloading(flash_kind(s.target, s.num_queries), Phase::kAttention, layers, t,
                              cached, tiles * keys_of(s) * token_bytes(s), blocks, steps);
  work.reuse_distance = 0.0;  // tiles of the same keys are neighbours in the grid
  work.scattered = 1.0 + kScattered * (1.0 - keys_of(s) / number(s.context_len));
  add_layer(work, out);
  Traffic merged;
  merged.read(TrafficTerm::kScores, partials);
  add_layer(streaming(LaunchKind::kFlashCombine, Phase::kAttention, layers, merged,
                      number(s.num_queries * s.target.num_heads), chunks),
            out);
}

// Scoring of the block keys, selection and attention over the chosen blocks in one launch; the keys
// of the block that the step's token lies in are kept beside.
void add_resa(const StepShape& s, double layers, StepWork& out) {
  const std::int64_t b = s.dense.key_block;
  const std::int64_t blocks = s.context_len / b + 1;
  const std::int64_t active = resa_active_blocks(s.context_len, b, s.dense.active_ratio);
  const Traffic t = traffic::resa_decode({.num_heads = s.target.num_heads,
                                          .num_kv_heads = s.target.num_kv_heads,
                                          .head_dim = s.target.head_dim,
                                          .context_len = s.context_len,
                                          .key_block = b,
                                          .blocks = blocks,
                                          .active_blocks = active,
                                          .element_bytes = s.element_bytes});
  add_layer(streaming(LaunchKind::kResaDecode, Phase::kAttention, layers, t,
                      number(s.target.num_kv_heads) * kResaClusters,
                      number(blocks) / kScoresPerStep + number(active * b) / kResaKeysPerStep),
            out);
  const std::int64_t of_launch = s.dense.whole_step ? std::llround(layers) : 1;
  add_layer(streaming(LaunchKind::kBlockKeys, Phase::kAttention,
                      layers / number(std::max<std::int64_t>(1, of_launch)),
                      traffic::block_keys(of_launch, 1, std::llround(s.dense.filled),
                                          s.target.kv_width(), s.element_bytes),
                      number(of_launch * s.target.kv_width()) / kElementsPerBlock, s.dense.filled),
            out);
}

// Which tokens carry the share p of the draft's attention: a cluster a row, whose CTAs go over
// their parts of it and exchange sums, once a halving (kernels/top_p).
void add_choice(const StepShape& s, double layers, StepWork& out) {
  double ctas = 1.0;
  while (ctas < kMostTopPCtas && ctas * kTopPWeights < number(s.context_len)) {
    ctas *= 2.0;
  }
  const double steps = number(s.context_len) / ctas / kTopPWeights +
                       (ctas > 1.0 ? kTopPExchange * (1.0 + std::log2(ctas)) : 0.0);
  add_layer(streaming(LaunchKind::kTopP, Phase::kAttention, layers,
                      traffic::top_p(s.dense.weight_rows, s.context_len),
                      number(s.dense.weight_rows) * ctas, kTopPSteps * steps),
            out);
}

// The first two layers read everything; the others what a draft of one layer attended to, whose
// weights are kept for each of its steps (engine/run/specattn).
void add_chosen_step(const StepShape& s, double layers, StepWork& out) {
  const double whole = std::min(2.0, layers);
  // The draft's own attention leaves every head's weights behind; a launch takes their mean.
  Traffic weights;
  weights.read(TrafficTerm::kScores, number(s.target.num_heads * s.context_len) * 4.0);
  weights.write(TrafficTerm::kScores, number(s.context_len) * 4.0);
  out.add(streaming(LaunchKind::kAttentionWeights, Phase::kDraft, number(s.dense.weight_rows),
                    weights, number(s.context_len * s.target.num_heads) / kElementsPerBlock, 1.0));
  add_choice(s, 1.0, out);
  StepShape dense = s;
  dense.dense.method = AttentionMethod::kDense;
  add_flash(dense, whole, out);
  add_flash(s, layers - whole, out);
}

void read_cold(bool cold, LaunchWork& work) {
  work.handover_distance = cold ? 1e18 : work.handover_distance;
}

LaunchKind kind_of(TopkAlgorithm algorithm) {
  switch (algorithm) {
    case TopkAlgorithm::kSort:
      return LaunchKind::kTopkSort;
    case TopkAlgorithm::kRadix:
      return LaunchKind::kTopkRadix;
    case TopkAlgorithm::kGvr:
      break;
  }
  return LaunchKind::kTopkGvr;
}

// Clusters of that many blocks on an H200 at once: two small ones to an SM; of its 132 SMs 16 to 18
// are neighbours, which large ones need.
double resident_clusters(int blocks) {
  switch (blocks) {
    case 8:
      return 15.0;
    case 16:
      return 8.0;
    default:
      return std::floor(264.0 / blocks);
  }
}

// Waves of clusters, each as long as its blocks' shares, meetings and results; in shares of 1,024
// scores. The second wave begins while the first ends. Fitted to 60 points.
void lay_out_select(const TopkRows& rows, std::int64_t k, LaunchWork& work) {
  struct Weights {
    double meeting, result, wave;
  };
  const Weights w = rows.guesses ? Weights{0.0, 22.0, 0.9} : Weights{2.0, 1.15, 0.6};
  // Rows that do not stay in registers are read again: by radix for each digit, by gvr where a
  // guess failed.
  constexpr double kRadixPasses = 3.2, kGvrPasses = 1.2;
  constexpr double kStreamed = 1.6;  // of a score, against one kept in registers
  const TopkLayout layout = topk_layout(rows);
  const double share = number(rows.length) / (1024.0 * layout.cluster) *
                       (rows.guesses || layout.registers ? 1.0 : kStreamed);
  const double waves = std::ceil(number(rows.rows) / resident_clusters(layout.cluster));
  work.steps = (1.0 + (waves - 1.0) * w.wave) *
               (share + w.meeting * std::sqrt(layout.cluster) + w.result * number(k) / 1024.0);
  work.passes = rows.guesses ? kGvrPasses : layout.registers ? 1.0 : kRadixPasses;
}

// CUB sorts short rows together, a block each, and long ones one after the other; keys and indices
// are written, read and written again in their order (kernels/topk/sort.cu).
void lay_out_sort(std::int64_t length, std::int64_t rows, LaunchWork& work) {
  constexpr std::int64_t kLongRow = 16384;
  constexpr double kScoresOfBlock = 6144.0;  // sorted alone in the time of one long row
  constexpr double kPairBytes = 8.0;
  const double scores = number(length * rows);
  work.steps = length > kLongRow
                   ? number(rows)
                   : number(length) / kScoresOfBlock + number(rows) / number(kSortBlocks);
  // Counted as passes over the scores: the launch's floor is to read them once.
  work.passes = 1.0 + 3.0 * kPairBytes * scores / std::max(1.0, work.unique.total_read());
  work.working_set = work.unique.total() + 3.0 * kPairBytes * scores;
}

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

std::int64_t resa_active_blocks(std::int64_t context_len, std::int64_t key_block,
                                double active_ratio) {
  const std::int64_t blocks = context_len / key_block + 1;
  const double wanted = std::ceil(number(blocks) * active_ratio - 1e-9);
  return std::min(blocks, std::max(kFewestBlocks, static_cast<std::int64_t>(wanted)));
}

void add_dense_attention(const StepShape& s, double layers, StepWork& out) {
  switch (s.dense.method) {
    case AttentionMethod::kResa:
      add_resa(s, layers, out);
      return;
    case AttentionMethod::kSpecAttn:
      if (s.dense.whole_step) {
        add_chosen_step(s, layers, out);
        return;
      }
      add_choice(s, layers, out);
      break;
    case AttentionMethod::kDense:
    case AttentionMethod::kNsa:
      break;
  }
  add_flash(s, layers, out);
}

void add_topk(const TopkCase& c, std::int64_t length, std::int64_t rows, std::int64_t element_bytes,
              bool cold, StepWork& out) {
  const bool is_short = c.algorithm == TopkAlgorithm::kGvr && topk_is_short(length, rows);
  const LaunchKind kind = is_short ? LaunchKind::kTopkRadix : kind_of(c.algorithm);
  LaunchWork work =
      streaming(kind, Phase::kOther, 1.0,
                traffic::topk(rows, length, c.k, element_bytes, c.hint ? c.k : 0), 1.0, 1.0);
  read_cold(cold, work);
  if (kind == LaunchKind::kTopkSort) {
    lay_out_sort(length, rows, work);
  } else {
    lay_out_select({.length = length,
                    .rows = rows,
                    .element_bytes = element_bytes,
                    .guesses = kind == LaunchKind::kTopkGvr},
                   c.k, work);
  }
  out.add(work);
}

}  // namespace versieve
