// How texts of the shipped pair differ: the law is what its walks say, and from one half of the
// texts it is said how the other half turns out.
#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "engine/analyse/fit/acceptance_fit.h"
#include "engine/analyse/fit/text_spread_fit.h"
#include "model/words/normal_law.h"
#include "tests/support/shipped_points.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

// Walks along the test split's texts.
std::vector<PointMeasurement> walked_points() {
  std::vector<PointMeasurement> points = test::shipped_points("h100.db", "H100");
  std::erase_if(points, [](const PointMeasurement& m) {
    return !m.acceptance || m.key.split != "test" || m.acceptance->walks.empty();
  });
  for (PointMeasurement& m : points) {
    m.acceptance->texts.clear();
  }
  return points;
}

struct Walked {
  TextCount count;
  double squares = 0.0;  // of the steps' yields
};

// [tuple and context][text]
std::map<std::string, std::vector<Walked>> walks_by_tuple() {
  std::map<std::string, std::vector<Walked>> out;
  for (const PointMeasurement& m : walked_points()) {
    for (const AcceptanceWalk& walk : m.acceptance->walks) {
      Walked text;
      for (const std::int64_t yield : walk.yields) {
        text.count.steps += 1.0;
        text.count.tokens += static_cast<double>(yield);
        text.squares += static_cast<double>(yield * yield);
      }
      out[m.key.strategy + "@" + std::to_string(m.key.context_len)].push_back(text);
    }
  }
  return out;
}

double step_log_error(const std::vector<Walked>& texts) {
  double steps = 0.0, tokens = 0.0, squares = 0.0;
  for (const Walked& t : texts) {
    steps += t.count.steps;
    tokens += t.count.tokens;
    squares += t.squares;
  }
  const double mean = tokens / steps;
  return std::sqrt((squares / steps - mean * mean) / steps) / mean;
}

TextRatio ratio_of(const std::vector<Walked>& texts) {
  std::vector<TextCount> counts;
  for (const Walked& t : texts) {
    counts.push_back(t.count);
  }
  return ratio_of_texts(counts);
}

}  // namespace

TEST_CASE("the constant of the law is what the shipped walks say") {
  const AcceptanceModel model = fit_acceptance(walked_points());
  CHECK(model.texts.evidence == TextEvidence::kWalked);
  CAPTURE(model.texts.rate, model.texts.texts);
  CHECK(model.texts.rate == Approx(kTextLaw.rate).margin(0.02));
}

// Every way to part a tuple's texts in halves: one is measured, the other is played.
TEST_CASE(
    "half of the shipped texts says how the other half turns out, in 85 to 96 % of partings") {
  double all = 0.0, by_texts = 0.0, by_steps = 0.0;
  std::int64_t tuples = 0;
  for (const auto& [tuple, texts] : walks_by_tuple()) {
    if (texts.size() < 6) {
      continue;
    }
    ++tuples;
    for (unsigned parting = 0; parting < 1U << texts.size(); ++parting) {
      if (std::popcount(parting) != static_cast<int>(texts.size() / 2)) {
        continue;
      }
      std::vector<Walked> measured, played;
      for (std::size_t i = 0; i < texts.size(); ++i) {
        (parting >> i & 1U ? measured : played).push_back(texts[i]);
      }
      const TextRatio told = ratio_of(measured);
      const double miss = std::abs(std::log(ratio_of(played).ratio / told.ratio));
      const double error = few_texts_factor(told.texts) * told.log_error *
                           std::sqrt(1.0 / static_cast<double>(measured.size()) +
                                     1.0 / static_cast<double>(played.size()));
      all += 1.0;
      by_texts += miss <= kNinety * error ? 1.0 : 0.0;
      by_steps += miss <= kNinety * step_log_error(measured) ? 1.0 : 0.0;
    }
  }
  CAPTURE(tuples, all, by_texts / all, by_steps / all);
  CHECK(tuples >= 10);
  CHECK(by_texts / all >= 0.85);
  CHECK(by_texts / all <= 0.96);
  CHECK(by_steps / all < 0.75);
}
