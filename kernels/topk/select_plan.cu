// How rows are laid over the chip and how much room a block's list gets. Host code only; it is
// compiled with the kernels because it counts their shared memory.
#include "kernels/topk/select_plan.cuh"

#include <algorithm>

#include "model/launches/topk.h"

namespace versieve::kernels {
namespace {

static_assert(kSelectThreads == kTopkThreads && kMaxCluster == kMostTopkBlocks);

// Positions of the row that needs most: its first score may lie behind a 16-byte boundary.
template <class T>
std::int64_t most_words(const TopkParams<T>& p) {
  const std::int64_t word = 16 / static_cast<std::int64_t>(sizeof(T));
  const bool aligned = p.length % word == 0 && reinterpret_cast<std::uintptr_t>(p.scores) % 16 == 0;
  return (p.length + (aligned ? 0 : word - 1) + word - 1) / word;
}

constexpr std::int64_t kMostMapWords = 8192;     // positions of a block: 262,144
constexpr std::int64_t kSharedBlocks = 132;      // more blocks than that share SMs
constexpr std::int64_t kHalfBytes = 112 * 1024;  // shared memory of a block that shares its SM
constexpr std::int64_t kWholeBytes = 200 * 1024;

// A block's share of a row in positions.
template <class T>
std::int64_t share_of(const TopkParams<T>& p, int cluster) {
  const std::int64_t word = 16 / static_cast<std::int64_t>(sizeof(T));
  return (most_words(p) + cluster - 1) / cluster * word;
}

// Entries for which a block has shared memory beside its maps.
template <class T>
std::int64_t most_list_room(const TopkParams<T>& p, int cluster) {
  const std::int64_t bytes = p.rows * cluster > kSharedBlocks ? kHalfBytes : kWholeBytes;
  const std::int64_t maps = (share_of(p, cluster) + 31) / 32 * 8;
  return (bytes - static_cast<std::int64_t>(sizeof(SelectShared)) - maps) / 8;
}

// Scores that the sample's threshold admits, and its spread on top.
template <class T>
std::int64_t admitted_scores(const TopkParams<T>& p) {
  return 5 * (sample_ranks(p.length, p.k).safe * p.length / kSampleCount) / 2;
}

// Room for what a guess lets through, should most of it lie in one block: scores worth choosing lie
// together. 0 where k is too much for it.
template <class T>
std::int64_t list_room(const TopkParams<T>& p, int cluster) {
  const std::int64_t most = most_list_room(p, cluster);
  if (p.k >= p.length || 3 * p.k / 2 > most) {
    return 0;
  }
  const std::int64_t room = std::max({std::int64_t{4096}, 2 * p.k, admitted_scores(p)}) + 512;
  return std::min(most, room) / 64 * 64;
}

}  // namespace

template <class T>
SelectPlan select_plan(const TopkParams<T>& p, const SelectShape& shape) {
  SelectPlan plan;
  plan.map_words = static_cast<int>((share_of(p, shape.cluster) + 31) / 32);
  if (p.variant == TopkVariant::kGvr) {
    plan.list_room = static_cast<int>(list_room(p, shape.cluster));
    plan.sample = plan.list_room > 0 ? sample_ranks(p.length, p.k) : SampleRanks{};
    plan.looks_at_all = p.k <= kSelectThreads;
  }
  return plan;
}

template <class T>
bool select_fits(const TopkParams<T>& p, const SelectShape& shape) {
  const std::int64_t word = 16 / static_cast<std::int64_t>(sizeof(T));
  const bool known = (shape.items == 8 || shape.items == 16 || shape.items == 32 ||
                      (shape.items == 4 && word == 4)) &&
                     (shape.cluster == 1 || shape.cluster == 2 || shape.cluster == 4 ||
                      shape.cluster == 8 || shape.cluster == 16);
  const std::int64_t positions = shape.cluster * kMostMapWords * 32;
  return known && most_words(p) <= positions / word - shape.cluster && p.length <= kSelectScores &&
         p.rows <= (std::int64_t{1} << 31) / 16 - 1;
}

template <class T>
bool select_takes(const TopkParams<T>& p) {
  return select_fits(p, select_shape(p));
}

// model/launches/topk.h, and more blocks where a guess lets through more than their lists
// hold.
template <class T>
SelectShape select_shape(const TopkParams<T>& p) {
  const bool guesses = p.variant == TopkVariant::kGvr;
  const TopkLayout layout = topk_layout(
      {.length = p.length, .rows = p.rows, .element_bytes = sizeof(T), .guesses = guesses});
  int cluster = layout.cluster;
  while (guesses && p.k < p.length && cluster < kMaxCluster &&
         admitted_scores(p) / cluster > most_list_room(p, cluster)) {
    cluster *= 2;
  }
  int items = layout.least_items;
  while (items < layout.most_items && std::int64_t{cluster} * items * kSelectThreads < p.length) {
    items *= 2;
  }
  return {cluster, items};
}

template <class T>
std::size_t select_shared_bytes(const TopkParams<T>& p, const SelectShape& shape) {
  const SelectPlan plan = select_plan(p, shape);
  return select_shared_bytes(plan.map_words, plan.list_room);
}

#define VERSIEVE_INSTANTIATE(T)                                                 \
  template SelectPlan select_plan<T>(const TopkParams<T>&, const SelectShape&); \
  template bool select_fits<T>(const TopkParams<T>&, const SelectShape&);       \
  template bool select_takes<T>(const TopkParams<T>&);                          \
  template SelectShape select_shape<T>(const TopkParams<T>&);                   \
  template std::size_t select_shared_bytes<T>(const TopkParams<T>&, const SelectShape&);
VERSIEVE_INSTANTIATE(float)
VERSIEVE_INSTANTIATE(Bf16)
#undef VERSIEVE_INSTANTIATE

}  // namespace versieve::kernels
