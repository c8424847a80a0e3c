// What a plan may hold and what is measured are one list: of every strategy of the planner's grids
// that loses something, the list holds one that prices it.
#include "model/plan/lossy_space.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "model/plan/loss_prices.h"
#include "model/plan/planner.h"
#include "model/plan/system_grid.h"
#include "model/words/llm_shape.h"

using namespace versieve;

namespace {

const PairId kOwn{"mine", std::string(64, 'a')};
const std::vector<std::string> kSchedules = {"F*", "(FR)*", "FRRRRRRF"};

std::vector<QualityPoint> rows_of(const std::vector<Strategy>& strategies) {
  std::vector<QualityPoint> rows;
  for (const Strategy& strategy : strategies) {
    rows.push_back({.pair = kOwn,
                    .set = "texts: all",
                    .split = "test",
                    .strategy = strategy.text(),
                    .tokens = 100,
                    .kl_nats = {0.01, 0.0, 0.02}});
  }
  return rows;
}

LlmShape target() {
  LlmShape shape = named_llm_shape("demo");
  REQUIRE(shape.layers == 8);
  return shape;
}

}  // namespace

TEST_CASE("every strategy that a plan may hold is priced by one that the lossy space names") {
  const std::vector<Strategy> space = lossy_space(target(), kSchedules);
  const LossPrices prices(rows_of(space), kOwn, "", target().layers);
  std::vector<Strategy> planned = enumerate_space(target(), kSchedules);
  for (int i = 0; i < kPrecisionClassCount; ++i) {
    const std::vector<Strategy> more = system_space(static_cast<PrecisionClass>(i));
    planned.insert(planned.end(), more.begin(), more.end());
  }
  std::int64_t lossy = 0, unknown = 0;
  for (const Strategy& strategy : planned) {
    if (strategy.precision() == PrecisionClass::kStrict ||
        !illegal_because(strategy, target()).empty() ||
        (strategy.order == Traversal::kDfs && strategy.group_size == 1)) {  // not planned
      continue;
    }
    ++lossy;
    const LossPrice price = prices.of(strategy);
    if (!price.is_known()) {
      ++unknown;
      UNSCOPED_INFO(strategy.text());
    }
    const std::string measured = measured_for(strategy).text();
    CHECK((price.price_of.empty() || price.price_of == measured));
  }
  CHECK(lossy > 10000);
  CHECK(unknown == 0);
}

TEST_CASE("the lossy space names every choice once, by plain decoding or a usual draft") {
  const std::vector<Strategy> space = lossy_space(target(), kSchedules);
  std::vector<std::string> texts;
  std::int64_t resa = 0, specattn = 0, indexer = 0, groups = 0;
  for (const Strategy& strategy : space) {
    texts.push_back(strategy.text());
    CHECK(strategy.precision() != PrecisionClass::kStrict);
    CHECK(measured_for(strategy) == strategy);
    resa += strategy.attention == AttentionMethod::kResa ? 1 : 0;
    specattn += strategy.attention == AttentionMethod::kSpecAttn ? 1 : 0;
    indexer += strategy.attention == AttentionMethod::kIndexer ? 1 : 0;
    groups += strategy.group_size > 1 ? 1 : 0;
  }
  CHECK(resa == 3 * 4 * 5);    // blocks, ratios, periods and none
  CHECK(specattn == 4 * 2);    // shares and chains
  CHECK(indexer == 4 * 3);     // tokens, plain decoding and chains
  CHECK(groups == 3 * 2 * 3);  // sizes, orders and schedules
  CHECK(space.size() == 2 + 18 + 2 + 60 + 8 + 12);
  for (const char* text :
       {"nsa/ar/bfs/c1/(FR)*", "nsa/ar/bfs/c1/FRRRRRRF", "nsa/d6k8n64/dfs/c2a/F*",
        "nsa/d6k8n64/bfs/c8a/FRRRRRRF", "nsa/d3k1n4/bfs/c1/F*/sampling=sigmoid",
        "resa:b32p0.02f128/ar", "resa:b64p0.05f0/ar", "specattn:p0.99/d7k1n8/bfs/c1/F*",
        "indexer:k2048/ar", "indexer:k512/d3k1n4/bfs/c1/F*"}) {
    CHECK(std::count(texts.begin(), texts.end(), text) == 1);
  }
  std::sort(texts.begin(), texts.end());
  CHECK(std::adjacent_find(texts.begin(), texts.end()) == texts.end());
  // F* is measured with groups whether the schedules name it or not.
  CHECK(lossy_space(target(), {"(FR)*", "FRRRRRRF"}).size() == space.size());
}

TEST_CASE("what loses by its draft is measured with the nearer of the usual ones") {
  const auto measured = [](const std::string& text) {
    return measured_for(Strategy::parse(text)).text();
  };
  CHECK(measured("nsa/d7k10n64/bfs/c2a/(FR)*") == "nsa/d6k8n64/bfs/c2a/(FR)*");
  CHECK(measured("nsa/d4k1n5/bfs/c1/F*/sampling=sigmoid") ==
        "nsa/d3k1n4/bfs/c1/F*/sampling=sigmoid");
  CHECK(measured("specattn:p0.9/d5k1n6/bfs/c1/F*") == "specattn:p0.9/d7k1n8/bfs/c1/F*");
  CHECK(measured("indexer:k512/d6k6n32/bfs/c1/F*") == "indexer:k512/d7k1n8/bfs/c1/F*");
  CHECK(measured("indexer:k512/ar/bfs/c1/F*/topk=sort") == "indexer:k512/ar");
  CHECK(measured("nsa/d6k8n64/dfs/c8e/(FR)*/topk=sort") == "nsa/ar/bfs/c1/(FR)*");
}
