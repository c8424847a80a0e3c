#include "model/plan/composed_tuples.h"

#include <algorithm>

#include "model/plan/tuple_pricer.h"

namespace versieve {
namespace {

// Begun anew beyond it: some eight thousand tuples.
constexpr std::size_t kMostBytes = std::size_t{256} << 20;

}  // namespace

ComposedStep::ComposedStep(const StepWork& work, double factor)
    : launches_(work.begin(), work.end()),
      host_trips_(work.host_trips),
      led_trips_(work.led_trips),
      enqueue_us_(work.enqueue_us),
      host_us_(work.host_us),
      led_by_host_(work.led_by_host),
      factor_(factor) {}

const StepCost& ComposedStep::cost_on(std::int64_t machine, const PricedOn& priced,
                                      StepWork& scratch) {
  if (machine_ != machine) {
    std::copy(launches_.begin(), launches_.end(), scratch.work.begin());
    scratch.count = launches_.size();
    scratch.host_trips = host_trips_;
    scratch.led_trips = led_trips_;
    scratch.enqueue_us = enqueue_us_;
    scratch.host_us = host_us_;
    scratch.led_by_host = led_by_host_;
    StepSum sum(priced);
    sum.take(scratch, 1.0, factor_);
    cost_ = sum.cost();
    machine_ = machine;
  }
  return cost_;
}

const ComposedTuple& ComposedTuples::of(const Strategy& strategy, const ContextBucket& range,
                                        const Pricer& pricer) {
  const std::string key = strategy.text() + ' ' + std::to_string(range.low) + ' ' +
                          std::to_string(range.high) + ' ' + std::to_string(pricer.concurrency());
  if (const auto found = tuples_.find(key); found != tuples_.end()) {
    return found->second;
  }
  if (bytes_ > kMostBytes) {
    tuples_.clear();
    steps_.clear();
    bytes_ = 0;
  }
  return tuples_.emplace(key, pricer.composed(strategy, range, *this)).first->second;
}

std::shared_ptr<ComposedStep> ComposedTuples::step(const DraftedLength& drafted,
                                                   std::int64_t context, double overlap,
                                                   const Pricer& pricer) {
  const auto compose = [&] {
    std::shared_ptr<ComposedStep> step = pricer.composed(drafted.strategy, context, overlap);
    bytes_ += step->bytes();
    return step;
  };
  if (!drafted.strategy.adapts_length) {
    return compose();
  }
  const std::string key = drafted.strategy.text() + ' ' + std::to_string(context) + ' ' +
                          std::to_string(overlap) + ' ' + std::to_string(pricer.concurrency());
  std::shared_ptr<ComposedStep>& known = steps_[key];
  if (!known) {
    known = compose();
  }
  return known;
}

}  // namespace versieve
