#include "engine/measure/sweep/traced_step.h"

#include <algorithm>
#include <map>
#include <string>

#include "model/words/assert.h"

namespace versieve::engine {
namespace {

using profiler::TracedWork;
using Sequence = std::vector<const TracedWork*>;

std::map<std::int64_t, Sequence> by_turn(const std::vector<TracedWork>& runs) {
  std::map<std::int64_t, Sequence> turns;
  for (const TracedWork& work : runs) {
    if (work.turn >= 0) {
      turns[work.turn].push_back(&work);
    }
  }
  return turns;
}

std::uint64_t first_start(const Sequence& works) {
  std::uint64_t first = works.front()->start_ns;
  for (const TracedWork* work : works) {
    first = std::min(first, work->start_ns);
  }
  return first;
}

// For each of `works` its partner in a longest common subsequence of kernel names, or null.
Sequence aligned(const Sequence& works, const Sequence& led) {
  const std::size_t rows = works.size();
  const std::size_t columns = led.size();
  // [i][j]: the longest of what follows works[i] and led[j].
  std::vector<std::vector<std::int32_t>> longest(rows + 1,
                                                 std::vector<std::int32_t>(columns + 1, 0));
  for (std::size_t i = rows; i-- > 0;) {
    for (std::size_t j = columns; j-- > 0;) {
      longest[i][j] = works[i]->kernel == led[j]->kernel
                          ? longest[i + 1][j + 1] + 1
                          : std::max(longest[i + 1][j], longest[i][j + 1]);
    }
  }
  Sequence partners(rows, nullptr);
  for (std::size_t i = 0, j = 0; i < rows && j < columns;) {
    if (works[i]->kernel == led[j]->kernel) {
      partners[i++] = led[j++];
    } else if (longest[i + 1][j] > longest[i][j + 1]) {
      ++i;
    } else {
      ++j;
    }
  }
  return partners;
}

// Kernels whose launches all lie in one range; copies and memsets are everywhere.
std::map<std::string, std::string> ranges_by_kernel(const Sequence& led) {
  std::map<std::string, std::string> ranges;
  std::map<std::string, bool> is_torn;
  for (const TracedWork* work : led) {
    if (work->blocks == 0) {
      continue;
    }
    const auto [found, is_new] = ranges.emplace(work->kernel, work->range);
    is_torn[work->kernel] |= !is_new && found->second != work->range;
  }
  std::erase_if(ranges,
                [&](const auto& entry) { return entry.second.empty() || is_torn.at(entry.first); });
  return ranges;
}

// The range of a launch and how it is known.
std::pair<std::string, RangeEvidence> range_of(const TracedWork& work, const TracedWork* partner,
                                               const std::map<std::string, std::string>& by_name) {
  if (!work.range.empty()) {
    return {work.range, RangeEvidence::kLaunched};
  }
  if (work.graph_node == 0) {  // outside of every range, as it was launched
    return {"", RangeEvidence::kUnknown};
  }
  if (partner != nullptr && !partner->range.empty()) {
    return {partner->range, RangeEvidence::kOrder};
  }
  const auto named = by_name.find(work.kernel);
  if (named != by_name.end()) {
    return {named->second, RangeEvidence::kName};
  }
  return {"", RangeEvidence::kUnknown};
}

const Sequence* shortest_between(const std::map<std::int64_t, Sequence>& turns,
                                 const Sequence** behind) {
  const Sequence* best = nullptr;
  for (auto turn = std::next(turns.begin()); std::next(turn) != turns.end(); ++turn) {
    if (best == nullptr || turn->second.size() < best->size()) {
      best = &turn->second;
      *behind = &std::next(turn)->second;
    }
  }
  return best;
}

}  // namespace

std::optional<StepTrace> traced_step(const std::vector<TracedWork>& runs,
                                     const std::vector<TracedWork>& led) {
  const std::map<std::int64_t, Sequence> turns = by_turn(runs);
  if (turns.size() < 3) {
    return std::nullopt;
  }
  const Sequence* behind = nullptr;
  const Sequence& step = *shortest_between(turns, &behind);
  Sequence reference;
  for (const TracedWork& work : led) {
    reference.push_back(&work);
  }
  const Sequence partners = aligned(step, reference);
  const std::map<std::string, std::string> by_name = ranges_by_kernel(reference);
  const std::uint64_t begin = first_start(step);
  StepTrace trace;
  const std::uint64_t next = first_start(*behind);
  if (next > begin) {
    trace.period_ns = static_cast<double>(next - begin);
  }
  for (std::size_t i = 0; i < step.size(); ++i) {
    const TracedWork& work = *step[i];
    trace.replayed |= work.graph_node != 0;
    const auto [range, evidence] = range_of(work, partners[i], by_name);
    trace.launches.push_back({.kernel = work.kernel,
                              .range = range,
                              .evidence = evidence,
                              .start_ns = static_cast<std::int64_t>(work.start_ns - begin),
                              .duration_ns = static_cast<std::int64_t>(work.end_ns - work.start_ns),
                              .stream = work.stream,
                              .blocks = work.blocks,
                              .threads = work.threads});
  }
  std::stable_sort(
      trace.launches.begin(), trace.launches.end(),
      [](const TracedLaunch& a, const TracedLaunch& b) { return a.start_ns < b.start_ns; });
  return trace;
}

void add_block_statistics(const StepResult& step, PointMeasurement& point) {
  point.unique_blocks = 0.0;
  for (const BlockStatistics& layer : step.blocks) {
    const double share = 1.0 / static_cast<double>(step.blocks.size());
    *point.unique_blocks += share * layer.unique_blocks;
    if (layer.adjacent_overlap) {
      point.adjacent_overlap =
          point.adjacent_overlap.value_or(0.0) + share * *layer.adjacent_overlap;
    }
  }
}

std::optional<BlockChoice> block_choice(const StepResult& step, const Strategy& strategy,
                                        std::int64_t kv_heads) {
  const std::int64_t nodes = step.tree.size();
  const std::int64_t layers = std::ssize(step.selected);
  if (nodes < 2 || layers == 0) {
    return std::nullopt;
  }
  const std::string schedule = strategy.schedule_for(layers);
  const std::size_t own = schedule.find('F', static_cast<std::size_t>(layers) / 2);
  BlockChoice choice{.layer = own == std::string::npos ? 0 : static_cast<std::int64_t>(own),
                     .kv_head = 0,
                     .parent = step.tree.parent,
                     .blocks = {}};
  const std::vector<std::int32_t>& selected = step.selected[static_cast<std::size_t>(choice.layer)];
  VERSIEVE_ASSERT(std::ssize(selected) % (nodes * kv_heads) == 0, "every node and head has a row");
  const std::ptrdiff_t count = std::ssize(selected) / (nodes * kv_heads);
  for (std::int64_t node = 0; node < nodes; ++node) {
    const auto first = selected.begin() + node * kv_heads * count;
    std::vector<std::int32_t>& blocks = choice.blocks.emplace_back(first, first + count);
    std::erase(blocks, -1);
    std::sort(blocks.begin(), blocks.end());
  }
  return choice;
}

}  // namespace versieve::engine
