// The sweep that records what a replay of a table lacks. Grids go text by text, so that the tuples
// of one text follow one another and share its prefill.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/analyse/replay/cell.h"
#include "engine/analyse/replay/replay.h"

namespace versieve::engine {
namespace {

using nlohmann::ordered_json;

constexpr std::int64_t kRecordedPrompts = 3;  // of each regime and context

void add_missing(const PlanTable& table, const Walks& walks, std::int64_t bucket,
                 PrecisionClass precision, std::vector<Strategy>& out) {
  const Cell cell = cell_of(table, bucket, precision);
  if (!unplayable_because(table, bucket, precision, cell).empty()) {
    return;
  }
  const ContextBucket& range = table.buckets[static_cast<std::size_t>(bucket)];
  for (const Strategy& strategy :
       unrecorded(walks, walks.requests(range.low, range.high), cell.needed())) {
    const bool known = std::any_of(out.begin(), out.end(), [&](const Strategy& other) {
      return walk_key(other) == walk_key(strategy);
    });
    if (!known && can_be_recorded(strategy)) {
      out.push_back(Strategy::parse(walk_key(strategy)));
    }
  }
}

ordered_json grid_of(const Strategy& s, const std::string& regime, const std::string& split,
                     const ContextBucket& bucket) {
  const std::string text = s.text();  // nsa/draft/order/group/schedule
  std::vector<std::string> parts;
  for (std::size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = text.find('/', begin);
    parts.push_back(text.substr(begin, end - begin));
  }
  return {{"workload", "acceptance"}, {"regime", regime},
          {"split", split},           {"context_len", (bucket.low + bucket.high) / 2},
          {"dtype", "f32"},           {"draft", parts.at(1)},
          {"order", parts.at(2)},     {"group", parts.at(3)},
          {"schedule", parts.at(4)}};
}

}  // namespace

std::string sweep_of_missing_walks(const PlanTable& table, const Walks& walks,
                                   const std::string& split,
                                   const std::vector<std::string>& regimes) {
  ordered_json grids = ordered_json::array();
  for (std::size_t bucket = 0; bucket < table.buckets.size(); ++bucket) {
    std::vector<Strategy> missing;
    for (const PrecisionClass precision : table.classes) {
      add_missing(table, walks, static_cast<std::int64_t>(bucket), precision, missing);
    }
    for (const std::string& regime : regimes) {
      for (const Strategy& strategy : missing) {
        grids.push_back(grid_of(strategy, regime, split, table.buckets[bucket]));
      }
    }
  }
  if (grids.empty()) {
    return {};
  }
  const ordered_json sweep = {
      {"name", "walks-" + split}, {"prompts", kRecordedPrompts}, {"grids", grids}};
  return sweep.dump(1) + "\n";
}

}  // namespace versieve::engine
