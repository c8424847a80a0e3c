// Runs through recorded steps (device_step.h): while one step runs the next is already enqueued,
// because nothing in it waits for the host; a step enqueued in vain is dropped. Greedy decoding
// alone; the tokens are those of a run that the host leads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/run/speculate/device_step.h"
#include "engine/run/speculate/host_led.h"
#include "engine/run/speculate/prefilled.h"
#include "model/plan/runtime_guard.h"

namespace versieve::engine {

template <class T>
class RecordedRuns {
 public:
  explicit RecordedRuns(Prefilled<T>& prefilled) : prefilled_(&prefilled) {}

  bool can_run(const GenerateOptions& options) const;
  // Which draft layer chooses each target layer's tokens, for specattn.
  void set_layer_map(std::vector<std::int32_t> draft_layer) {
    kept_steps_.clear();
    layer_map_ = std::move(draft_layer);
  }
  // Room for runs of so many tokens from the prefilled prompt, so that none of them has caches made
  // anew, which earlier recordings name.
  void reserve(std::int64_t max_new_tokens);
  // REQUIRES: can_run().
  Generation run(const GenerateOptions& options);
  // Of a strategy that drafts for itself: whether the steps that draft can be recorded.
  bool can_draft(const GenerateOptions& options) const;
  // Its chains by recorded steps; the host leads their verification. REQUIRES: can_draft().
  Generation run_self_drafted(const GenerateOptions& options, HostLedRuns<T>& host_led);
  // Each step by the tuple that the guard holds active; each tuple has recordings of its own, and
  // the next takes over where it ends. REQUIRES: can_run() each of them, and no draft model.
  Generation run_guarded(const GenerateOptions& options, std::span<const Strategy> ranked,
                         RuntimeGuard& guard);

 private:
  // Steps of that tuple, with the recordings of earlier runs; valid until those of
  // kMostKeptTuples other tuples were asked for.
  DeviceStepRunner<T>& recorded_steps(const Strategy& strategy, const GenerateOptions& options,
                                      bool feeds_draft);
  typename DeviceStepRunner<T>::Start rewind(std::span<const Strategy> strategies,
                                             std::int64_t limit, std::int32_t token);

  std::int64_t longest_self_drafted(const GenerateOptions& options) const;
  // With the yields that synthetic acceptance gives from there on.
  void begin_steps(DeviceStepRunner<T>& steps, const Strategy& strategy, GenerateOptions options,
                   typename DeviceStepRunner<T>::Start start) const;

  struct KeptSteps {
    Strategy strategy;
    double temperature = 0.0;
    bool feeds_draft = false;
    bool forces_yields = false;
    std::unique_ptr<DeviceStepRunner<T>> steps;
  };
  Prefilled<T>* prefilled_;
  std::vector<std::int32_t> layer_map_;  // [target layers], or empty
  std::vector<KeptSteps> kept_steps_;    // newest last
};

}  // namespace versieve::engine
