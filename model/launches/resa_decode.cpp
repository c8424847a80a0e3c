#include "model/launches/resa_decode.h"

#include <algorithm>
#include <cmath>

#include "model/launches/flash_decode.h"
#include "model/launches/launch_parts.h"
#include "model/launches/step_shape.h"

namespace versieve {
namespace {

constexpr double kCluster = 16.0;       // thread blocks of a KV head
constexpr double kRowsPerStep = 64.0;   // of block keys, that a thread block scores together
constexpr double kDigits = 512.0;       // bins of a pass of the selection
constexpr double kListedChunks = 64.0;  // of a KV head's chosen tokens, in tiles of 64
constexpr double kTileKeys = 64.0;
// The vanilla form: its scoring's grid at most, rows whose loads fly together, bins of its
// selection.
constexpr double kScoreBlocks = 528.0, kScoreThreads = 256.0, kScoreRows = 4.0;
constexpr double kSelectThreads = 1024.0, kSelectDigits = 2048.0;
// A head whose cut shares its digit with other scores takes a pass more, and the slowest head is
// the launch: the likelier, the more blocks are chosen (h100-terms.db, NVIDIA H100, 2026-11-27: 3
// of 36 launches of up to 26 chosen blocks, 10 of 20 of up to 99, 24 of 28 of up to 210, 28 of 28
// beyond).
constexpr double kSelectAgain = 0.35;    // of such a pass, in passes over all digits
constexpr double kChosenOfAgain = 70.0;  // that make it likely
constexpr double kLoadBytes = 16.0;      // of a lane
constexpr double kChunkStart = 1.0;  // of an attending block, before and after, in chunks of keys

}  // namespace

std::int64_t resa_active_blocks(std::int64_t context_len, std::int64_t key_block,
                                double active_ratio, std::int64_t n_min, std::int64_t n_local) {
  const std::int64_t blocks = context_len / key_block + 1;
  const double wanted = std::ceil(number(blocks) * active_ratio - 1e-9);
  return std::min(blocks, std::max({n_min, n_local, static_cast<std::int64_t>(wanted)}));
}

std::int64_t resa_active_blocks(std::int64_t context_len, const Strategy& s) {
  return resa_active_blocks(context_len, s.resa_key_block, s.resa_active_ratio, s.resa_n_min,
                            s.resa_n_local);
}

double resa_attended_ratio(std::int64_t context_len, const DenseRead& read) {
  if (read.n_min == kResaFewestBlocks && read.n_local == kResaLocalBlocks) {
    return read.active_ratio;
  }
  const std::int64_t chosen =
      resa_active_blocks(context_len, read.key_block, read.active_ratio, read.n_min, read.n_local);
  return number(chosen) / number(context_len / read.key_block + 1);
}

namespace traffic {
namespace {

constexpr double kScoreBytes = 4.0;

// Bytes of a key and a value, or of a block's two keys, in all KV heads.
double resa_pair(const ResaShape& s) {
  return static_cast<double>(2 * s.num_kv_heads * s.head_dim * s.element_bytes);
}

// Blocks that are scored: the newest ones are chosen whatever their keys say.
double scored_blocks(const ResaShape& s) {
  return static_cast<double>(s.blocks - std::min(s.blocks, s.local_blocks));
}

double resa_query_bytes(const ResaShape& s) {
  return static_cast<double>(s.num_heads * s.head_dim * s.element_bytes);
}

}  // namespace

Traffic resa_score(const ResaShape& s) {
  const double blocks = scored_blocks(s);
  Traffic t;
  t.read(TrafficTerm::kCompressedCache, blocks * resa_pair(s));
  t.read(TrafficTerm::kQueryOutput, resa_query_bytes(s));
  t.write(TrafficTerm::kScores, blocks * static_cast<double>(s.num_kv_heads) * kScoreBytes);
  t.flops = 3.0 * blocks * static_cast<double>(s.num_kv_heads * s.head_dim);
  return t;
}

Traffic resa_select(const ResaShape& s) {
  const double heads = static_cast<double>(s.num_kv_heads);
  Traffic t;
  t.read(TrafficTerm::kScores, scored_blocks(s) * heads * kScoreBytes);
  t.write(TrafficTerm::kScores, static_cast<double>(s.active_blocks) * heads * kScoreBytes);
  return t;
}

Traffic resa_attend(const ResaShape& s) {
  const double tokens = static_cast<double>(std::min(s.context_len, s.active_blocks * s.key_block));
  Traffic t;
  t.read(TrafficTerm::kSelectedBlocks, tokens * resa_pair(s));
  t.read(TrafficTerm::kQueryOutput, resa_query_bytes(s));
  t.write(TrafficTerm::kQueryOutput, resa_query_bytes(s));
  t.flops = 4.0 * static_cast<double>(s.num_heads * s.head_dim) * tokens;
  return t;
}

Traffic resa_partials(const ResaShape& s, std::int64_t chunks, bool written) {
  const double bytes = static_cast<double>(s.num_heads * chunks * (s.head_dim + 2)) * kScoreBytes;
  Traffic t;
  written ? t.write(TrafficTerm::kScores, bytes) : t.read(TrafficTerm::kScores, bytes);
  return t;
}

Traffic resa_decode(const ResaShape& s) {
  Traffic t = resa_score(s);
  t += resa_select(s);
  t += resa_attend(s);
  return t;
}

Traffic rectify(const ResaShape& s, std::int64_t tokens) {
  const double pair = static_cast<double>(2 * s.num_kv_heads * s.head_dim * s.element_bytes);
  const double queries = static_cast<double>(tokens * s.num_heads * s.head_dim);
  Traffic t;
  t.read(TrafficTerm::kWindow, static_cast<double>(s.context_len) * pair);
  t.read(TrafficTerm::kQueryOutput, queries * static_cast<double>(s.element_bytes));
  t.write(TrafficTerm::kQueryOutput, queries * static_cast<double>(s.element_bytes));
  t.write(TrafficTerm::kKvAppend, static_cast<double>(tokens) * pair);
  t.flops = 4.0 * queries * static_cast<double>(s.context_len);
  return t;
}

}  // namespace traffic

namespace {

traffic::ResaShape resa_shape(const StepShape& s) {
  const std::int64_t b = s.dense.key_block;
  return {.num_heads = s.target.num_heads,
          .num_kv_heads = s.target.num_kv_heads,
          .head_dim = s.target.head_dim,
          .context_len = s.context_len,
          .key_block = b,
          .blocks = s.context_len / b + 1,
          .local_blocks = s.dense.n_local,
          .active_blocks = resa_active_blocks(s.context_len, b, s.dense.active_ratio, s.dense.n_min,
                                              s.dense.n_local),
          .element_bytes = s.element_bytes};
}

// A phase of the fused launch, which a cluster of thread blocks runs for each KV head. Phases are
// parted by barriers, so that none hides another, and each begins with an empty queue.
LaunchWork phase(LaunchKind kind, double layers, const Traffic& t, const traffic::ResaShape& r,
                 double steps) {
  LaunchWork work =
      streaming(kind, Phase::kAttention, layers, t, number(r.num_kv_heads) * kCluster, steps);
  work.layer = LayerKind::kRefresh;
  work.is_phase = true;
  work.repeated = 1.0;
  work.order = LatencyOrder::kBefore;
  return work;
}

void add_fused(const traffic::ResaShape& r, double repeated, double layers, StepWork& out) {
  const double wide = lines(r.head_dim, r.element_bytes);
  out.add(phase(LaunchKind::kResaDecodeScore, layers, traffic::resa_score(r), r,
                std::ceil(number(r.blocks) / kCluster / kRowsPerStep) * wide));
  LaunchWork select = phase(LaunchKind::kResaDecodeSelect, layers, traffic::resa_select(r), r, 1.0);
  // Passes over digits, in each of which the cluster meets: more of more scores.
  select.rounds = at_least_one(std::log(number(r.blocks)) / std::log(kDigits));
  out.add(select);
  const double tokens = number(r.active_blocks * r.key_block);
  LaunchWork attend = phase(LaunchKind::kResaDecode, layers, traffic::resa_attend(r), r,
                            std::ceil(tokens / (kListedChunks * kTileKeys)) * wide);
  attend.rounds = wide;  // queries in, results out
  attend.is_phase = false;
  add_dense_launch(attend, out, repeated);
}

// A launch of the vanilla form. Each reads what the one before has written, once.
LaunchWork vanilla(LaunchKind kind, double layers, const Traffic& t, double blocks, double steps,
                   double rounds) {
  LaunchWork work = streaming(kind, Phase::kAttention, layers, t, blocks, steps);
  work.order = LatencyOrder::kBefore;
  work.rounds = rounds;
  return work;
}

void add_vanilla(const traffic::ResaShape& r, double repeated, double layers, StepWork& out) {
  const double heads = number(r.num_kv_heads), wide = lines(r.head_dim, r.element_bytes);
  // Every block works out the mean queries of all KV heads, then goes over its rows.
  const double means = heads * number(r.head_dim) / kScoreThreads;
  const double rows = kScoreThreads * kLoadBytes / number(r.head_dim * r.element_bytes);
  const double grid = std::min(kScoreBlocks, std::ceil(number(r.blocks) * heads / rows));
  add_dense_launch(vanilla(LaunchKind::kResaScore, layers, traffic::resa_score(r), grid, means,
                           at_least_one(number(r.blocks) * heads / (rows * grid * kScoreRows))),
                   out);
  add_dense_launch(
      vanilla(LaunchKind::kResaSelect, layers, traffic::resa_select(r), heads,
              std::ceil(number(r.blocks) / kSelectThreads),
              std::log(number(r.blocks)) / std::log(kSelectDigits) +
                  kSelectAgain * (1.0 - std::exp(-number(r.active_blocks) / kChosenOfAgain))),
      out);
  const double tokens = number(r.active_blocks * r.key_block);
  const std::int64_t chunks = std::llround(flash_chunks(tokens));
  Traffic attend = traffic::resa_attend(r);
  attend += traffic::resa_partials(r, chunks, true);
  LaunchWork attending = vanilla(LaunchKind::kResaAttend, layers, attend, heads * number(chunks),
                                 flash_chunk_keys(tokens) / kKeysPerStep + kChunkStart, wide);
  add_dense_launch(attending, out, repeated);
  add_dense_launch(
      vanilla(LaunchKind::kResaCombine, layers, traffic::resa_partials(r, chunks, false),
              number(r.num_heads), number(chunks), wide),
      out);
}

}  // namespace

void add_resa_decode(const StepShape& s, double layers, StepWork& out) {
  (s.dense.vanilla ? add_vanilla : add_fused)(resa_shape(s), s.dense.repeated, layers, out);
}

}  // namespace versieve
