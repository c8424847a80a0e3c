// What a dense pair's selections share, on real text and a tiny model whose attention is sharp.
#include "engine/measure/sweep/selection_point.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "engine/io/pair_identity.h"
#include "engine/measure/sweep/campaign.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

using namespace versieve;
using namespace versieve::engine;
using namespace versieve::test;

namespace {

std::vector<PointMeasurement> measured(const std::filesystem::path& model,
                                       const std::string& strategies) {
  const PairSource pair{.id = pair_identity(model),
                        .model = model,
                        .prompts = listed_prompts(
                            {std::filesystem::path(VERSIEVE_SOURCE_DIR) / "engine/demo/prompts"})};
  SweepPlan plan = sweep_from_json(
      R"({"name": "mine", "prompts": 1, "new_tokens": 40, "grids": [
          {"workload": "acceptance", "regime": "code", "context_len": 600, "strategy": )" +
          strategies + "}]}",
      "mine", Backend::kCpu, pair.id);
  const CampaignMachine machine = open_campaign(plan, Backend::kCpu, "");
  std::vector<PointMeasurement> points;
  run_campaign(
      plan, plan.points, machine, {.threads = 1, .pair = pair},
      [&](const PointMeasurement& point) { points.push_back(point); },
      [](const CampaignProgress&) {});
  return points;
}

TinyModel dense_model() {
  TinyModel model;
  model.target.attention = AttentionKind::kDense;
  model.target.layers = 4;
  model.sharpness = 8.0;
  return model;
}

const BlockSharing& row_of(const PointMeasurement& point, SharingAlong along, std::int64_t layer) {
  for (const BlockSharing& row : point.sharing) {
    if (row.along == along && row.layer == layer) {
      return row;
    }
  }
  FAIL("no such row");
  return point.sharing.front();
}

}  // namespace

TEST_CASE("a dense pair's points say what ReSA's queries and a draft's steps choose alike") {
  const TempFolder folder;
  write_tiny_dense_pair(folder / "model", dense_model(), 3);
  const std::vector<PointMeasurement> points =
      measured(folder / "model",
               R"(["resa:b16p0.25f8/ar", "specattn:p0.5/d7k1n8/bfs/c1/F*", "dense/ar", "nsa/ar"])");
  REQUIRE(points.size() == 4);

  const PointMeasurement& resa = points[0];
  REQUIRE(resa.status == PointStatus::kOk);
  CHECK(!resa.acceptance);
  CHECK(resa.time_ns.empty());
  CHECK(*resa.unique_blocks >= 16.0);  // the least that ReSA attends
  CHECK(*resa.unique_blocks <= 17.0);
  for (std::int64_t layer = 0; layer < 4; ++layer) {
    const BlockSharing& row = row_of(resa, SharingAlong::kPosition, layer);
    CHECK(row.steps == 3);  // 40 tokens by 16
    REQUIRE(row.overlap[1]);
    // The newest block, which all attend, alone is shared by chance and more.
    CHECK(*row.overlap[1] > 16.0 / 40.0);
    CHECK(*row.overlap[1] <= 1.0);
    CHECK(row.next_layer.has_value() == (layer < 3));
    const BlockSharing& places = row_of(resa, SharingAlong::kBfs, layer);
    CHECK(*places.group_blocks[2] >= *places.group_blocks[0]);
    CHECK(*places.group_blocks[0] >= 16.0);
  }

  const PointMeasurement& chosen = points[1];
  REQUIRE(chosen.status == PointStatus::kOk);
  CHECK(*chosen.unique_blocks > 0.0);
  CHECK(*chosen.unique_blocks < 41.0);                           // runs of 16 of 640 tokens
  CHECK(row_of(chosen, SharingAlong::kPosition, 0).steps == 5);  // chains of 8 tokens
  CHECK(row_of(chosen, SharingAlong::kPosition, 0).overlap[6]);
  CHECK(!row_of(chosen, SharingAlong::kPosition, 0).overlap[7]);  // of seven steps

  CHECK(!chosen.acceptance);  // without a layer_map.json SpecAttn does not run

  CHECK(points[2].status == PointStatus::kRefused);
  CHECK(points[2].reason.find("selects nothing") != std::string::npos);
  CHECK(points[3].status == PointStatus::kRefused);
}

TEST_CASE("chains of a dense pair are counted as generation yields them") {
  const TempFolder folder;
  write_tiny_dense_pair(folder / "model", dense_model(), 3);
  std::ofstream(folder / "model" / "layer_map.json")
      << R"({"format": "versieve layer map", "schema": 1, "map": [0, 1, 1, 2]})";
  const std::vector<PointMeasurement> points =
      measured(folder / "model", R"(["dense/d3k1n4/bfs/c1/F*", "specattn:p0.9/d3k1n4/bfs/c1/F*",
                            "dense/d3k1n4/bfs/c1/F*/draft=resa:b16p1",
                            "dense/d3k1n4/bfs/c1/F*/draft=resa:b16p0.1"])");
  REQUIRE(points.size() == 4);
  for (const PointMeasurement& point : points) {
    CAPTURE(point.key.strategy, point.reason);
    REQUIRE(point.status == PointStatus::kOk);
    REQUIRE(point.acceptance);
    CHECK(point.acceptance->texts.size() == 1);
    CHECK(point.acceptance->steps == point.acceptance->texts[0].steps);
    CHECK(point.acceptance->accepted_per_step >= 1.0);
    CHECK(point.acceptance->accepted_per_step <= 4.0);
    CHECK(point.sharing.empty() == (point.key.strategy.find("specattn") != 0));
  }
  // Steps that read every block draft what the pass accepts whole, but for the last, cut one.
  CHECK(points[2].acceptance->accepted_per_step > 3.5);
  CHECK(points[3].acceptance->accepted_per_step <= points[2].acceptance->accepted_per_step);
}

TEST_CASE("without a draft model nobody chooses for SpecAttn") {
  const TempFolder folder;
  write_tiny_target(folder / "model", dense_model());
  const std::vector<PointMeasurement> points =
      measured(folder / "model", R"("specattn:p0.9/d3k1n4/bfs/c1/F*")");
  REQUIRE(points.size() == 1);
  CHECK(points[0].status == PointStatus::kRefused);
  CHECK(points[0].reason.find("draft model") != std::string::npos);
}
