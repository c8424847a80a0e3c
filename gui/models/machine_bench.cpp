#include "gui/models/machine_bench.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "model/plan/concurrency.h"
#include "model/plan/dense_grid.h"
#include "model/plan/memory_need.h"
#include "model/plan/tuple_pricer.h"

namespace versieve::gui {
namespace {

constexpr double kNear = 0.97;  // of the winner's rate: candidates come so near somewhere
constexpr std::int64_t kShortestContext = 512;  // of an axis of contexts

}  // namespace

std::vector<PrecisionClass> mapped_classes(const Plan& plan) {
  if (plan.isDense()) {
    return {PrecisionClass::kStrict, PrecisionClass::kSparseRectified, PrecisionClass::kSparse};
  }
  return PlanOptions{}.classes;
}

MachineBench::MachineBench(const SensitivityQuestion& question)
    : question_(question), plan_(*question.plan), fit_(plan_.basis->fit) {
  fit_.acceptance = plan_.chosen_acceptance;
  if (plan_.isDense()) {
    dense_ = dense_options(plan_);
  }
}

Situation MachineBench::unturned() const {
  const std::vector<ContextBucket>& ranges = plan_.chosen.buckets;
  return {.machine = turned(plan_.machine, Knob::kBandwidth, 1.0),
          .requests = question_.requests,
          .range = ranges.at(static_cast<std::size_t>(question_.bucket)),
          .shortest = std::max(kShortestContext, fit_.shortest_context()),
          .longest = ranges.back().high};
}

Situation MachineBench::own() const {
  Situation out = unturned();
  for (int i = 0; i < kKnobCount; ++i) {
    if (const double factor = question_.factors[static_cast<std::size_t>(i)]; factor != 1.0) {
      out.machine = turned(std::move(out.machine), static_cast<Knob>(i), factor);
    }
  }
  return out;
}

void MachineBench::find_candidates(const std::vector<Situation>& situations) {
  const std::vector<Strategy> leading = leading_in(situations);
  std::vector<bool> is_near(leading.size(), false);
  for (const Situation& situation : situations) {
    const Prices prices = prices_in(situation);
    std::vector<double> rates;
    for (const Strategy& strategy : leading) {
      rates.push_back(prices.rate(strategy));
    }
    double best = 0.0;
    for (const auto& [rate, i] : ordered(rates, situation.requests)) {
      if (best > 0.0 && rate < kNear * best) {
        break;
      }
      if (best == 0.0 &&
          (!isBounded() || keeps_bound(prices.evaluated(leading[i]), situation.requests))) {
        best = rate;
      }
      is_near[i] = is_near[i] || best > 0.0;
    }
  }
  for (std::size_t i = 0; i < leading.size(); ++i) {
    if (is_near[i]) {
      all_.push_back(static_cast<int>(strategies_.size()));
      strategies_.push_back(leading[i]);
    }
  }
}

std::vector<std::pair<double, std::size_t>> MachineBench::ordered(const std::vector<double>& rates,
                                                                  std::int64_t requests) const {
  const double least =
      isBounded() ? 1e3 * static_cast<double>(requests) / *plan_.chosen.aims.itl_ms : 0.0;
  std::vector<std::pair<double, std::size_t>> out;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    if (rates[i] > 0.0 && rates[i] >= least) {
      out.emplace_back(rates[i], i);
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  return out;
}

bool MachineBench::keeps_bound(const Evaluation& evaluation, std::int64_t requests) const {
  return inter_token_interval_ms(evaluation, requests).high <= *plan_.chosen.aims.itl_ms;
}

Winner MachineBench::winner_among(const std::vector<int>& candidates, const Situation& situation,
                                  bool is_held) const {
  const Prices prices = prices_in(situation);
  std::vector<double> rates;
  for (const int i : candidates) {
    rates.push_back(i < 0 ? 0.0 : prices.rate(strategies_[static_cast<std::size_t>(i)]));
  }
  for (const auto& [rate, place] : ordered(rates, situation.requests)) {
    const int candidate = candidates[place];
    const Evaluation e = prices.evaluated(strategies_[static_cast<std::size_t>(candidate)]);
    if (is_held || !isBounded() || keeps_bound(e, situation.requests)) {
      return {candidate, rate, e.throughput_interval};
    }
  }
  return {};
}

// What measured steps of many requests say is not a matter of launches alone.
MachineBench::Prices MachineBench::prices_in(const Situation& situation) const {
  if (plan_.isDense()) {
    return dense_prices_in(situation);
  }
  const auto with = [&](Pricer pricer, const auto& rate) {
    const auto shared = std::make_shared<const Pricer>(std::move(pricer));
    return Prices{[this, &situation, rate, shared](const Strategy& strategy) {
                    return fits(strategy, situation) ? rate(strategy, *shared) : 0.0;
                  },
                  [&situation, shared](const Strategy& strategy) {
                    std::string note;
                    return shared->evaluate(strategy, situation.range, note);
                  }};
  };
  const std::int64_t requests = plan_.chosen.requests;  // that intervals are of
  if (situation.requests == 1 || fit_.batch.points == 0) {
    const ContextBucket& range = situation.range;
    CandidatePrices& prices = prices_
                                  .try_emplace({range.low, range.high}, fit_, plan_.target(),
                                               plan_.draft, range, requests)
                                  .first->second;
    return with(prices.on(situation.machine, situation.requests),
                [&prices](const Strategy& strategy, const Pricer& machine) {
                  return prices.throughput(strategy, machine);
                });
  }
  return with(
      Pricer(fit_, situation.machine, plan_.target(), plan_.draft, requests, situation.requests),
      [&situation](const Strategy& strategy, const Pricer& machine) {
        std::string note;
        return machine.evaluate(strategy, situation.range, note).throughput;
      });
}

MachineBench::Prices MachineBench::dense_prices_in(const Situation& situation) const {
  const ContextBucket& range = situation.range;
  DensePrices& prices =
      dense_prices_.try_emplace({range.low, range.high}, fit_, plan_.target(), dense_, range)
          .first->second;
  const auto machine = std::make_shared<const DensePrices::Machine>(
      prices.on(situation.machine, situation.requests));
  return {
      [&prices, machine](const Strategy& strategy) {
        // One request is not held to the memory.
        return machine->concurrency == 1 || prices.fits(strategy, *machine)
                   ? prices.throughput(strategy, *machine)
                   : 0.0;
      },
      [&prices, machine](const Strategy& strategy) { return prices.evaluate(strategy, *machine); }};
}

// One request is not held to the memory.
bool MachineBench::fits(const Strategy& strategy, const Situation& situation) const {
  return situation.requests == 1 ||
         memory_need(strategy, plan_.target(), plan_.draft, nullptr, situation.range.high,
                     bytes_of(fit_.dtype), situation.machine)
                 .requests() >= situation.requests;
}

// Of the question's class, by the model of steps by parts; a class's baselines may win it too.
std::vector<Strategy> MachineBench::leading_in(const std::vector<Situation>& situations) const {
  if (plan_.isDense()) {
    return dense_tuples();
  }
  std::map<std::int64_t, std::vector<HardwareSpec>> machines;
  for (const Situation& situation : situations) {
    machines[situation.requests].push_back(situation.machine);
  }
  const PlanBasis& basis = *plan_.basis;
  const LossTerms loss{engine::loss_prices(basis.grounds, fit_.acceptance), plan_.chosen.max_loss};
  std::vector<Strategy> leading;
  for (const auto& [requests, on] : machines) {
    for (const std::size_t range : ranges()) {
      for (const Strategy& strategy :
           basis.replanner->leading_on(on, fit_.acceptance, plan_.draft, loss, range, requests,
                                       decided_by_parts() && !isBounded() ? kNear : 0.0)) {
        if (is_asked_for(strategy) &&
            std::find(leading.begin(), leading.end(), strategy) == leading.end()) {
          leading.push_back(strategy);
        }
      }
    }
  }
  return leading;
}

// All of the class, which are few: of the best of its own the Strict ones, as groups and layers
// that reuse are of blocks.
std::vector<Strategy> MachineBench::dense_tuples() const {
  std::vector<Strategy> out;
  for (const std::size_t range : ranges()) {
    for (const Strategy& strategy :
         ranked_tuples(fit_, plan_.target(), dense_, plan_.chosen.buckets[range],
                       question_.precision.value_or(PrecisionClass::kStrict))) {
      if (std::find(out.begin(), out.end(), strategy) == out.end()) {
        out.push_back(strategy);
      }
    }
  }
  return out;
}

// Whether the model of steps by parts says of each situation what the candidates' own prices do.
bool MachineBench::decided_by_parts() const {
  return ranges().size() == 1 && question_.requests == 1 && question_.x != Knob::kRequests &&
         question_.y != Knob::kRequests;
}

// In which candidates are looked for.
std::vector<std::size_t> MachineBench::ranges() const {
  if (question_.x != Knob::kContext && question_.y != Knob::kContext) {
    return {static_cast<std::size_t>(question_.bucket)};
  }
  std::vector<std::size_t> all(plan_.chosen.buckets.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

bool MachineBench::is_asked_for(const Strategy& strategy) const {
  const PrecisionClass precision = strategy.precision();
  if (!question_.precision) {
    return precision < PrecisionClass::kSparseRectified;
  }
  return precision == *question_.precision || is_baseline(strategy);
}

// A candidate of every class.
bool MachineBench::is_baseline(const Strategy& strategy) const {
  return std::any_of(plan_.chosen.baselines.begin(), plan_.chosen.baselines.end(),
                     [&](const PlanBaseline& baseline) {
                       return (baseline.role == "fixed" || baseline.role == "autoregressive") &&
                              baseline.evaluation.strategy == strategy;
                     });
}

}  // namespace versieve::gui
