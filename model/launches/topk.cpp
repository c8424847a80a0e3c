#include "model/launches/topk.h"

#include <algorithm>
#include <cmath>

#include "model/launches/index_scores.h"
#include "model/launches/launch_parts.h"

namespace versieve {
namespace {

constexpr std::int64_t kSortBlocks = 132;  // of CUB's segmented sort at once

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

// A block a row: two passes over its registers, whatever they hold.
void lay_out_block(const TopkRows& rows, LaunchWork& work) {
  constexpr double kThreadsOfBlock = 1024.0;
  constexpr double kBlocksAtOnce = 132.0;
  work.steps = std::ceil(number(rows.rows) / kBlocksAtOnce) *
               std::ceil(number(rows.length) / kThreadsOfBlock / 8.0);
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

TopkLayout topk_layout(const TopkRows& p) {
  constexpr std::int64_t kMostBlocks = 512;  // of radix rows in registers
  const bool wide = p.element_bytes == 4;
  TopkLayout out;
  out.least_items = wide ? 4 : 8;
  out.most_items = p.guesses && wide ? 16 : 32;
  int cluster = 1;
  const auto fits_registers = [&] {
    return p.length <= std::int64_t{cluster} * out.most_items * kTopkThreads;
  };
  const auto share = [&] { return p.length / cluster; };
  while (!p.guesses && cluster < kMostTopkBlocks && !fits_registers()) {
    cluster *= 2;
  }
  if (p.rows * cluster > kMostBlocks) {
    cluster = 1;  // streams
  }
  while (cluster < 8 && ((p.rows * cluster * 2 <= 64 && share() > (p.guesses ? 4096 : 2048)) ||
                         (!p.guesses && p.rows * cluster * 2 <= 128 && share() > 8192))) {
    cluster *= 2;
  }
  if (!p.guesses && cluster == 8 && p.rows <= 2 && share() > 8192) {
    cluster = 16;
  }
  while (cluster < kMostTopkBlocks && (share() > 131072 || (cluster == 1 && share() > 65536))) {
    cluster *= 2;
  }
  out.cluster = cluster;
  out.registers = !p.guesses && fits_registers();
  return out;
}

bool topk_is_short(std::int64_t length, std::int64_t rows) {
  constexpr std::int64_t kShortRow = 16384;
  constexpr std::int64_t kShortRowOfFew = 32768;
  constexpr std::int64_t kFewRows = 32;
  return length <= kShortRow || (length <= kShortRowOfFew && rows <= kFewRows);
}

bool topk_takes_one_block(std::int64_t length, std::int64_t rows, std::int64_t k) {
  constexpr std::int64_t kOneBlock = 8192, kWideBlock = 16384;
  constexpr std::int64_t kManyRows = 32;
  const std::int64_t large = rows >= kManyRows ? 16 : 8;  // the part of a row that k is
  return length <= kOneBlock || (length <= kWideBlock && large * k >= length);
}

namespace traffic {

Traffic topk(std::int64_t rows, std::int64_t length, std::int64_t k, std::int64_t element_bytes,
             std::int64_t hints) {
  return moved(TrafficTerm::kScores, rows * (length * element_bytes + hints * kF32Bytes),
               rows * k * (element_bytes + kF32Bytes), 0.0);
}

}  // namespace traffic

void add_topk(const TopkCase& c, std::int64_t length, std::int64_t rows, std::int64_t element_bytes,
              bool cold, StepWork& out) {
  if (c.index) {
    add_index_scores(rows, length, *c.index, element_bytes, 1.0, out);
  }
  LaunchKind kind = kind_of(c.algorithm);
  if (kind == LaunchKind::kTopkGvr && topk_is_short(length, rows)) {
    kind = LaunchKind::kTopkRadix;
  }
  if (kind != LaunchKind::kTopkSort && topk_takes_one_block(length, rows, c.k)) {
    kind = LaunchKind::kTopkShort;
  }
  // Where rows are short nobody looks at a hint.
  const std::int64_t hints = kind == LaunchKind::kTopkGvr && c.hint ? c.k : 0;
  LaunchWork work = streaming(kind, Phase::kOther, 1.0,
                              traffic::topk(rows, length, c.k, element_bytes, hints), 1.0, 1.0);
  read_cold(cold && !c.index, work);
  const TopkRows shape{.length = length,
                       .rows = rows,
                       .element_bytes = element_bytes,
                       .guesses = kind == LaunchKind::kTopkGvr};
  if (kind == LaunchKind::kTopkSort) {
    lay_out_sort(length, rows, work);
  } else if (kind == LaunchKind::kTopkShort) {
    lay_out_block(shape, work);
  } else {
    lay_out_select(shape, c.k, work);
  }
  out.add(work);
}

}  // namespace versieve
