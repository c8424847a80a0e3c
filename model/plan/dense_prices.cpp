#include "model/plan/dense_prices.h"

#include "model/plan/system_grid.h"
#include "model/words/assert.h"

namespace versieve {

class DensePrices::Keeper : public StepSink {
 public:
  explicit Keeper(std::vector<Share>& kept) : kept_(kept) {}
  void take(const StepWork& work, double weight, double factor) override {
    kept_.push_back({weight, ComposedStep(work, factor)});
  }

 private:
  std::vector<Share>& kept_;
};

DensePrices::DensePrices(const FittedModel& fit, const LlmShape& target, const PlanOptions& options,
                         const ContextBucket& bucket)
    : fit_(fit),
      target_(target),
      options_(options),
      bucket_(bucket),
      parameters_(fit.parameters()) {
  VERSIEVE_ASSERT(target.attention == AttentionKind::kDense, "its steps read a dense cache");
}

DensePrices::Machine DensePrices::on(const HardwareSpec& machine, std::int64_t concurrency) {
  VERSIEVE_ASSERT(machine.key != fit_.hardware_key, "measured steps would correct it");
  return {.spec = machine,
          .priced = fit_.priced_on(machine),
          .concurrency = concurrency,
          .number = ++machines_,
          .whole = nullptr};
}

const CellPricer& DensePrices::composer(std::int64_t concurrency, const HardwareSpec& machine) {
  std::unique_ptr<const CellPricer>& known = composers_[concurrency];
  if (!known) {
    known = std::make_unique<const CellPricer>(fit_, machine, target_, options_, concurrency);
  }
  return *known;
}

DensePrices::Tuple& DensePrices::composed(const Strategy& strategy, const Machine& machine) {
  const std::string key = strategy.text() + ' ' + std::to_string(machine.concurrency);
  if (const auto found = tuples_.find(key); found != tuples_.end()) {
    return found->second;
  }
  const SystemPricer& composer = this->composer(machine.concurrency, machine.spec).systems();
  Tuple tuple;
  tuple.accepted = composer.accepted_of(strategy, bucket_);
  for (std::size_t i = 0; i < tuple.steps.size(); ++i) {
    Keeper keeper(tuple.steps[i]);
    composer.compose(strategy, sampled_context(bucket_, static_cast<std::int64_t>(i)), keeper);
  }
  return tuples_.emplace(key, std::move(tuple)).first->second;
}

double DensePrices::throughput(const Strategy& strategy, const Machine& machine) {
  VERSIEVE_ASSERT(!keeps_by_sigmoid(strategy), "whether it ranks is a matter of the machine");
  Tuple& tuple = composed(strategy, machine);
  const PricedOn priced{machine.priced, parameters_, fit_.conditions};
  StepWork scratch;
  double time_us = 0.0;  // of all sampled contexts
  for (std::vector<Share>& step : tuple.steps) {
    for (Share& share : step) {
      time_us += share.weight * share.launches.cost_on(machine.number, priced, scratch).time_us;
    }
  }
  return static_cast<double>(machine.concurrency) * tuple.accepted.mean * kBucketSamples / time_us *
         1e6;
}

const CellPricer& DensePrices::whole(const Machine& machine) const {
  if (!machine.whole) {
    machine.whole = std::make_shared<const CellPricer>(fit_, machine.spec, target_, options_,
                                                       machine.concurrency);
  }
  return *machine.whole;
}

Evaluation DensePrices::evaluate(const Strategy& strategy, const Machine& machine) const {
  std::string note;
  return whole(machine).evaluate(strategy, bucket_, note);
}

bool DensePrices::fits(const Strategy& strategy, const Machine& machine) {
  return composer(machine.concurrency, machine.spec)
             .memory_on(machine.spec, strategy, bucket_)
             .requests() >= machine.concurrency;
}

}  // namespace versieve
