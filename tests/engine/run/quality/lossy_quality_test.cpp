// Losses and answers of tiny random models against a slow way of its own.
#include <catch2/catch.hpp>

#include "tests/engine/run/quality/lossy_quality_case.h"
#include "tests/support/errors.h"

namespace versieve::engine {
namespace {

using test::contains;
using test::error_of;
using test::numbers;

}  // namespace

TEST_CASE("answers of an NSA target are those of every choice scored alone") {
  LossyQualityCase fixture;
  std::filesystem::remove_all(fixture.request.model / "draft");  // groups are of chains
  fixture.ask();
  fixture.request.strategies = {"nsa/ar/bfs/c1/FRR", "nsa/d7k2n9/dfs/c4a/F*",
                                "nsa/d7k2n9/dfs/c8e/F*", "nsa/d5k1n6/bfs/c2a/FRR"};
  const LossyQualityReport report = run_lossy_quality(fixture.request);
  REQUIRE(report.sets.size() == 2);  // all, and the questions with evidence
  const std::vector<LossyQualityRow>& rows = report.sets[0].rows;
  REQUIRE(rows.size() == 5);
  SlowModel slow(fixture.request.model);
  const TaskSet set = read_task_set(fixture.request.tasks[0]);
  const SlowModel::Answered exact = slow.answer(set, 1, {});
  check_answers(rows[0], exact);
  check_answers(rows[1], slow.answer(set, 1, {.schedule = "FRR"}));
  check_answers(rows[2], slow.answer(set, 8, {.group_size = 4, .group_mode = GroupMode::kApprox}));
  check_answers(rows[3], exact);
  check_answers(
      rows[4],
      slow.answer(set, 6, {.schedule = "FRR", .group_size = 2, .group_mode = GroupMode::kApprox}));
  CHECK(exact.right > 0);
  CHECK(exact.right < 10);
  for (const LossyQualityRow& row : rows) {
    const bool loses = Strategy::parse(row.strategy).precision() != PrecisionClass::kStrict;
    CAPTURE(row.strategy);
    CHECK((row.divergence > 1e-9) == loses);
    CHECK((row.rise != 0.0) == loses);
    CHECK(row.divergence_interval.low <= row.divergence);
    CHECK(row.divergence <= row.divergence_interval.high);
    CHECK(row.answers->gained - row.answers->lost == row.answers->right - rows[0].answers->right);
  }
  CHECK(report.sets[1].bucket == "0-1K");
  CHECK(report.sets[1].rows[0].answers->questions == 2);
}

TEST_CASE("texts are scored by group and all together") {
  LossyQualityCase fixture;
  std::filesystem::remove_all(fixture.request.model / "draft");
  fixture.request.texts = {fixture.folder / "chat-1.txt", fixture.folder / "code-1.txt"};
  fixture.request.strategies = {"nsa/d3k1n4/bfs/c4a/F*"};
  fixture.request.scored = 100;
  const LossyQualityReport report = run_lossy_quality(fixture.request);
  REQUIRE(report.sets.size() == 3);
  CHECK(report.sets[0].name == "chat");
  CHECK(report.sets[1].name == "code");
  CHECK(report.sets[2].name == "all");
  SlowModel slow(fixture.request.model);
  double sum = 0.0;
  for (std::size_t i = 0; i < 2; ++i) {
    const std::vector<std::int32_t> text =
        slow.tokenizer().encode(read_prompt(fixture.request.texts[i]));
    const std::size_t start = text.size() - 101;
    const std::vector<double> losses =
        slow.losses(text, start, start + 1, 4, {.group_size = 4, .group_mode = GroupMode::kApprox});
    REQUIRE(losses.size() == 100);
    const double mean = std::accumulate(losses.begin(), losses.end(), 0.0) / 100.0;
    CHECK(report.sets[i].rows[1].loss == Approx(mean).epsilon(1e-6));
    CHECK(!report.sets[i].rows[1].answers);
    sum += mean / 2.0;
  }
  CHECK(report.sets[2].rows[1].loss == Approx(sum).epsilon(1e-6));
  CHECK(report.sets[2].rows[1].tokens == 200);
}

TEST_CASE("windows of tokens are scored as files of the same text are") {
  LossyQualityCase fixture;
  fixture.request.texts = {fixture.folder / "chat-1.txt"};
  fixture.request.strategies = {"nsa/d4k3n12/dfs/c4a/F*"};
  fixture.request.scored = 40;
  const LossyQualityRow of_file = run_lossy_quality(fixture.request).sets[0].rows[1];
  const std::vector<std::int32_t> tokens =
      SlowModel(fixture.request.model).tokenizer().encode(numbers(300));
  fixture.request.texts = {};
  fixture.request.windows = {{.group = "300 tokens", .name = "chat-1.txt@0", .tokens = tokens}};
  std::vector<QualityProgress> seen;
  fixture.request.on_progress = [&seen](const QualityProgress& at) { seen.push_back(at); };
  const LossyQualityReport report = run_lossy_quality(fixture.request);
  REQUIRE(report.sets.size() == 1);
  CHECK(report.sets[0].name == "300 tokens");
  CHECK(report.sets[0].sha256.size() == 64);
  CHECK(report.sets[0].rows[1].loss == of_file.loss);
  CHECK(report.sets[0].rows[1].divergence == of_file.divergence);
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].done == 1.0);
  CHECK(seen[0].left_s == 0.0);
  fixture.request.windows[0].tokens.push_back(1 << 20);
  CHECK(error_of([&] { run_lossy_quality(fixture.request); }).code() == ExitCode::kBadInput);
}

TEST_CASE("strategies that draft with a head answer the same whatever was answered before") {
  LossyQualityCase fixture;
  fixture.ask();
  const std::vector<std::string> strategies = {
      "nsa/d4k3n12/dfs/c4a/F*", "nsa/d4k1n5/bfs/c1/F*/sampling=sigmoid", "nsa/d3k2n7/bfs/c2a/FRR"};
  fixture.request.strategies = strategies;
  const std::vector<LossyQualityRow> together = run_lossy_quality(fixture.request).sets[0].rows;
  for (std::size_t i = 0; i < strategies.size(); ++i) {
    fixture.request.strategies = {strategies[i]};
    const LossyQualityRow alone = run_lossy_quality(fixture.request).sets[0].rows[1];
    CAPTURE(strategies[i]);
    CHECK(alone.loss == together[i + 1].loss);
    CHECK(alone.divergence == together[i + 1].divergence);
    CHECK(alone.answers->right == together[i + 1].answers->right);
    CHECK(alone.divergence > 0.0);
  }
}

TEST_CASE("sigmoids are compared over the target's tokens, of which the draft proposes some") {
  for (const std::int64_t vocab : {272, 64}) {
    LossyQualityCase fixture(AttentionKind::kNsa, 4096, vocab);
    fixture.request.texts = {fixture.folder / "chat-1.txt"};
    fixture.request.strategies = {"nsa/d4k1n5/bfs/c1/F*/sampling=sigmoid"};
    fixture.request.scored = 60;
    const LossyQualityReport report = run_lossy_quality(fixture.request);
    const LossyQualityRow& row = report.sets[0].rows[1];
    CAPTURE(vocab);
    CHECK(std::isfinite(row.loss));
    CHECK(row.divergence > 0.0);
    if (vocab == 64) {
      // What the draft cannot propose comes after a rejection alone, which is rare at this scale.
      CHECK(row.divergence > 1.0);
    }
    REQUIRE(report.chain_shares.size() == 1);
    const ChainShare& stays = report.chain_shares[0];
    CHECK(stays.strategy == fixture.request.strategies[0]);
    CHECK(stays.counted == 60 / 5 * 4);  // drafted tokens of chains of four
    CHECK(stays.share.value > 0.99);     // at the paper's scale nearly all stay
    CHECK(stays.share.value <= 1.0);
    CHECK(stays.share.low <= stays.share.value);
    CHECK(stays.share.high >= stays.share.value);
  }
}

TEST_CASE("strategies that cannot be measured are left out where the request says so") {
  LossyQualityCase fixture;
  fixture.ask();
  fixture.request.texts = {fixture.folder / "chat-1.txt"};
  fixture.request.strategies = {"dense/ar", "nsa/ar/bfs/c1/FRR"};
  CHECK(error_of([&] { run_lossy_quality(fixture.request); }).code() == ExitCode::kAnswerNo);
  fixture.request.leaves_out = true;
  const LossyQualityReport report = run_lossy_quality(fixture.request);
  REQUIRE(report.left_out.size() == 1);
  CHECK(contains(report.left_out[0], "strategy 'dense/ar'"));
  for (const QualitySet& set : report.sets) {
    REQUIRE(set.rows.size() == 2);
    CHECK(set.rows[1].strategy == "nsa/ar/bfs/c1/FRR");
  }
}

TEST_CASE("dense strategies answer the same whatever was answered before") {
  LossyQualityCase fixture(AttentionKind::kDense);
  fixture.ask();
  const std::vector<std::string> strategies = {"specattn:p0.7/d4k1n5/bfs/c1/F*",
                                               "resa:b16p0.5f4/ar",
                                               "dense/d4k1n5/bfs/c1/F*/sampling=sigmoid"};
  fixture.request.strategies = strategies;
  const std::vector<LossyQualityRow> together = run_lossy_quality(fixture.request).sets[0].rows;
  for (std::size_t i = 0; i < strategies.size(); ++i) {
    fixture.request.strategies = {strategies[i]};
    const LossyQualityRow alone = run_lossy_quality(fixture.request).sets[0].rows[1];
    CAPTURE(strategies[i]);
    CHECK(alone.loss == together[i + 1].loss);
    CHECK(alone.divergence == together[i + 1].divergence);
    CHECK(alone.answers->right == together[i + 1].answers->right);
    CHECK(alone.divergence > 0.0);
  }
}

TEST_CASE("fewer questions are drawn evenly, and those too long for the model are counted") {
  LossyQualityCase fixture(AttentionKind::kNsa, 310);
  fixture.ask();
  const QualitySet set = run_lossy_quality(fixture.request).sets[0];
  CHECK(set.left_out ==
        2);  // at 330 and 300 bytes: with the ask, "4 and more" and BOS more than 310
  CHECK(set.rows[0].answers->questions == 8);
  fixture.request.questions = 4;
  const QualitySet few = run_lossy_quality(fixture.request).sets[0];
  CHECK(few.left_out + few.rows[0].answers->questions == 4);
  LossyQualityCase small(AttentionKind::kNsa, 64);
  small.ask();
  const Error none = error_of([&] { run_lossy_quality(small.request); });
  CHECK(none.code() == ExitCode::kAnswerNo);
  CHECK(contains(none.what(), "every question has more"));
}

TEST_CASE("what cannot be measured is said before anything runs") {
  LossyQualityCase fixture(AttentionKind::kNsa, 4096, 64);
  fixture.ask();
  const auto refused = [&](const std::string& strategy) {
    fixture.request.strategies = {strategy};
    return error_of([&] { run_lossy_quality(fixture.request); });
  };
  CHECK(refused("dense/ar").code() == ExitCode::kAnswerNo);
  CHECK(refused("nsa/ar/bfs/c1/FR").code() == ExitCode::kAnswerNo);
  CHECK(refused("nsa").code() == ExitCode::kUsage);
  fixture.request.strategies = {"nsa/ar/bfs/c1/FRR", "nsa/ar/bfs/c1/FRR"};
  CHECK(contains(error_of([&] { run_lossy_quality(fixture.request); }).what(), "given twice"));
  fixture.request.strategies = {};
  fixture.request.tasks.push_back(fixture.request.tasks[0]);
  CHECK(contains(error_of([&] { run_lossy_quality(fixture.request); }).what(), "second task set"));
}

}  // namespace versieve::engine
