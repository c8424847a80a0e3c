// Sample statistics and the stop rule: literal samples in, literal figures out.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "profiler/sample_statistics.h"
#include "profiler/timing.h"

using namespace versieve::profiler;

namespace {

std::vector<double> counting_to(int n) {
  std::vector<double> values;
  for (int i = n; i >= 1; --i) {
    values.push_back(i);
  }
  return values;
}

// Feeds the rule samples of a source until it stops; returns the reason and the count.
template <class Source>
std::pair<std::string, std::size_t> run_rule(const StopPlan& plan, Source source,
                                             double seconds_each) {
  StopRule rule(plan);
  std::vector<double> samples;
  while (samples.size() < 100000) {
    samples.push_back(source(samples.size()));
    const auto reason =
        rule.reason_after(samples, seconds_each * static_cast<double>(samples.size()));
    if (reason) {
      return {*reason, samples.size()};
    }
  }
  return {"never", samples.size()};
}

}  // namespace

TEST_CASE("the median is the middle sample, or the mean of the two in the middle") {
  CHECK(median_of({3.0, 1.0, 2.0}) == 2.0);
  CHECK(median_of({4.0, 1.0, 3.0, 2.0}) == 2.5);
  CHECK(median_of({7.0}) == 7.0);
}

TEST_CASE("the median's interval takes the ranks (n -+ 1.96 sqrt n)/2, rounded outward") {
  const SampleSummary of_30 = summary_of(counting_to(30));
  CHECK(of_30.median == 15.5);
  CHECK(of_30.median_low == 9.0);    // floor((30 - 10.735)/2) = 9
  CHECK(of_30.median_high == 22.0);  // its mirror image
  const SampleSummary of_100 = summary_of(counting_to(100));
  CHECK(of_100.median_low == 40.0);
  CHECK(of_100.median_high == 61.0);
  CHECK(of_100.min == 1.0);
  CHECK(of_100.max == 100.0);
}

TEST_CASE("few samples give the whole range as the interval") {
  const SampleSummary summary = summary_of({5.0, 1.0, 9.0});
  CHECK(summary.median_low == 1.0);
  CHECK(summary.median_high == 9.0);
}

TEST_CASE("the interval covers the true median in about 95 of 100 experiments") {
  std::mt19937_64 random(20261121);
  std::exponential_distribution<double> skewed(1.0);
  int covered = 0;
  for (int experiment = 0; experiment < 2000; ++experiment) {
    std::vector<double> samples(40);
    std::generate(samples.begin(), samples.end(), [&] { return skewed(random); });
    const SampleSummary summary = summary_of(samples);
    covered += summary.median_low <= std::log(2.0) && std::log(2.0) <= summary.median_high;
  }
  CHECK(covered >= 1890);  // the outward rounding makes it a little more than 95 %
  CHECK(covered <= 1970);
}

TEST_CASE("the scaled median deviation estimates the sigma of normal samples") {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal(100.0, 5.0);
  std::vector<double> samples(20000);
  std::generate(samples.begin(), samples.end(), [&] { return normal(random); });
  CHECK(summary_of(samples).mad == Approx(5.0).epsilon(0.03));
}

TEST_CASE("quiet samples stop at the least count with the target reached") {
  const auto [reason, count] = run_rule(
      StopPlan{}, [](std::size_t i) { return 100.0 + (i % 2 == 0 ? 0.1 : -0.1); }, 1e-4);
  CHECK(reason == "target");
  CHECK(count == 30);
}

TEST_CASE("noise that no longer narrows stops as stalled") {
  // Two modes: the median's interval spans both for ever.
  const auto [reason, count] = run_rule(
      StopPlan{}, [](std::size_t i) { return i % 2 == 0 ? 100.0 : 200.0; }, 1e-6);
  CHECK(reason == "stalled");
  CHECK(count >= 30 + 64);
  CHECK(count <= 30 + 64 + 16);
}

TEST_CASE("the time limit and the sample limit stop as timeout") {
  const auto two_modes = [](std::size_t i) { return i % 2 == 0 ? 100.0 : 200.0; };
  CHECK(run_rule({.time_limit_s = 0.05}, two_modes, 0.01) ==
        std::pair<std::string, std::size_t>("timeout", 5));
  CHECK(run_rule({.max_samples = 40, .time_limit_s = 100.0}, two_modes, 0.01) ==
        std::pair<std::string, std::size_t>("timeout", 40));
}

TEST_CASE("a fixed count ignores spread and time") {
  CHECK(run_rule(
            {.time_limit_s = 0.0, .fixed_samples = 12}, [](std::size_t) { return 1.0; }, 10.0) ==
        std::pair<std::string, std::size_t>("fixed", 12));
}

TEST_CASE("collecting warms up by time and count, then keeps every sample") {
  double now = 0.0;
  int calls = 0;
  const auto sample = [&] {
    now += 0.01;
    ++calls;
    return 1000.0 + calls;
  };
  const TimingResult result = collect_samples(
      sample, {.warm_up_s = 0.055, .warm_up_samples = 2, .stop = {.fixed_samples = 4}},
      [&] { return now; });
  CHECK(calls == 6 + 4);  // 0.055 s are passed during the sixth
  CHECK(result.samples_ns == std::vector<double>{1007.0, 1008.0, 1009.0, 1010.0});
  CHECK(result.stop_reason == "fixed");
}
