// Positions that a draft did not have are censored: what is known from which drafts, and what is
// left open.
#include "engine/analyse/import/chain_counts.h"

#include "tests/engine/analyse/import/refusals.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

ImportedPoints read(const ChainCounts& counts) {
  return chain_points(counts, {.file = "its.name", .context_len = 2048}, 2048, "its.name");
}

// 2,000 drafts, of which a share goes on behind `low` tokens to five; each token is right with
// probability r, whatever the draft's length.
ChainCounts two_lengths(double r, std::int64_t low, double share) {
  ChainCounts counts{.drafts = 20000};
  double had = 20000.0;
  double drafted = 0.0;
  for (std::int64_t p = 0; p < 5; ++p) {
    const double reached = 20000.0 * (p < low ? 1.0 : share);
    drafted += reached;
    had *= r * (p == low ? share : 1.0);
    counts.accepted.push_back(std::llround(had));
  }
  counts.draft_tokens = std::llround(drafted);
  return counts;
}

double chain_of(double r, int depth) {
  return (1.0 - std::pow(r, depth + 1)) / (1.0 - r);
}

}  // namespace

TEST_CASE("whole drafts are one chain") {
  const ImportedPoints points =
      read({.drafts = 100, .accepted = {80, 50, 20}, .draft_tokens = 299});
  REQUIRE(points.points.size() == 1);
  CHECK(points.points[0].acceptance->accepted_histogram ==
        std::vector<std::int64_t>{0, 20, 30, 30, 20});
  CHECK(points.points[0].reason.empty());
  CHECK(points.remarks.empty());
}

TEST_CASE("drafts of two lengths are distinguished where the counts allow no other two") {
  const ImportedPoints points = read(two_lengths(0.7, 2, 0.4));
  REQUIRE(points.points.size() == 2);
  CHECK(points.points[0].key.strategy == "dense/d2k1n3/bfs/c1/F*");
  CHECK(points.points[0].acceptance->steps == 20000);
  CHECK(points.points[0].acceptance->accepted_per_step == Approx(chain_of(0.7, 2)).epsilon(1e-3));
  CHECK(points.points[0].reason.empty());
  CHECK(points.points[1].key.strategy == "dense/d5k1n6/bfs/c1/F*");
  CHECK(points.points[1].acceptance->steps == 8000);
  CHECK(points.points[1].acceptance->accepted_per_step == Approx(chain_of(0.7, 5)).epsilon(1e-2));
  CHECK(points.points[1].reliability == Reliability::kUnchecked);
  CHECK(test::contains(points.points[1].reason, "3.20 tokens long in the mean, not 5"));
  CHECK(test::contains(points.points[1].reason, "drafts of 2 and of 5 tokens"));
  CHECK(test::contains(points.points[1].reason, "from 3 on are estimated from the 8000 drafts"));
  CHECK(points.remarks == std::vector<std::string>{points.points[1].reason});
}

TEST_CASE("counted positions are each estimated from the drafts that had them") {
  ChainCounts counts{.drafts = 1000, .accepted = {800, 320, 128}, .draft_tokens = 2000};
  counts.reached = {1000, 500, 250};  // 0.8 each, whatever the length
  const ImportedPoints points = read(counts);
  REQUIRE(points.points.size() == 2);
  CHECK(points.points[0].key.strategy == "dense/d1k1n2/bfs/c1/F*");
  CHECK(points.points[0].acceptance->accepted_per_step == Approx(1.8));
  CHECK(points.points[1].key.strategy == "dense/d3k1n4/bfs/c1/F*");
  CHECK(points.points[1].acceptance->steps == 250);
  CHECK(points.points[1].acceptance->accepted_per_step == Approx(chain_of(0.8, 3)).epsilon(5e-3));
  CHECK(test::contains(points.points[1].reason, "250 of 1000 had the last"));
}

TEST_CASE("positions that were never drafted are no part of the chain") {
  ChainCounts counts{.drafts = 100, .accepted = {60, 30, 0, 0}, .draft_tokens = 200};
  counts.reached = {100, 100, 0, 0};
  const ImportedPoints points = read(counts);
  REQUIRE(points.points.size() == 1);
  CHECK(points.points[0].key.strategy == "dense/d2k1n3/bfs/c1/F*");
  CHECK(points.points[0].acceptance->accepted_per_step == Approx(1.9));
  CHECK(points.remarks == std::vector<std::string>{"positions from 3 on were never drafted"});
}

TEST_CASE("a few drafts that ended with their text cost next to nothing, and that is said") {
  const ImportedPoints points =
      read({.drafts = 1000, .accepted = {700, 490, 340, 240, 170}, .draft_tokens = 4900});
  REQUIRE(points.points.size() == 1);
  CHECK(points.points[0].reliability == Reliability::kUnchecked);
  CHECK(points.points[0].acceptance->accepted_per_step == Approx(2.94));
  CHECK(points.points[0].reason ==
        "drafts were 4.90 tokens long in the mean, not 5: some were cut short, which costs the "
        "length at most 2.4 %");
}

TEST_CASE("where nothing counts the lengths the first token is known and the rest a lower bound") {
  const ImportedPoints points =
      read({.drafts = 1000, .accepted = {600, 400, 200, 100, 60, 40, 0}, .draft_tokens = 2900});
  REQUIRE(points.points.size() == 2);
  CHECK(points.points[0].key.strategy == "dense/d1k1n2/bfs/c1/F*");
  CHECK(points.points[0].acceptance->accepted_per_step == Approx(1.6));
  CHECK(points.points[0].reliability == Reliability::kUnchecked);
  CHECK(points.points[1].key.strategy == "dense/d7k1n8/bfs/c1/F*");
  CHECK(points.points[1].acceptance->accepted_per_step == Approx(2.4));
  CHECK(points.points[1].reliability == Reliability::kAtLeast);
  CHECK(points.points[1].reason ==
        "drafts were 2.90 tokens long in the mean, not 7, and nothing counts how many had each "
        "position: deeper positions than the first are a lower bound");
}

TEST_CASE("counts of engines that drafted other lengths add up position by position") {
  ChainCounts sum;
  sum.add({.drafts = 100, .accepted = {70, 49}, .reached = {100, 100}, .draft_tokens = 200});
  sum.add({.drafts = 300,
           .accepted = {210, 147, 103},
           .reached = {300, 300, 300},
           .draft_tokens = 900});
  CHECK(sum.drafts == 400);
  CHECK(sum.accepted == std::vector<std::int64_t>{280, 196, 103});
  CHECK(sum.reached == std::vector<std::int64_t>{400, 400, 300});
  CHECK(*sum.draft_tokens == 1100);
  const ImportedPoints points = read(sum);
  CHECK(points.points.at(1).acceptance->accepted_per_step ==
        Approx(chain_of(0.7, 3)).epsilon(5e-3));
}

TEST_CASE("counts that contradict themselves are refused") {
  const auto refused = [](const ChainCounts& counts, const std::string& part) {
    const Error error = test::error_of([&] { read(counts); });
    CHECK(error.code() == ExitCode::kBadInput);
    CHECK(test::contains(error.what(), part));
  };
  refused({.drafts = 0, .accepted = {0}}, "counts no draft");
  refused({.drafts = 10, .accepted = {11}}, "position 0 was accepted 11 times");
  refused({.drafts = 10, .accepted = {5, 6}}, "position 1 was accepted 6 times");
  refused({.drafts = 10, .accepted = {5, 2}, .reached = {10, 1}}, "position 1 was drafted 1 times");
  refused({.drafts = 10, .accepted = {5, 2}, .reached = {5, 9}}, "position 1 was drafted 9 times");
  refused({.drafts = 10, .accepted = {5}, .accepted_tokens = 9}, "counts 9 accepted tokens, but 5");
  refused({.drafts = 10, .accepted = {5}, .draft_tokens = 20}, "more draft tokens than drafts");
}

TEST_CASE("no more tokens are accepted than were drafted") {
  const ChainCounts counts{.drafts = 1000, .accepted = {740, 520, 370}, .draft_tokens = 1600};
  const Error error = test::error_of([&] { read(counts); });
  CHECK(error.code() == ExitCode::kBadInput);
  CHECK(test::contains(error.what(), "counts 1630 accepted tokens of 1600 draft tokens"));
}
