// What selections lose as they decode: ReSA with its passes, an indexer, SpecAttn; a text cut by
// how far decoding has come.
#include <catch2/catch.hpp>

#include "engine/run/specattn/quality.h"
#include "engine/run/speculate/decode_loss.h"
#include "tests/engine/run/quality/lossy_quality_case.h"
#include "tests/support/errors.h"

namespace versieve::engine {
namespace {

using nlohmann::json;
using test::contains;
using test::error_of;

}  // namespace

TEST_CASE("ReSA is scored as it decodes, with its dense passes") {
  LossyQualityCase fixture(AttentionKind::kDense);
  fixture.request.texts = {fixture.folder / "chat-1.txt"};
  fixture.request.strategies = {"resa:b16p0.3f8/ar", "resa:b16p0.3f0/ar"};
  fixture.request.scored = 60;
  const LossyQualityReport report = run_lossy_quality(fixture.request);
  SlowModel slow(fixture.request.model);
  const std::vector<std::int32_t> text =
      slow.tokenizer().encode(read_prompt(fixture.request.texts[0]));
  for (std::size_t i = 0; i < 2; ++i) {
    const std::vector<double> losses = decode_losses<double>(
        slow.ops(), slow.target(), text, static_cast<std::int64_t>(text.size()) - 61,
        {.resa = kernels::ResaSelection{.key_block = 16, .active_ratio = 0.3},
         .rectify_every = i == 0 ? 8 : 0});
    REQUIRE(losses.size() == 60);
    const LossyQualityRow& row = report.sets[0].rows[i + 1];
    CHECK(row.loss ==
          Approx(std::accumulate(losses.begin(), losses.end(), 0.0) / 60.0).epsilon(1e-6));
    CHECK(row.divergence > 0.0);
  }
}

TEST_CASE("an indexer is scored as it decodes, and loses nothing where it reads all") {
  LossyQualityCase fixture(AttentionKind::kDense);
  fixture.request.texts = {fixture.folder / "chat-1.txt"};
  fixture.request.strategies = {"indexer:k4096/ar", "indexer:k24w8/ar",
                                "indexer:k24w8/d4k1n5/bfs/c1/F*"};
  fixture.request.scored = 60;
  const LossyQualityReport report = run_lossy_quality(fixture.request);
  SlowModel slow(fixture.request.model);
  const std::vector<std::int32_t> text =
      slow.tokenizer().encode(read_prompt(fixture.request.texts[0]));
  const VerifyOptions options{.index = IndexSelection{.chosen = 24, .newest = 8}};
  const std::vector<LossyQualityRow>& rows = report.sets[0].rows;
  CHECK(rows[1].divergence == Approx(0.0).margin(1e-12));
  for (const std::size_t i : {2, 3}) {
    slow.target().cache().truncate(0);
    slow.target().keep_choice_keys(options);
    const std::vector<double> losses =
        slow.losses(text, text.size() - 61, text.size() - 60, i == 2 ? 1 : 5, options);
    REQUIRE(losses.size() == 60);
    CHECK(rows[i].loss ==
          Approx(std::accumulate(losses.begin(), losses.end(), 0.0) / 60.0).epsilon(1e-6));
    CHECK(rows[i].divergence > 0.0);
  }
}

TEST_CASE("a text is cut by how far decoding has come, and its pieces are the whole") {
  LossyQualityCase fixture(AttentionKind::kDense);
  fixture.request.texts = {fixture.folder / "chat-1.txt"};
  fixture.request.strategies = {"resa:b16p0.3f8/ar"};
  fixture.request.scored = 60;
  const LossyQualityReport whole = run_lossy_quality(fixture.request);
  fixture.request.cut = 25;
  const LossyQualityReport cut = run_lossy_quality(fixture.request);
  REQUIRE(whole.sets.size() == 1);
  REQUIRE(cut.sets.size() == 4);
  CHECK(cut.sets[0].bucket.empty());
  CHECK(cut.sets[0].rows[1].divergence == whole.sets[0].rows[1].divergence);
  double divergence = 0.0, loss = 0.0, agreement = 0.0;
  for (std::size_t i = 1; i < 4; ++i) {
    const LossyQualityRow& row = cut.sets[i].rows[1];
    CHECK(row.strategy == "resa:b16p0.3f8/ar");
    CHECK(row.tokens == (i < 3 ? 25 : 10));
    divergence += row.divergence * static_cast<double>(row.tokens) / 60.0;
    loss += row.loss * static_cast<double>(row.tokens) / 60.0;
    agreement += row.agreement * static_cast<double>(row.tokens) / 60.0;
  }
  CHECK(cut.sets[2].bucket == "25-50");
  CHECK(cut.sets[3].bucket == "50-60");
  CHECK(divergence == Approx(whole.sets[0].rows[1].divergence));
  CHECK(loss == Approx(whole.sets[0].rows[1].loss));
  CHECK(agreement == Approx(whole.sets[0].rows[1].agreement));
  const json sets = lossy_quality_json(cut).at("sets");
  CHECK(sets[0].count("tokens_decoded") == 0);
  CHECK(sets[1].at("tokens_decoded") == "0-25");
  CHECK(contains(lossy_quality_text(cut), "25-50 tokens decoded: 25 tokens scored"));
  const std::vector<QualityPoint> points = quality_points(cut, {"p", "h"}, "test");
  CHECK(points.front().distance.empty());
  CHECK(points.back().distance == "50-60");
  // Of two groups "all" is cut too.
  fixture.request.texts.push_back(fixture.folder / "prose-1.txt");
  std::filesystem::copy_file(fixture.request.texts[0], fixture.request.texts[1]);
  const LossyQualityReport both = run_lossy_quality(fixture.request);
  REQUIRE(both.sets.size() == 12);
  CHECK(both.sets[11].name == "all");
  CHECK(both.sets[11].bucket == "50-60");
  CHECK(both.sets[11].rows[1].tokens == 20);
  fixture.request.texts.clear();
  fixture.ask();
  CHECK(
      contains(error_of([&] { run_lossy_quality(fixture.request); }).what(), "--cut is of texts"));
}

TEST_CASE("SpecAttn costs what the comparison of selections says it costs") {
  LossyQualityCase fixture(AttentionKind::kDense);
  fixture.request.texts = {fixture.folder / "chat-1.txt"};
  fixture.request.strategies = {"specattn:p0.5/d7k1n8/bfs/c1/F*", "specattn:p1/d7k1n8/bfs/c1/F*"};
  fixture.request.scored = 100;
  const LossyQualityReport report = run_lossy_quality(fixture.request);
  QualityRequest other{.model = fixture.request.model,
                       .texts = fixture.request.texts,
                       .shares = {0.5},
                       .lookahead = 7,
                       .scored = 100,
                       .backend = "cpu",
                       .dtype = "f64",
                       .threads = 1};
  const std::vector<QualityRow> rows = run_quality(other).groups.at(0).rows;
  CHECK(report.sets[0].rows[0].loss == Approx(rows[0].loss).epsilon(1e-6));
  CHECK(report.sets[0].rows[1].loss == Approx(rows[1].loss).epsilon(1e-6));
  CHECK(report.sets[0].rows[1].agreement == Approx(rows[1].agreement));
  CHECK(report.sets[0].rows[1].divergence > 0.0);
  CHECK(report.sets[0].rows[2].rise == Approx(0.0).margin(1e-6));
  // What the layers that choose read is what the comparison calls not saved.
  REQUIRE(report.chain_shares.size() == 2);
  CHECK(report.chain_shares[0].share.value == Approx(1.0 - rows[1].saved_sparse));
  CHECK(report.chain_shares[0].share.value < 1.0);
  CHECK(report.chain_shares[1].share.value == 1.0);
}

}  // namespace versieve::engine
