// Figures of what queries' selections share: by layer, by distance, by order and group.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>

#include "engine/analyse/figures/figure.h"

namespace versieve::engine {
namespace {

using Json = nlohmann::ordered_json;
using Points = std::vector<const PointMeasurement*>;

constexpr const char* kNotRecorded =
    "no point of the pair recorded what its queries share by layer: versieve profile --model "
    "FOLDER --sweep pair does";

// The mean of what is known; null if nothing is.
class Mean {
 public:
  void add(const std::optional<double>& value) {
    if (value) {
      sum_ += *value;
      count_ += 1.0;
    }
  }
  Json json() const { return count_ > 0.0 ? Json(sum_ / count_) : Json(); }

 private:
  double sum_ = 0.0, count_ = 0.0;
};

// Trees whose queries choose for themselves in all layers.
Points recorded(const FiguresInput& input) {
  Points points;
  for (const PointMeasurement& m : input.acceptance) {
    const Strategy s = Strategy::parse(m.key.strategy);
    if (!m.sharing.empty() && s.schedule == "F*" && approximate_group(s) == 1 &&
        s.draft.width > 1) {
      points.push_back(&m);
    }
  }
  return points;
}

std::set<std::int64_t> contexts_of(const Points& points) {
  std::set<std::int64_t> contexts;
  for (const PointMeasurement* m : points) {
    contexts.insert(m->key.context_len);
  }
  return contexts;
}

Points at_context(const Points& points, std::int64_t context_len) {
  Points found;
  std::copy_if(points.begin(), points.end(), std::back_inserter(found),
               [&](const PointMeasurement* m) { return m->key.context_len == context_len; });
  return found;
}

std::int64_t nearest(const std::set<std::int64_t>& contexts, std::int64_t wanted) {
  return *std::min_element(contexts.begin(), contexts.end(), [&](std::int64_t a, std::int64_t b) {
    return std::llabs(a - wanted) < std::llabs(b - wanted);
  });
}

// Over points and, with layer -1, over layers.
template <class Value>
Json mean_of(const Points& points, SharingAlong along, std::int64_t layer, const Value& value) {
  Mean mean;
  for (const PointMeasurement* m : points) {
    for (const BlockSharing& row : m->sharing) {
      if (row.along == along && (layer < 0 || row.layer == layer)) {
        mean.add(value(row));
      }
    }
  }
  return mean.json();
}

Json overlap_of(const Points& points, SharingAlong along, std::int64_t layer,
                std::size_t distance) {
  return mean_of(points, along, layer,
                 [distance](const BlockSharing& row) { return row.overlap[distance]; });
}

std::int64_t layers_of(const Points& points) {
  std::int64_t layers = 0;
  for (const PointMeasurement* m : points) {
    for (const BlockSharing& row : m->sharing) {
      layers = std::max(layers, row.layer + 1);
    }
  }
  return layers;
}

std::string of_pair(const FiguresInput& input, const Points& points) {
  std::set<std::string> regimes, trees;
  for (const PointMeasurement* m : points) {
    regimes.insert(m->key.regime);
    trees.insert(m->key.strategy);
  }
  return input.pair.name + ", " + std::to_string(points.size()) + " points of " +
         std::to_string(trees.size()) + " trees and " + std::to_string(regimes.size()) +
         (regimes.size() == 1 ? " regime" : " regimes");
}

std::vector<Json> layer_row(const Points& points, std::int64_t layer) {
  const auto blocks = [&](SharingAlong along) {
    return mean_of(points, along, layer, [](const BlockSharing& r) { return r.group_blocks[2]; });
  };
  const auto saved = [&](SharingAlong along) {
    return mean_of(points, along, layer, [](const BlockSharing& r) { return r.loads_saved[2]; });
  };
  return {layer < 0 ? Json("mean") : Json(layer),
          overlap_of(points, SharingAlong::kBfs, layer, 1),
          overlap_of(points, SharingAlong::kDfs, layer, 1),
          mean_of(points, SharingAlong::kPosition, layer,
                  [](const BlockSharing& row) { return row.next_layer; }),
          blocks(SharingAlong::kBfs),
          blocks(SharingAlong::kDfs),
          saved(SharingAlong::kBfs),
          saved(SharingAlong::kDfs)};
}

// Layers whose overlap lies where the paper says that most of them lie.
std::string within_paper(const FigureTable& table) {
  std::int64_t within = 0;
  std::int64_t layers = 0;
  for (const std::vector<Json>& row : table.rows) {
    if (row[0].is_number() && row[1].is_number()) {
      layers += 1;
      within += row[1].get<double>() >= 0.5 && row[1].get<double>() <= 0.9 ? 1 : 0;
    }
  }
  return std::to_string(within) + " of " + std::to_string(layers) +
         " layers within 0.5 and 0.9 breadth first";
}

const char* order_name(SharingAlong along) {
  return along == SharingAlong::kBfs ? "bfs" : "dfs";
}

// Tokens a step of one tuple, generated and along the author's own text, which is the same for all.
struct Yield {
  Mean generated, along;
};

Json ratio(const Json& a, const Json& b) {
  return a.is_null() || b.is_null() ? Json() : Json(a.get<double>() / b.get<double>());
}

// A figure of the points that recorded sharing, empty where there are none, and says so.
Figure framed(const char* name, const char* asks, const char* paper, const Points& points) {
  Figure figure{
      .name = name, .asks = asks, .paper = paper, .papers = {}, .tables = {}, .missing = {}};
  if (points.empty()) {
    figure.missing.push_back(kNotRecorded);
  }
  return figure;
}

// Those at the recorded context nearest to the one that is asked for. REQUIRES: there are points.
Points near_context(const Points& points, std::int64_t wanted) {
  return at_context(points, nearest(contexts_of(points), wanted));
}

// "smollm2-nsa, 4 points of 2 trees and 2 regimes, context 4096"
std::string at_one_context(const FiguresInput& input, const Points& here) {
  return of_pair(input, here) + ", context " + std::to_string(here.front()->key.context_len);
}

// Of approximate groups beside the same tree's without, by order.
FigureTable yield_table(const FiguresInput& input) {
  FigureTable table{
      .caption =
          "tokens a step, bonus counted, generated and along the text; mean over regimes of "
          "the calibration split",
      .columns = {{"tuple", 0},
                  {"context", 0},
                  {"generated", 3},
                  {"of c1's", 3},
                  {"along", 3},
                  {"of c1's", 3}},
      .rows = {}};
  std::map<std::pair<std::int64_t, std::string>, Yield> yields;
  for (const PointMeasurement& m : input.acceptance) {
    if (m.acceptance && m.key.split != "test") {
      Yield& yield = yields[{m.key.context_len, m.key.strategy}];
      yield.along.add(m.acceptance->teacher_forced);
      if (!m.acceptance->only_loops()) {
        yield.generated.add(m.acceptance->accepted_per_step);
      }
    }
  }
  for (const auto& [key, yield] : yields) {
    Strategy s = Strategy::parse(key.second);
    if (approximate_group(s) == 1) {
      continue;
    }
    s.group_size = 1;
    s.group_mode = GroupMode::kExact;
    s.order = Traversal::kBfs;
    const auto found = yields.find({key.first, s.text()});
    const Yield alone = found == yields.end() ? Yield() : found->second;
    table.rows.push_back({key.second, key.first, yield.generated.json(),
                          ratio(yield.generated.json(), alone.generated.json()), yield.along.json(),
                          ratio(yield.along.json(), alone.along.json())});
  }
  return table;
}

// Steps of the same tuple in both orders.
FigureTable order_times(const FiguresInput& input) {
  FigureTable table{
      .caption = "a step of the pair's own weights, us, on " + input.device,
      .columns = {{"tuple, order left out", 0}, {"context", 0}, {"bfs", 1}, {"dfs", 1}},
      .rows = {}};
  for (const TimedPoint& dfs : input.pair_steps) {
    Strategy s = dfs.strategy;
    if (s.order != Traversal::kDfs) {
      continue;
    }
    s.order = Traversal::kBfs;
    for (const TimedPoint& bfs : input.pair_steps) {
      if (bfs.strategy == s && bfs.context_len == dfs.context_len && bfs.launch == dfs.launch &&
          bfs.dtype == dfs.dtype) {
        std::string name = s.text();
        name.erase(name.find("/bfs"), 4);
        table.rows.push_back({name, dfs.context_len, bfs.median_us, dfs.median_us});
      }
    }
  }
  return table;
}

}  // namespace

Figure traversal_figure(const FiguresInput& input) {
  const Points points = recorded(input);
  Figure figure =
      framed("traversal", "what queries share, load and yield by the order of a tree and by group",
             "no numbers; breadth first groups siblings, depth first parents with "
             "children, and no rule is superior everywhere (Section 4.1)",
             points);
  if (!points.empty()) {
    FigureTable table{.caption = of_pair(input, points) +
                                 "; overlap of neighbours, distinct blocks of groups of 2, 4, 8, "
                                 "share of loads that they save",
                      .columns = {{"order", 0},
                                  {"context", 0},
                                  {"overlap", 3},
                                  {"U2", 1},
                                  {"U4", 1},
                                  {"U8", 1},
                                  {"saved 2", 3},
                                  {"saved 4", 3},
                                  {"saved 8", 3}},
                      .rows = {}};
    for (const std::int64_t context : contexts_of(points)) {
      const Points here = at_context(points, context);
      for (const SharingAlong along : {SharingAlong::kBfs, SharingAlong::kDfs}) {
        std::vector<Json> row = {order_name(along), context, overlap_of(here, along, -1, 1)};
        for (std::size_t g = 0; g < kSharingGroups.size(); ++g) {
          row.push_back(
              mean_of(here, along, -1, [g](const BlockSharing& r) { return r.group_blocks[g]; }));
        }
        for (std::size_t g = 0; g < kSharingGroups.size(); ++g) {
          row.push_back(
              mean_of(here, along, -1, [g](const BlockSharing& r) { return r.loads_saved[g]; }));
        }
        table.rows.push_back(std::move(row));
      }
    }
    figure.tables.push_back(std::move(table));
  }
  FigureTable yields = yield_table(input);
  if (yields.rows.empty()) {
    figure.missing.push_back("no approximate group of the pair was measured: --sweep pair does");
  } else {
    figure.tables.push_back(std::move(yields));
  }
  FigureTable times = order_times(input);
  if (times.rows.empty()) {
    figure.missing.push_back(
        "no step of the pair was timed in both orders: --sweep pair does on a GPU");
  } else {
    figure.tables.push_back(std::move(times));
  }
  return figure;
}

Figure figure_2(const FiguresInput& input) {
  const Points points = recorded(input);
  Figure figure = framed(
      "figure 2", "overlap of adjacent verifier queries by layer, and of a layer with the next",
      "at 8K typically 50 to 90 % across most layers (Section 3.1); a plot without numbers. That "
      "layouts are stable across nearby layers is said in Section 3.1 and shown by accuracy alone "
      "(table 1)",
      points);
  if (points.empty()) {
    return figure;
  }
  const Points here = near_context(points, input.context_len);
  FigureTable table{.caption = {},
                    .columns = {{"layer", 0},
                                {"bfs", 3},
                                {"dfs", 3},
                                {"next layer", 3},
                                {"U8 bfs", 1},
                                {"U8 dfs", 1},
                                {"saved 8 bfs", 3},
                                {"saved 8 dfs", 3}},
                    .rows = {}};
  for (std::int64_t layer = 0; layer < layers_of(here); ++layer) {
    table.rows.push_back(layer_row(here, layer));
  }
  table.rows.push_back(layer_row(here, -1));
  table.caption = at_one_context(input, here) + "; " + within_paper(table);
  figure.tables.push_back(std::move(table));
  return figure;
}

Figure figure_4(const FiguresInput& input) {
  const Points points = recorded(input);
  Figure figure = framed(
      "figure 4", "overlap by distance: in positions of the text, in places of either order",
      "overlap decreases as the distance of token positions grows (Section 4); a plot without "
      "numbers",
      points);
  if (points.empty()) {
    return figure;
  }
  const Points here = near_context(points, input.context_len);
  FigureTable table{
      .caption = at_one_context(input, here) +
                 "; mean over layers (0 positions apart: queries of one depth)",
      .columns = {{"distance", 0}, {"positions", 3}, {"places, bfs", 3}, {"places, dfs", 3}},
      .rows = {}};
  for (std::size_t d = 0; d < kSharingDistances; ++d) {
    table.rows.push_back(
        {static_cast<std::int64_t>(d), overlap_of(here, SharingAlong::kPosition, -1, d),
         overlap_of(here, SharingAlong::kBfs, -1, d), overlap_of(here, SharingAlong::kDfs, -1, d)});
  }
  figure.tables.push_back(std::move(table));
  FigureTable layers{
      .caption = "the same by layer, in positions", .columns = {{"layer", 0}}, .rows = {}};
  for (std::size_t d = 0; d < kSharingDistances; ++d) {
    layers.columns.push_back({std::to_string(d), 3});
  }
  for (std::int64_t layer = 0; layer < layers_of(here); ++layer) {
    std::vector<Json> row = {layer};
    for (std::size_t d = 0; d < kSharingDistances; ++d) {
      row.push_back(overlap_of(here, SharingAlong::kPosition, layer, d));
    }
    layers.rows.push_back(std::move(row));
  }
  figure.tables.push_back(std::move(layers));
  return figure;
}

}  // namespace versieve::engine
