// What choices cost: the wanted pair's rows and no other's, the newest of a set, the nearest tree
// by name; what was not measured has no number. A limit keeps what is known to stay under it.
#include "model/plan/loss_prices.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "model/plan/loss_limit.h"
#include "model/plan/replanner.h"
#include "tests/support/planned.h"

using namespace versieve;

namespace {

constexpr std::int64_t kLayers = 8;
const PairId kOwn{"mine", std::string(64, 'a')};
const PairId kOther{"other", std::string(64, 'b')};

QualityPoint row(const std::string& strategy, double kl, const std::string& set = "texts: all",
                 const PairId& pair = kOwn) {
  return {.pair = pair,
          .set = set,
          .distance = "",
          .split = "test",
          .strategy = strategy,
          .set_sha256 = std::string(64, 'e'),
          .read_as = "blocks",
          .tokens = 1000,
          .loss_nats = 2.0,
          .kl_nats = {kl, 0.5 * kl, 2.0 * kl},
          .rise_nats = {0.5 * kl, -0.1 * kl, kl},
          .same_token = {1.0 - kl, 1.0 - 1.5 * kl, 1.0 - 0.5 * kl},
          .answers = {}};
}

QualityPoint asked(const std::string& strategy, double kl, const std::string& set) {
  QualityPoint out = row(strategy, kl, set);
  out.tokens = 100;
  out.answers = QualityAnswers{.questions = 50,
                               .right = 40,
                               .gained = 1,
                               .lost = 3,
                               .accuracy = {0.8, 0.67, 0.89},
                               .change = {-0.04, -0.12, 0.04}};
  return out;
}

LossPrice price(const std::vector<QualityPoint>& rows, const std::string& strategy,
                const PairId& own = kOwn, const std::string& lender = "") {
  return LossPrices(rows, own, lender, kLayers).of(Strategy::parse(strategy));
}

}  // namespace

TEST_CASE("what reads a dense cache is priced by the pair's dense model as its own") {
  const PairId dense{"mine-dense", std::string(64, 'd')};
  const auto of_dense = [&](const std::string& strategy, double kl) {
    QualityPoint out = row(strategy, kl);
    out.pair = dense;
    return out;
  };
  QualityPoint other = of_dense("resa:b16p0.1f32/ar", 0.9);  // more tokens, another's
  other.pair = {"other", std::string(64, '9')};
  other.tokens *= 10;
  const std::vector<QualityPoint> rows = {of_dense("resa:b16p0.1f32/ar", 0.02),
                                          of_dense("specattn:p0.97/d7k1n8/bfs/c1/F*", 0.01),
                                          of_dense("nsa/ar/bfs/c1/(FR)*", 0.5), other};
  const auto own = [&](const std::string& strategy) {
    return LossPrices(rows, kOwn, "", kLayers, dense.sha256).of(Strategy::parse(strategy));
  };
  CHECK(own("resa:b16p0.1f32/ar").from == PriceFrom::kOwn);
  CHECK(own("resa:b16p0.1f32/ar").pair == dense);
  CHECK(own("resa:b16p0.1f32/ar").kl_nats.value == 0.02);
  const LossPrice chain = own("specattn:p0.97/d4k1n5/bfs/c1/F*");  // the nearest chain
  CHECK(chain.from == PriceFrom::kOwn);
  CHECK(chain.price_of == "specattn:p0.97/d7k1n8/bfs/c1/F*");
  CHECK(own("nsa/ar/bfs/c1/(FR)*").from == PriceFrom::kBorrowed);  // not of the sparse pair
  CHECK(price(rows, "resa:b16p0.1f32/ar").kl_nats.value == 0.9);   // of nobody's dense model
}

TEST_CASE("what changes nothing costs nothing by construction, measured or not") {
  for (const char* exact :
       {"nsa/ar", "nsa/d6k8n64/dfs/c4e/F*", "nsa/d3k1n4/bfs/c1/F*/sampling=exact", "dense/ar"}) {
    CAPTURE(exact);
    const LossPrice p = price({row("nsa/ar/bfs/c1/(FR)*", 0.1)}, exact);
    CHECK(p.from == PriceFrom::kConstruction);
    CHECK(p.kl_nats == Estimate95{});
    CHECK(p.same_token == Estimate95{1.0, 1.0, 1.0});
    CHECK(short_text(p) == "exact");
  }
}

TEST_CASE("a schedule is priced by rows of that schedule, whatever is drafted") {
  const std::vector<QualityPoint> rows = {row("nsa/ar", 0.0), row("nsa/ar/bfs/c1/(FR)*", 0.011),
                                          row("nsa/d7k8n48/bfs/c8e/FRRRRRRF", 0.02)};
  for (const char* strategy : {"nsa/d6k8n64/dfs/c4e/(FR)*", "nsa/ar/bfs/c1/FRFRFRFR",
                               "nsa/d2k2n4/bfs/c1/(FR)*/topk=sort"}) {
    CAPTURE(strategy);
    const LossPrice p = price(rows, strategy);
    CHECK(p.from == PriceFrom::kOwn);
    CHECK(p.kl_nats == Estimate95{0.011, 0.0055, 0.022});
    CHECK(p.rise_nats.value == 0.0055);
    CHECK(p.tokens == 1000);
    CHECK(p.sets == "texts: all");
    CHECK(p.split == "test");
    CHECK(p.pair == kOwn);
    CHECK(p.price_of.empty());
    CHECK(short_text(p) == "KL 0.011 nats, 99 % same");
  }
  CHECK(price(rows, "nsa/d6k8n64/dfs/c1/FRRRRRRF").kl_nats.value == 0.02);
}

TEST_CASE("what was not measured is not measured, never zero") {
  const std::vector<QualityPoint> rows = {row("nsa/ar/bfs/c1/(FR)*", 0.011)};
  for (const char* strategy :
       {"nsa/d6k8n64/dfs/c4e/(FRR)*", "nsa/d6k8n64/dfs/c4a/F*", "nsa/d6k8n64/dfs/c4a/(FR)*",
        "resa:b16p0.1f32/ar", "nsa/d3k1n4/bfs/c1/F*/sampling=sigmoid"}) {
    CAPTURE(strategy);
    const LossPrice p = price(rows, strategy);
    CHECK(!p.is_known());
    CHECK(short_text(p) == "not measured");
    CHECK(!LossPrices(rows, kOwn, "", kLayers).most_kl_nats(Strategy::parse(strategy)));
  }
  CHECK(price(rows, "nsa/d6k8n64/dfs/c4e/(FRR)*").unmeasured_because ==
        "what nsa/ar/bfs/c1/(FRR)* loses was not measured of mine (sha256 aaaaaaaaaaaa)");
  CHECK(LossPrices().of(Strategy::parse("nsa/d6k8n64/dfs/c4a/F*")).unmeasured_because ==
        "what nsa/d6k8n64/dfs/c4a/F* loses was not measured of any pair");
}

TEST_CASE("a group is priced at its tree, or at the nearest, which is named") {
  const std::vector<QualityPoint> rows = {
      row("nsa/d7k8n48/bfs/c8a/F*", 0.01), row("nsa/d2k2n4/bfs/c8a/F*", 0.02),
      row("nsa/d7k8n48/dfs/c8a/F*", 0.03), row("nsa/d7k8n48/bfs/c4a/F*", 0.04),
      row("nsa/d7k8n48/bfs/c8a/(FR)*", 0.05)};
  CHECK(price(rows, "nsa/d7k8n48/bfs/c8a/F*").price_of.empty());
  CHECK(price(rows, "nsa/d7k8n48/dfs/c8a/F*").kl_nats.value == 0.03);
  CHECK(price(rows, "nsa/d7k8n48/bfs/c4a/F*").kl_nats.value == 0.04);
  const LossPrice near = price(rows, "nsa/d8k8n64/bfs/c8a/F*");
  CHECK(near.kl_nats.value == 0.01);
  CHECK(near.price_of == "nsa/d7k8n48/bfs/c8a/F*");
  CHECK(short_text(near) == "KL 0.01 nats, 99.0 % same (at nsa/d7k8n48/bfs/c8a/F*)");
  CHECK(price(rows, "nsa/d3k2n6/bfs/c8a/F*").price_of == "nsa/d2k2n4/bfs/c8a/F*");
  CHECK(price(rows, "nsa/d3k2n6/bfs/c8a/(FR)*").price_of == "nsa/d7k8n48/bfs/c8a/(FR)*");
  CHECK(!price(rows, "nsa/d7k8n48/dfs/c4a/F*").is_known());
}

TEST_CASE("ReSA and SpecAttn are priced by their settings, sigmoids by the nearest chain") {
  const std::vector<QualityPoint> rows = {row("resa:b16p0.1f32/ar", 0.01),
                                          row("resa:b16p0.1f0/ar", 0.02),
                                          row("specattn:p0.9/d4k1n5/bfs/c1/F*", 0.03),
                                          row("nsa/d4k1n5/bfs/c1/F*/sampling=sigmoid", 0.4)};
  CHECK(price(rows, "resa:b16p0.1f32/ar").kl_nats.value == 0.01);
  CHECK(price(rows, "resa:b16p0.1f0/ar").kl_nats.value == 0.02);
  CHECK(!price(rows, "resa:b16p0.2f32/ar").is_known());
  CHECK(price(rows, "specattn:p0.9/d6k1n7/bfs/c1/F*").price_of == "specattn:p0.9/d4k1n5/bfs/c1/F*");
  CHECK(!price(rows, "specattn:p0.97/d4k1n5/bfs/c1/F*").is_known());
  CHECK(price(rows, "nsa/d5k1n6/bfs/c1/F*/sampling=sigmoid").kl_nats.value == 0.4);
}

TEST_CASE("the newest run's row of a set counts, held-out text before what was calibrated on") {
  const std::string strategy = "nsa/ar/bfs/c1/(FR)*";
  std::vector<QualityPoint> rows = {row(strategy, 0.5), row(strategy, 0.011)};
  rows.push_back(row(strategy, 0.9));
  rows.back().split = "calibration";
  rows.push_back(row(strategy, 0.8));
  rows.back().distance = "2-4K";
  CHECK(price(rows, strategy).kl_nats.value == 0.011);
  rows.erase(rows.begin(), rows.begin() + 2);
  const LossPrice calibrated = price(rows, strategy);
  CHECK(calibrated.kl_nats.value == 0.9);
  CHECK(short_text(calibrated) == "KL 0.90 nats, 10 % same (of the calibration split)");
}

TEST_CASE("texts make the headline, of several sets by their tokens; answers stand beside it") {
  const std::string s = "nsa/ar/bfs/c1/(FR)*";
  std::vector<QualityPoint> rows = {row(s, 0.01, "texts: chat"), row(s, 0.04, "texts: code"),
                                    asked(s, 0.5, "recall"), asked(s, 0.5, "hops")};
  rows[1].tokens = 3000;
  const LossPrice p = price(rows, s);
  CHECK(p.sets == "texts: chat + texts: code");
  CHECK(p.tokens == 4000);
  CHECK(p.kl_nats.value == Approx(0.25 * 0.01 + 0.75 * 0.04));
  CHECK(p.kl_nats.high - p.kl_nats.value == Approx(std::hypot(0.25 * 0.01, 0.75 * 0.04)));
  CHECK(p.kl_nats.value - p.kl_nats.low == Approx(std::hypot(0.25 * 0.005, 0.75 * 0.02)));
  REQUIRE(p.tasks.size() == 2);
  CHECK(p.tasks[0].set == "hops");
  CHECK(p.tasks[1].answers == *rows[2].answers);
  rows.push_back(row(s, 0.02, "texts: all"));
  CHECK(price(rows, s).kl_nats == rows.back().kl_nats);
  rows.erase(rows.begin(), rows.begin() + 2);
  rows.pop_back();
  CHECK(price(rows, s).sets == "hops + recall");
}

TEST_CASE("another pair's rows are used where a pair has none of that attention, and are named") {
  const std::string schedule = "nsa/ar/bfs/c1/(FR)*", resa = "resa:b16p0.1f32/ar";
  const PairId third{"third", std::string(64, 'c')};
  std::vector<QualityPoint> rows = {
      row("nsa/ar/bfs/c1/(FRR)*", 0.3), row(schedule, 0.1, "texts: all", kOther),
      row(resa, 0.2, "texts: all", kOther), row(resa, 0.4, "texts: all", third)};
  rows.back().tokens = 5000;
  CHECK(!price(rows, schedule).is_known());  // its own NSA rows have no such schedule
  const LossPrice borrowed = price(rows, resa);
  CHECK(borrowed.from == PriceFrom::kBorrowed);
  CHECK(borrowed.pair == third);  // the one with most tokens
  CHECK(price(rows, resa, kOwn, kOther.sha256).pair == kOther);
  CHECK(short_text(price(rows, resa, kOwn, kOther.sha256)) == "KL 0.20 nats, 80 % same (of other)");
  // Of a name alike and other weights it is another pair.
  CHECK(price(rows, schedule, {kOwn.name, std::string(64, 'd')}, kOther.sha256).from ==
        PriceFrom::kBorrowed);
  // A geometry owns nothing.
  CHECK(price(rows, schedule, {}, kOther.sha256).from == PriceFrom::kBorrowed);
}

TEST_CASE("a limit keeps what stays under it by the interval's end, and says what it leaves out") {
  const FittedModel fit = synthetic::fitted_by_hand(0.8, 0.9, true);
  const LlmShape target = named_llm_shape("nsa-1b");
  const HardwareSpec& h200 = hardware_by_key("h200-sxm");
  PlanOptions options;
  options.buckets = parse_buckets("0-4096");
  options.pair = kOwn;
  options.loss.prices =
      LossPrices({row("nsa/ar/bfs/c1/(FR)*", 0.01), row("nsa/ar/bfs/c1/(FRR)*", 0.04),
                  row("nsa/d6k8n64/dfs/c4a/F*", 0.001, "texts: all", kOther)},
                 kOwn, "", target.layers);
  const PlanTable all = plan(fit, h200, target, options);
  CHECK(!all.max_loss);
  CHECK(loss_limit_text(all).empty());
  CHECK(losses_text(all) == "losses own, in part not measured");
  options.loss.most_nats = 0.02;
  const PlanTable limited = plan(fit, h200, target, options);
  std::int64_t own = 0, unmeasured = 0;
  const auto schedule_is = [](const PlanEntry& e, const char* text) {
    return e.evaluation.strategy.schedule == text;
  };
  for (const PlanEntry& e : limited.entries) {
    CAPTURE(e.evaluation.strategy.text());
    CHECK((e.price.from == PriceFrom::kConstruction) == !e.lossy);
    CHECK(e.price.kl_nats.high <= 0.02);
    CHECK((!e.lossy || schedule_is(e, "(FR)*")));
    own += e.lossy ? 1 : 0;
  }
  CHECK(own > 0);
  for (const PrecisionClass emptied : {PrecisionClass::kApproxOnly, PrecisionClass::kApproxReuse}) {
    const std::vector<const PlanEntry*> cell = entries_of(limited, 0, emptied);
    REQUIRE(cell.size() == 2);
    CHECK(cell[0]->baseline == "autoregressive");
    CHECK(cell[1]->baseline == "fixed");
  }
  CHECK(limited.unavailable.empty());
  // Each tuple once, by its reason.
  std::int64_t dearer = 0;
  const Candidates candidates = candidates_of(fit, target, options.baseline);
  for (const Strategy& s : candidates.of(0)) {
    const bool lossy = s.precision() != PrecisionClass::kStrict;
    const LossPrice p = options.loss.prices.of(s);
    dearer += lossy && p.is_known() && p.kl_nats.high > 0.02 ? 1 : 0;
    unmeasured += lossy && !p.is_known() ? 1 : 0;
  }
  CHECK(dearer > 0);
  CHECK(unmeasured > 0);
  CHECK(loss_limit_text(limited) ==
        "At most 0.02 nats a token of KL are lost, by the upper end of the 95 % interval: left out "
        "are " +
            std::to_string(dearer) + " tuples that may lose more and " +
            std::to_string(unmeasured) + " whose loss was not measured");
  CHECK(limited.excluded.size() == all.excluded.size() + 2);
  CHECK(limited.runnable == all.runnable);
  // At the interval's end itself a tuple stays, just below it none of that schedule.
  options.loss.most_nats = 0.08;
  const PlanTable wide = plan(fit, h200, target, options);
  CHECK(std::any_of(wide.entries.begin(), wide.entries.end(),
                    [&](const PlanEntry& e) { return schedule_is(e, "(FRR)*"); }));
  options.loss.most_nats = 0.0;
  const PlanTable exact = plan(fit, h200, target, options);
  CHECK(std::none_of(exact.entries.begin(), exact.entries.end(),
                     [](const PlanEntry& e) { return e.lossy; }));
}

TEST_CASE("a limit that is turned later leaves what a whole plan leaves") {
  const FittedModel fit = synthetic::fitted_by_hand(0.8, 0.9, true);
  const LlmShape target = named_llm_shape("nsa-1b");
  const HardwareSpec& h200 = hardware_by_key("h200-sxm");
  PlanOptions options;
  options.buckets = parse_buckets("4096-8192");
  const Replanner replanner(fit, target, options);
  options.loss = {LossPrices({row("nsa/ar/bfs/c1/(FRRR)*", 0.01)}, kOwn, "", target.layers), 0.05};
  const PlanTable turned =
      replanner.plan_on(h200, fit.acceptance, usual_draft(target), options.loss);
  const PlanTable whole = plan(fit, h200, target, options);
  REQUIRE(turned.entries.size() == whole.entries.size());
  for (std::size_t i = 0; i < whole.entries.size(); ++i) {
    CHECK(turned.entries[i].evaluation.strategy == whole.entries[i].evaluation.strategy);
    CHECK(turned.entries[i].price.kl_nats == whole.entries[i].price.kl_nats);
  }
  CHECK(loss_limit_text(turned) == loss_limit_text(whole));
  CHECK(replanner.plan_on(h200).excluded.size() + 1 == whole.excluded.size());
}
