// Validation by what a fit has not seen: regimes left out, predictions beyond the data, residual
// fields, what the opening of a collection adds to counters, and the page that shows it all.
#include "engine/analyse/fit/validation.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "engine/analyse/fit/cost_fit.h"
#include "engine/analyse/fit/cost_search.h"
#include "engine/analyse/fit/fit_file.h"
#include "engine/analyse/fit/fit_report.h"
#include "engine/analyse/fit/goals.h"
#include "engine/analyse/fit/ranking.h"
#include "engine/analyse/fit/residual_fit.h"
#include "tests/support/synthetic_points.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

const HardwareSpec& h200() {
  return hardware_by_key("h200-sxm");
}

// A fit with regimes left out, made once.
const FitReport& report() {
  static const FitReport instance = [] {
    synthetic::Plan plan;
    std::vector<PointMeasurement> points = synthetic::attention_points(plan, h200());
    const std::vector<PointMeasurement> steps = synthetic::step_points(plan, h200());
    points.insert(points.end(), steps.begin(), steps.end());
    return fit_cost_model(points, "NVIDIA <H200>", h200(), {"run"}, {});
  }();
  return instance;
}

RankedPoint ranked(std::int64_t queries, double predicted, double measured) {
  return {.key = {.context_len = 4096, .num_queries = queries},
          .predicted_us = predicted,
          .measured_us = measured};
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    count += 1;
  }
  return count;
}

}  // namespace

TEST_CASE("each context length and query count is left out once, the outermost marked as beyond") {
  std::int64_t contexts = 0;
  std::int64_t queries = 0;
  for (const LeftOutError& e : report().left_out) {
    (e.axis == "context" ? contexts : queries) += 1;
    const bool outermost =
        e.axis == "context" ? e.value == 1024 || e.value == 65536 : e.value == 1 || e.value == 128;
    CAPTURE(e.axis, e.value);
    CHECK(e.beyond == outermost);
    CHECK(e.latency.points > 0);
    if (!e.beyond) {
      CHECK(*e.latency.median_ape < 0.1);  // the law is the model's own
    }
  }
  CHECK(contexts == 8);
  CHECK(queries == 8);
  CHECK(*report().left_out_coverage_90 > 0.8);
  for (const ErrorQuantile& q : report().model.errors) {
    CHECK(q.log_latency_left_out >= q.log_latency);
  }
}

TEST_CASE("points that are not judged make no regime of their own") {
  synthetic::Plan plan;
  FitPoints points = fit_points(synthetic::attention_points(plan, h200()), 0.0);
  points.points[0].key.num_queries = 24;  // watched: it teaches by its ranges alone
  points.points[0].time_us.reset();
  points.points[0].dram_bytes.reset();
  std::vector<const FitPoint*> train;
  for (const FitPoint& p : points.points) {
    train.push_back(&p);
  }
  const auto part_fit = [](const std::vector<const FitPoint*>&) { return Calibration{}; };
  FitParts parts(2, nullptr);
  const std::vector<LeftOutRegime> regimes =
      predict_left_out(train, {}, RegimeAxis::kQueries, h200(), part_fit, parts);
  CHECK(regimes.size() >= 3);
  for (const LeftOutRegime& regime : regimes) {
    CHECK(regime.value != 24);
    CHECK(!regime.points.empty());
  }
}

TEST_CASE("predictions beyond the data are refused with the nearest measured regimes named") {
  const FittedModel& model = report().model;
  CHECK(model.outside_because(4096, 16).empty());
  CHECK(model.outside_because(5000, 3).empty());  // between regimes
  const std::string far = model.outside_because(1 << 20, 16);
  CHECK(far.find("L 1048576, N 16") != std::string::npos);
  CHECK(far.find("at L 65536, N 16") != std::string::npos);
  CHECK(!model.outside_because(100, 16).empty());
  CHECK(!model.outside_because(4096, 1000).empty());
  // Where nothing was measured intervals are wider, and wider still beyond all that was.
  const double measured = model.half_width(4095, 4096);
  const double between = model.half_width(5000, 5001);
  CHECK(between >= measured);
  CHECK(model.half_width(1 << 20, (1 << 20) + 1) >= 2.0 * measured);
}

TEST_CASE("points of one cell are held out together") {
  const PointKey warm{.workload = WorkloadKind::kAttention,
                      .model = "nsa-1b",
                      .strategy = "nsa/d5k4n16/bfs/c1/F*",
                      .cache_state = CacheState::kWarm,
                      .context_len = 4096,
                      .num_queries = 16};
  PointKey cold = warm;
  cold.cache_state = CacheState::kColdRotate;
  cold.strategy = "nsa/d5k4n16/dfs/c1/F*";
  CHECK(cell_hash(warm) == cell_hash(cold));
  cold.context_len = 8192;
  CHECK(cell_hash(warm) != cell_hash(cold));
  PointKey grouped = warm;
  grouped.strategy = "nsa/d5k4n16/bfs/c8e/F*";
  PointKey other_order = grouped;
  other_order.strategy = "nsa/d5k4n16/dfs/c8e/F*";
  CHECK(cell_hash(grouped) != cell_hash(other_order));  // order matters to groups
}

TEST_CASE("a residual field finds a smooth correction and leaves noise alone") {
  StepShape shape{.target = named_llm_shape("nsa-1b")};
  std::vector<Residual> smooth;
  std::vector<Residual> noise;
  double sign = 1.0;
  for (const std::int64_t context : {1024, 2048, 4096, 16384, 65536}) {
    for (const std::int64_t queries : {1, 4, 16, 64}) {
      shape.context_len = context;
      shape.num_queries = queries;
      const Regime at = attention_regime(shape, false, false);
      smooth.push_back({at, 0.05 * at.at[0] - 0.2});
      noise.push_back({at, 0.1 * sign});
      sign = -sign;
    }
  }
  shape.context_len = 8192;
  shape.num_queries = 8;
  const Regime unseen = attention_regime(shape, false, false);
  CHECK(fit_residual_field(smooth).at(unseen) == Approx(0.05 * unseen.at[0] - 0.2).margin(0.03));
  CHECK(std::abs(fit_residual_field(noise).at(unseen)) < 0.05);
  smooth.resize(5);
  CHECK(fit_residual_field(smooth).families.empty());  // too few to say anything
}

TEST_CASE("a field of many points solves kernel ridge regression, on any number of threads") {
  std::vector<Residual> rows;
  StepShape shape;
  for (std::int64_t context = 1024; context < 131072; context += 1021) {
    shape.context_len = context;
    shape.num_queries = 1 + context % 61;
    rows.push_back({attention_regime(shape, false, false),
                    0.1 * std::sin(static_cast<double>(context) / 9000.0)});
  }
  const ResidualField field = fit_residual_field(rows);
  REQUIRE(field.families.size() == 1);
  const ResidualField::Family& family = field.families[0];
  REQUIRE(family.weights.size() == rows.size());
  // (K + noise) weights = residuals, with one of the noises.
  const auto noise_at = [&](std::size_t i) {
    double predicted = 0.0;
    for (std::size_t j = 0; j < rows.size(); ++j) {
      predicted += family.weights[j] *
              residual_kernel(distance(rows[i].regime, rows[j].regime) / family.length);
    }
    return (rows[i].log_ratio - predicted) / family.weights[i];
  };
  const double noise = noise_at(0);
  CHECK((noise == Approx(0.01) || noise == Approx(0.1) || noise == Approx(1.0)));
  for (std::size_t i = 1; i < rows.size(); ++i) {
    CHECK(noise_at(i) == Approx(noise).epsilon(1e-6));
  }
  CHECK(fit_residual_field(rows, kFewestOfFamily, 3).families[0].weights == family.weights);
}

TEST_CASE("regret is what the predicted first choice loses") {
  // Throughputs 16/10, 32/16, 64/40 measured; the last is predicted to be the best.
  const Ranking ranking = rank({ranked(16, 10, 10), ranked(32, 16, 16), ranked(64, 30, 40)});
  CHECK(*ranking.mean_regret == Approx(1.0 - 1.6 / 2.0));
  CHECK(*ranking.worst_regret == *ranking.mean_regret);
  CHECK(ranking.worst_choice.find("(40.0 us, predicted 30.0) for ") != std::string::npos);
  CHECK(ranking.worst_choice.find("(16.0 us, predicted 16.0)") != std::string::npos);
  CHECK(!ranking.least_tau);   // three pairs are too few
  CHECK(*ranking.tau == 0.0);  // one agrees, one is opposed, two are equally fast
  CHECK(!rank({ranked(16, 10, 10)}).tau);
}

TEST_CASE("tau-b ties what the measurement does not tell apart") {
  PairCounts pairs;
  pairs.add(ranked(8, 10, 10), ranked(8, 20, 20));  // agree
  CHECK(*pairs.tau_b() == 1.0);
  pairs.add(ranked(8, 10, 20), ranked(8, 20, 10));  // opposed
  CHECK(*pairs.tau_b() == 0.0);
  // 1 % apart, each known to 0.9 %: tied as measured, whatever is predicted.
  pairs.add(ranked(8, 10, 10.1), ranked(8, 20, 10));
  pairs.add(ranked(8, 10, 10), ranked(8, 10.05, 20));  // tied as predicted
  pairs.add(ranked(8, 10, 10), ranked(8, 10, 10));     // in both: no pair of any ranking
  CHECK((pairs.agreeing == 1 && pairs.opposed == 1));
  CHECK((pairs.tied_measured == 1 && pairs.tied_predicted == 1));
  CHECK(pairs.told_apart() == 3);
  PairCounts hand{.agreeing = 8, .opposed = 1, .tied_measured = 2, .tied_predicted = 1};
  CHECK(*hand.tau_b() == Approx(7.0 / std::sqrt(11.0 * 10.0)));
  // A median that is known to 5 % ties within 5 %, not within 1 %.
  RankedPoint vague = ranked(8, 10, 10);
  vague.log_half_width = 0.05;
  PairCounts wide;
  wide.add(vague, ranked(8, 20, 10.4));
  CHECK((wide.tied_measured == 1 && !wide.tau_b()));
}

TEST_CASE("a context range and class is ranked by itself once it has pairs enough") {
  std::vector<RankedPoint> points;
  for (int i = 1; i <= 7; ++i) {  // 21 pairs, all in order
    points.push_back(ranked(8, 10.0 * i, 11.0 * i));
  }
  RankedPoint other = ranked(8, 10, 1);
  other.precision = PrecisionClass::kReuseOnly;
  points.push_back(other);
  const Ranking ranking = rank(points);
  REQUIRE(ranking.classes.size() == 1);
  CHECK(ranking.classes[0].context == "0-4096");
  CHECK(ranking.classes[0].pairs.agreeing == 21);
  CHECK(*ranking.least_tau == 1.0);
}

TEST_CASE("coverage takes each point's interval from other folds, and pools small ranges") {
  std::vector<FitPoint> points;
  for (int i = 0; i < 60; ++i) {
    FitPoint p;
    p.key.context_len = i < 50 ? 4096 : 16384;
    p.time_us = 100.0;
    points.push_back(p);
  }
  std::vector<Unseen> folds;
  for (int i = 0; i < 60; ++i) {
    // Errors of 1 to 10 %, ten times as large in the fold 0.
    const double error = (i % 2 == 0 ? 0.1 : 0.01) * (1 + i / 2 % 10);
    folds.push_back(
        {&points[static_cast<std::size_t>(i)], {.time_us = 100.0 * std::exp(error)}, i % 2});
  }
  const CoverageTable table = coverage_by_range(folds, {});
  REQUIRE(table.rows.size() == 2);
  CHECK(table.rows[0].context == "0-4096");
  CHECK(table.rows[0].points == 50);
  // Fold 1's errors lie within fold 0's quantile, those of fold 0 hardly within fold 1's.
  CHECK(table.rows[0].covered >= 0.5);
  CHECK(table.rows[0].covered < 0.6);
  CHECK(table.rows[1].context == "pooled: 12288-16384");
  CHECK(table.rows[1].points == 10);
  CHECK(!coverage_by_range({}, {}).all);
}

TEST_CASE("each goal is judged by its own figures") {
  FitReport report;
  report.model.estimates.resize(kParameterCount);
  CHECK(goals_of(report).empty());
  report.dram_bytes = {100, 0.02, 0.09, 0.0};
  report.latency = {100, 0.03, 0.13, 0.0};  // the tail misses
  report.unseen_coverage_90 = 0.9;
  report.coverage = {{"0-4096", 50, 0.9}, {"4096-8192", 50, 0.96}};
  report.least_kendall_tau = 0.89;
  report.top1_regret = 0.01;
  report.worst_regret = 0.05;
  std::map<std::string, bool> met;
  for (const Goal& g : goals_of(report)) {
    met[g.what] = g.met;
  }
  CHECK(met.at("DRAM bytes, held out"));
  CHECK(!met.at("latency, held out"));
  CHECK(met.at("90 % intervals hold"));
  CHECK(!met.at("- in each context range"));  // 96 % is more than a 90 % interval should hold
  CHECK(!met.at("Kendall's tau, each range and class"));
  CHECK(met.at("regret of the first choice, mean / worst"));
  CHECK(met.count("latency, regime left out") == 0);  // a quick fit has none
  CHECK(fit_text(report).find("NOT met") != std::string::npos);
  // A range of few points is shown and not judged.
  report.coverage[1].points = 19;
  CHECK(fit_text(report).find("90.0 % (1 range)") != std::string::npos);
  CHECK(fit_text(report).find("90.0 % to") == std::string::npos);  // of one, one number
  for (const Goal& g : goals_of(report)) {
    CHECK((g.what != "- in each context range" || g.met));
  }
  report.coverage = {{"pooled: 0-4096", 8, 1.0}};
  CHECK(goals_of(report).size() == 5);
}

TEST_CASE("the report is one page that loads nothing and shows every part") {
  const std::string page = fit_html(report());
  CHECK(page.substr(0, 15) == "<!doctype html>");
  CHECK(page.find("</html>") != std::string::npos);
  CHECK(page.find("NVIDIA &lt;H200&gt;") != std::string::npos);
  CHECK(page.find("<script") == std::string::npos);
  CHECK(page.find("on top of a fit") == std::string::npos);
  FitReport corrected = report();
  corrected.model.prior = PriorFit{"NVIDIA <H100>", 12, {}, {}};
  CHECK(fit_html(corrected).find("on top of a fit to 12 points of NVIDIA &lt;H100&gt;") !=
        std::string::npos);
  CHECK(page.find("http") == std::string::npos);
  CHECK(page.find("=\"nan") == std::string::npos);
  CHECK(count_of(page, "<svg") == 2 + 8);
  CHECK(count_of(page, "<svg") == count_of(page, "</svg>"));
  CHECK(page.find("=\"nan") == std::string::npos);  // no coordinate that is none
  for (const char* part : {"Predicted against measured", "Residuals", "Regimes left out",
                           "What was measured", "The twenty worst", "90 % intervals"}) {
    CAPTURE(part);
    CHECK(page.find(part) != std::string::npos);
  }
}
