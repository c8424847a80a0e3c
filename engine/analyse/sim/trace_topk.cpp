// topk: radix and gvr give a row to a cluster of CTAs (short rows: to one), which keep their shares
// in registers or read them again; the chosen scores are read once more, where their order is
// known. sort writes keys and indices, and orders them digit by digit.
#include "engine/analyse/sim/kernel_traces.h"

#include <algorithm>

#include "engine/analyse/sim/attention_access.h"
#include "engine/analyse/sim/l2_cache.h"
#include "engine/analyse/sim/row_trace.h"
#include "model/launches/topk.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kInt = 4;
constexpr std::int64_t kSamples = 512;      // scores that a guess looks at, and hints at most
constexpr std::int64_t kStepBytes = 32768;  // of a CTA's share
constexpr std::int64_t kSharingCtas = 132;  // more than that share SMs
constexpr std::int64_t kSharedHalf = 112 * 1024, kSharedWhole = 200 * 1024;
// Over scores that are not kept: the leading bits, the bits within the k-th's bin, the marks.
constexpr std::int64_t kRadixPasses = 3;

std::int64_t ceil_of(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

class SelectTrace final : public LaunchTrace {
 public:
  SelectTrace(const TopkLaunch& launch, const TopkLayout& layout, bool guesses)
      : LaunchTrace({.path = "topk",
                     .ctas = launch.rows * layout.cluster,
                     .cluster = layout.cluster,
                     .threads = kTopkThreads,
                     .registers = 64,
                     .shared_bytes =
                         launch.rows * layout.cluster > kSharingCtas ? kSharedHalf : kSharedWhole,
                     .steps_in_flight = 2.0}),
        l_(launch),
        cluster_(layout.cluster),
        guesses_(guesses),
        passes_(guesses || layout.registers ? 1 : kRadixPasses) {}

  bool append_step(std::int64_t cta, std::int64_t step, std::vector<Access>& out) const override;
  bool meets_cluster(std::int64_t /*cta*/, std::int64_t step) const override {
    return step == 1 + passes_ * pass_steps();
  }

 private:
  std::int64_t share() const { return ceil_of(l_.length, cluster_); }
  std::int64_t pass_steps() const { return ceil_of(share() * l_.element_bytes, kStepBytes); }
  std::uint64_t score_at(std::int64_t row, std::int64_t index) const {
    return l_.scores + static_cast<std::uint64_t>((row * l_.length + index) * l_.element_bytes);
  }
  // The i-th of `count` places in [first, end), scattered.
  static std::int64_t scattered(std::int64_t i, std::int64_t count, std::int64_t first,
                                std::int64_t end) {
    const std::int64_t width = std::max<std::int64_t>(1, (end - first) / count);
    const std::int64_t at = first + i * (end - first) / count;
    return at +
           static_cast<std::int64_t>(line_hash(static_cast<std::uint64_t>(at) + 1) >> 32) % width;
  }
  void append_guess(std::int64_t row, std::vector<Access>& out) const;
  void append_chosen(std::int64_t row, std::int64_t rank, std::vector<Access>& out) const;

  TopkLaunch l_;
  std::int64_t cluster_;
  bool guesses_;
  std::int64_t passes_;
};

void SelectTrace::append_guess(std::int64_t row, std::vector<Access>& out) const {
  for (std::int64_t i = 0; i < std::min(kSamples, l_.length); ++i) {
    append_read(score_at(row, scattered(i, std::min(kSamples, l_.length), 0, l_.length)),
                l_.element_bytes, out);
  }
  if (l_.hint != 0) {
    const std::int64_t hints = std::min(kSamples, l_.k);
    append_read(l_.hint + static_cast<std::uint64_t>(row * l_.k * kInt), l_.k * kInt, out);
    for (std::int64_t i = 0; i < hints; ++i) {
      append_read(score_at(row, scattered(i, hints, 0, l_.length)), l_.element_bytes, out);
    }
  }
}

// A CTA writes those of its own share; how many lie there is the mean.
void SelectTrace::append_chosen(std::int64_t row, std::int64_t rank,
                                std::vector<Access>& out) const {
  const std::int64_t first = rank * l_.k / cluster_;
  const std::int64_t count = (rank + 1) * l_.k / cluster_ - first;
  const std::int64_t begin = rank * share();
  const std::int64_t end = std::min(l_.length, begin + share());
  for (std::int64_t i = 0; i < count; ++i) {
    append_read(score_at(row, scattered(i, count, begin, end)), l_.element_bytes, out);
  }
  const std::int64_t at = row * l_.k + first;
  append_write(l_.indices + static_cast<std::uint64_t>(at * kInt), count * kInt, out);
  append_write(l_.values + static_cast<std::uint64_t>(at * l_.element_bytes),
               count * l_.element_bytes, out);
}

bool SelectTrace::append_step(std::int64_t cta, std::int64_t step, std::vector<Access>& out) const {
  const std::int64_t row = cta / cluster_;
  const std::int64_t rank = cta % cluster_;
  const std::int64_t end_of_passes = 1 + passes_ * pass_steps();
  if (step == 0) {
    if (guesses_) {
      append_guess(row, out);
    }
    return true;
  }
  if (step < end_of_passes) {
    const std::int64_t first = rank * share() * l_.element_bytes;
    const std::int64_t end =
        std::min(l_.length * l_.element_bytes, first + share() * l_.element_bytes);
    const std::int64_t from = first + (step - 1) % pass_steps() * kStepBytes;
    append_read(score_at(row, 0) + static_cast<std::uint64_t>(from),
                std::min(end, from + kStepBytes) - from, out);
    return true;
  }
  if (step == end_of_passes) {
    append_chosen(row, rank, out);
  }
  return step == end_of_passes;
}

constexpr std::int64_t kLongRow = 16384;  // longer ones get the whole device, one by one
constexpr std::int64_t kSortTile = 4096;  // scores of a CTA
constexpr std::int64_t kDigits = 4;       // of a pair's key, eight bits each

// Rows of `bytes` in and out by tiles, a CTA each.
std::unique_ptr<LaunchTrace> tiles(std::int64_t count, std::vector<RowTensor> reads,
                                   std::vector<RowTensor> writes) {
  const std::int64_t ctas = ceil_of(count, kSortTile);
  for (std::vector<RowTensor>* tensors : {&reads, &writes}) {
    for (RowTensor& tensor : *tensors) {
      tensor.stride = tensor.bytes * std::min(count, kSortTile);
      tensor.bytes = tensor.stride;
    }
  }
  return trace_rows(
      {.path = "topk", .rows = ctas, .reads = std::move(reads), .writes = std::move(writes)});
}

void append_sort(const TopkLaunch& l, LaunchSequence& out) {
  const std::int64_t count = l.rows * l.length;
  const std::int64_t e = l.element_bytes;
  std::uint64_t key = l.scratch;
  std::uint64_t index = key + static_cast<std::uint64_t>(count * e);
  std::uint64_t to_key = index + static_cast<std::uint64_t>(count * kInt);
  std::uint64_t to_index = to_key + static_cast<std::uint64_t>(count * e);
  out.push_back(tiles(count, {{l.scores, e}}, {{key, e}, {index, kInt}}));
  const std::int64_t sorts = l.length > kLongRow ? l.rows : 1;
  const std::int64_t each = count / sorts;
  for (std::int64_t row = 0; row < sorts; ++row) {
    std::uint64_t from[2] = {key + static_cast<std::uint64_t>(row * each * e),
                             index + static_cast<std::uint64_t>(row * each * kInt)};
    std::uint64_t to[2] = {to_key + static_cast<std::uint64_t>(row * each * e),
                           to_index + static_cast<std::uint64_t>(row * each * kInt)};
    out.push_back(tiles(each, {{from[0], e}}, {}));  // the digits' counts
    for (std::int64_t digit = 0; digit < kDigits * e / 4; ++digit) {
      out.push_back(tiles(each, {{from[0], e}, {from[1], kInt}}, {{to[0], e}, {to[1], kInt}}));
      std::swap(from[0], to[0]);
      std::swap(from[1], to[1]);
    }
  }
  const std::int64_t chosen = l.rows * l.k;
  out.push_back(tiles(chosen, {{to_index, kInt}}, {{index, kInt}}));
  out.push_back(tiles(chosen, {{index, kInt}, {l.scores, e}}, {{l.indices, kInt}, {l.values, e}}));
}

}  // namespace

void append_topk(const TopkLaunch& launch, TopkAlgorithm algorithm, LaunchSequence& out) {
  if (algorithm == TopkAlgorithm::kSort) {
    append_sort(launch, out);
    return;
  }
  const bool one_block = topk_takes_one_block(launch.length, launch.rows, launch.k);
  const bool guesses =
      algorithm == TopkAlgorithm::kGvr && !one_block && !topk_is_short(launch.length, launch.rows);
  const TopkLayout layout = one_block ? TopkLayout{.registers = true}
                                      : topk_layout({.length = launch.length,
                                                     .rows = launch.rows,
                                                     .element_bytes = launch.element_bytes,
                                                     .guesses = guesses});
  out.push_back(std::make_unique<SelectTrace>(launch, layout, guesses));
}

}  // namespace versieve::engine
