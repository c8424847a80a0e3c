// Which of a database's rows of chains are the planned pair's.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "engine/analyse/plan/pair_plan.h"
#include "model/words/error.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

const std::string kOwn(64, 'a'), kOther(64, 'b'), kDense(64, 'd');
constexpr const char* kSpecAttn = "specattn:p0.97/d7k1n8/bfs/c1/F*";
constexpr const char* kSigmoid = "nsa/d7k1n8/bfs/c1/F*/sampling=sigmoid";

KeptQuality run_of(const std::string& pair, const std::string& set, const std::string& strategy,
                   double share) {
  const nlohmann::json rows = {{{"strategy", strategy},
                                {"share", share},
                                {"share_95", {share - 0.01, share + 0.01}},
                                {"counted", 1000}}};
  nlohmann::json request = {{"pair_sha256", pair}, {"set", set}};
  if (pair == kDense) {
    request[kDenseOf] = kOwn;
  }
  return {.request = request.dump(), .chain_shares = rows.dump()};
}

std::vector<ChainShare> shares_in(const std::vector<KeptQuality>& kept) {
  return chain_shares_of(kOwn, kept, "a.db");
}

}  // namespace

TEST_CASE("shares are the pair's and its dense model's own, texts before questions, newest first") {
  const std::vector<ChainShare> shares =
      shares_in({run_of(kOwn, "texts", kSigmoid, 0.80),
                 run_of(kOther, "texts", kSigmoid, 0.5),
                 run_of(kOwn, "texts", kSigmoid, 0.90),
                 run_of(kOwn, "recall", kSigmoid, 0.7),
                 run_of(kDense, "recall", kSpecAttn, 0.2),
                 run_of(kDense, "recall", kSpecAttn, 0.3),
                 {.request = "typed by hand", .chain_shares = {}}});
  REQUIRE(shares.size() == 2);
  CHECK(shares[0].strategy == kSigmoid);
  CHECK(shares[0].share == Estimate95{0.9, 0.9 - 0.01, 0.9 + 0.01});
  CHECK(shares[1].strategy == kSpecAttn);
  CHECK(shares[1].share.value == 0.3);
  CHECK(shares_in({run_of(kOther, "texts", kSigmoid, 0.5)}).empty());
  CHECK(shares_in({}).empty());
}

TEST_CASE("a plan's fit has the shares of the pair that it is for") {
  PairEvidence evidence{.pair = {"mine", kOwn}};
  evidence.quality_runs = {run_of(kOwn, "texts", kSigmoid, 0.9),
                           run_of(kOther, "texts", kSpecAttn, 0.5)};
  const KnownPair known = known_of(evidence, "a.db");
  FittedModel fit;
  use_pair(known, pair_shape("nsa-1b", {}), {}, /*names_acceptance=*/true, fit);
  REQUIRE(fit.chain_shares.size() == 1);
  CHECK(fit.chain_shares[0].strategy == kSigmoid);
  // Of another pair nothing stays behind.
  use_pair(known_of({.pair = {"other", std::string(64, 'c')}}, "a.db"), pair_shape("nsa-1b", {}),
           {}, /*names_acceptance=*/true, fit);
  CHECK(fit.chain_shares.empty());
}

TEST_CASE("the newest other pair that has rows of SpecAttn lends them, by leave") {
  const std::string third(64, 'e');
  PairEvidence evidence{.pair = {"mine", kOwn}};
  evidence.quality_runs = {run_of(kOther, "texts", kSpecAttn, 0.5),
                           run_of(third, "texts", kSigmoid, 0.9),
                           run_of(kDense, "texts", kSpecAttn, 0.3)};
  const KnownPair known = known_of(evidence, "a.db");
  FittedModel fit;
  use_pair(known, pair_shape("nsa-1b", {}), {}, /*names_acceptance=*/true, fit);
  REQUIRE(fit.chain_shares.size() == 1);
  CHECK(fit.chain_shares[0].share.value == 0.3);
  REQUIRE(fit.lent_shares.rows.size() == 1);
  CHECK(fit.lent_shares.rows[0].share.value == 0.5);
  CHECK_THAT(fit.lent_shares.lender, Catch::Contains("bbbbbbbb"));
  use_pair(known, pair_shape("nsa-1b", {}), parse_borrowed({"times", "acceptance"}), true, fit);
  CHECK(fit.lent_shares.rows.empty());
  // A geometry has none of its own.
  CHECK(lent_shares_of("", evidence.quality_runs, "a.db").rows[0].share.value == 0.3);
  // One that has rows of sigmoids alone lends those.
  const LentShares sigmoids = lent_shares_of("", {run_of(third, "texts", kSigmoid, 0.9)}, "a.db");
  REQUIRE(sigmoids.rows.size() == 1);
  CHECK(sigmoids.rows[0].strategy == kSigmoid);
}

TEST_CASE("rows of chains that cannot be read are refused with the database's name") {
  const auto damaged = [](const std::string& rows) {
    KeptQuality run = run_of(kOwn, "texts", kSigmoid, 0.9);
    run.chain_shares = rows;
    return run;
  };
  for (const std::string& rows : {std::string("{"), std::string(R"([{"strategy": "nsa/ar"}])"),
                                  run_of(kOwn, "texts", "no strategy", 0.5).chain_shares,
                                  run_of(kOwn, "texts", "nsa/ar", 0.5).chain_shares,
                                  run_of(kOwn, "texts", kSigmoid, 1.5).chain_shares}) {
    CAPTURE(rows);
    try {
      shares_in({damaged(rows)});
      FAIL("read");
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::kBadInput);
      CHECK_THAT(error.what(), Catch::Contains("a.db") && Catch::Contains("damaged"));
    }
  }
  CHECK(shares_in({damaged("")}).empty());
}
