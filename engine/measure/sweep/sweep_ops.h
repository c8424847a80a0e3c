// The ops that a point runs on: a GPU's on the instrument's stream, or the CPU's; and how work on
// them is measured.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "engine/measure/sweep/instrument.h"
#include "engine/measure/sweep/sweep.h"
#include "kernels/ops.h"
#include "model/words/error.h"

namespace versieve::engine {

template <class T>
std::unique_ptr<kernels::Ops<T>> make_sweep_ops(bool on_gpu, void* stream, int threads) {
  if (on_gpu) {
    return kernels::make_cuda_ops<T>(stream);
  }
  if constexpr (std::is_same_v<T, float>) {
    return kernels::make_cpu_ops<float>(threads);
  } else {
    throw Error(ExitCode::kUsage, "points are measured in f32 on a CPU, not in bf16");
  }
}

// `run(set)` enqueues one whole run on `ops`.
template <class T>
RepeatableWork work_on(kernels::Ops<T>& ops, std::int64_t sets,
                       std::function<void(std::int64_t)> run) {
  RepeatableWork work;
  work.sets = sets;
  work.run = std::move(run);
  work.synchronize = [&ops] { ops.synchronize(); };
  work.observe = [&ops](kernels::LaunchObserver* observer) { ops.set_observer(observer); };
  return work;
}

// As the sweep wants it, in the point's cache state and launch mode.
inline MeasurePlan measure_plan(const SweepPlan& plan, const PointKey& key) {
  return {.timing = plan.timing,
          .trace_repetitions = plan.trace_repetitions,
          .counter_repetitions = plan.counter_repetitions,
          .energy_s = plan.energy_s,
          .cache_state = key.cache_state,
          .launch = key.launch};
}

}  // namespace versieve::engine
