#include "engine/measure/sweep/campaign.h"

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "engine/measure/sweep/acceptance_point.h"
#include "engine/measure/sweep/attention_point.h"
#include "engine/measure/sweep/batch_point.h"
#include "engine/measure/sweep/decode_point.h"
#include "engine/measure/sweep/instrument.h"
#include "engine/measure/sweep/kernel_point.h"
#include "engine/measure/sweep/machine_point.h"
#include "engine/measure/sweep/step_point.h"
#include "model/words/assert.h"
#include "model/words/error.h"
#include "profiler/counter_access.h"
#include "profiler/environment.h"
#include "profiler/gpu_timer.h"
#include "profiler/self_check.h"

namespace versieve::engine {
namespace {

using nlohmann::json;

// The runners of one campaign, made when the first of their points comes.
class Runners {
 public:
  Runners(const SweepPlan& plan, const CampaignMachine& machine, const CampaignOptions& options)
      : plan_(plan),
        on_gpu_(machine.backend == Backend::kCuda),
        options_(options),
        instrument_(on_gpu_ ? make_gpu_instrument(
                                  {machine.record.counter_access, 0, machine.record.counter_detail})
                            : make_host_instrument()) {}

  PointRunner& of(const PointKey& key) {
    std::unique_ptr<PointRunner>& runner = runners_[{key.workload, key.dtype}];
    if (runner == nullptr) {
      drop_others();
      runner = make(key);
    }
    return *runner;
  }

 private:
  using Kind = std::pair<WorkloadKind, Dtype>;

  template <class T>
  std::unique_ptr<PointRunner> make_typed(WorkloadKind workload) {
    const int threads = options_.threads;
    switch (workload) {
      case WorkloadKind::kAttention:
        return make_attention_runner<T>(plan_, *instrument_, on_gpu_, threads, &options_.pair);
      case WorkloadKind::kStep:
      case WorkloadKind::kRectifiedStep:
        return make_step_runner<T>(plan_, *instrument_, on_gpu_, threads, &options_.pair);
      case WorkloadKind::kAcceptance:
        return make_acceptance_runner<T>(plan_, *instrument_, on_gpu_, threads, options_.pair);
      case WorkloadKind::kDecode:
      case WorkloadKind::kRectify:
        return make_decode_runner<T>(plan_, *instrument_, on_gpu_, threads, &options_.pair);
      case WorkloadKind::kTopk:
        return make_topk_runner<T>(plan_, *instrument_, on_gpu_, threads);
      case WorkloadKind::kSampling:
        return make_sampling_runner<T>(plan_, *instrument_, on_gpu_, threads);
      case WorkloadKind::kBatch:
        return make_batch_runner<T>(plan_, *instrument_, on_gpu_, threads);
      case WorkloadKind::kMachine:
        return make_machine_runner<T>(plan_, *instrument_, on_gpu_, threads);
    }
    VERSIEVE_ASSERT(false, "a workload has a runner");
  }
  // One runner at a time holds memory.
  void drop_others() {
    std::erase_if(runners_, [](const auto& entry) { return entry.second != nullptr; });
  }
  std::unique_ptr<PointRunner> make(const PointKey& key) {
    return key.dtype == Dtype::kBf16 ? make_typed<Bf16>(key.workload)
                                     : make_typed<float>(key.workload);
  }

  const SweepPlan& plan_;
  bool on_gpu_;
  const CampaignOptions& options_;
  std::unique_ptr<Instrument> instrument_;
  std::map<Kind, std::unique_ptr<PointRunner>> runners_;
};

PointMeasurement failed_point(const PointKey& key, const std::string& reason) {
  PointMeasurement point{.key = key};
  point.status = PointStatus::kFailed;
  point.reason = reason;
  return point;
}

// `runners` is null where points are simulated.
PointMeasurement measured(const PointKey& key, const CampaignMachine& machine,
                          const CampaignOptions& options, Runners* runners, StepDetail& detail) {
  try {
    if (runners == nullptr) {
      return options.simulate(key);
    }
    PointRunner& runner = runners->of(key);
    PointMeasurement point = runner.run(key);
    detail = runner.take_detail();
    if (machine.record.self_check == SelfCheckVerdict::kSuspect &&
        point.reliability == Reliability::kOk) {
      point.reliability = Reliability::kSuspect;
    }
    return point;
  } catch (const Error& error) {
    return failed_point(key, error.what());
  }
}

// Time left: each workload's points take their own mean; unseen workloads the mean of all.
class TimeLeft {
 public:
  void took(WorkloadKind workload, double seconds) {
    Mean& mean = means_[workload];
    mean.seconds += seconds;
    mean.count += 1.0;
  }
  double of(const std::vector<PointKey>& points, std::size_t from) const {
    Mean all;
    for (const auto& [workload, mean] : means_) {
      all.seconds += mean.seconds;
      all.count += mean.count;
    }
    double left = 0.0;
    for (std::size_t i = from; i < points.size(); ++i) {
      const auto found = means_.find(points[i].workload);
      const Mean& mean = found != means_.end() ? found->second : all;
      left += mean.count > 0.0 ? mean.seconds / mean.count : 0.0;
    }
    return left;
  }

 private:
  struct Mean {
    double seconds = 0.0;
    double count = 0.0;
  };
  std::map<WorkloadKind, Mean> means_;
};

}  // namespace

Backend resolved_backend(const std::string& name) {
  const std::string missing = profiler::gpu_missing_because();
  if (name == "auto") {
    return missing.empty() ? Backend::kCuda : Backend::kCpu;
  }
  const std::optional<Backend> backend = try_backend_of(name);
  if (!backend || *backend == Backend::kImported) {
    throw Error(ExitCode::kUsage, "a backend is auto, cuda, cpu or sim, not '" + name + "'");
  }
  if (*backend == Backend::kCuda && !missing.empty()) {
    throw Error(ExitCode::kEnvironment, missing);
  }
  return *backend;
}

CampaignMachine open_campaign(const SweepPlan& plan, Backend backend, const std::string& hardware) {
  const profiler::Environment environment = profiler::read_environment();
  CampaignMachine machine{.backend = backend};
  RunRecord& record = machine.record;
  profiler::SelfCheck check;
  if (backend == Backend::kCuda) {
    const profiler::CounterAccess access = profiler::probe_counter_access();
    check = profiler::run_self_check(access);
    record.device = environment.gpu->name;
    record.device_uuid_hash = environment.gpu->uuid_hash;
    record.counter_access = access.state;
    record.counter_detail = access.sentence;
  } else if (backend == Backend::kSimulator) {
    record.device = kSimulatorDevice + hardware;
    record.counter_access = CounterState::kOff;
    record.counter_detail =
        "Counters and times are the memory-hierarchy simulator's, of " + hardware + ".";
  } else {
    record.device = environment.cpu_name;
    record.counter_access = CounterState::kOff;
    record.counter_detail = "The CPU backend collects no hardware counters.";
  }
  record.kind = plan.name;
  record.self_check = check.status;
  record.configuration = configuration_json(plan);
  if (backend == Backend::kSimulator) {
    // What is resumed is of the same machine.
    json configuration = json::parse(record.configuration);
    configuration["simulated_hardware"] = hardware;
    record.configuration = configuration.dump();
  }
  json environment_object = json::parse(profiler::to_json(environment));
  environment_object["self_check"] = check.sentence;
  record.environment = environment_object.dump();
  record.revision = environment.revision;
  record.seed = plan.seed;
  return machine;
}

CampaignProgress run_campaign(const SweepPlan& plan, const std::vector<PointKey>& points,
                              const CampaignMachine& machine, const CampaignOptions& options,
                              const std::function<void(const PointMeasurement&)>& on_point,
                              const std::function<void(const CampaignProgress&)>& on_progress) {
  const bool simulates = machine.backend == Backend::kSimulator;
  VERSIEVE_ASSERT(simulates == static_cast<bool>(options.simulate), "backend sim has a simulator");
  std::optional<Runners> runners;
  if (!simulates) {
    runners.emplace(plan, machine, options);
  }
  TimeLeft time_left;
  CampaignProgress progress{.total = static_cast<std::int64_t>(points.size())};
  const double start = profiler::steady_seconds();
  for (std::size_t i = 0; i < points.size(); ++i) {
    const double point_start = profiler::steady_seconds();
    StepDetail detail;
    const PointMeasurement point =
        measured(points[i], machine, options, runners ? &*runners : nullptr, detail);
    if (options.on_detail && !detail.empty()) {
      options.on_detail(std::move(detail));
    }
    on_point(point);
    const double now = profiler::steady_seconds();
    time_left.took(points[i].workload, now - point_start);
    progress.done += 1;
    progress.refused += point.status == PointStatus::kRefused;
    progress.failed += point.status == PointStatus::kFailed;
    progress.elapsed_s = now - start;
    progress.left_s = time_left.of(points, i + 1);
    on_progress(progress);
  }
  return progress;
}

}  // namespace versieve::engine
