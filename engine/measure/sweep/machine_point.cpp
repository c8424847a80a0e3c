#include "engine/measure/sweep/machine_point.h"

#include <algorithm>

#include "engine/measure/sweep/cold_sets.h"
#include "engine/measure/sweep/sweep_ops.h"
#include "model/words/kernel_case.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kTinyWidth = 32;  // elements that a launch of no interest copies

template <class T>
class MachineRunner final : public PointRunner {
 public:
  MachineRunner(const SweepPlan& plan, Instrument& instrument, bool on_gpu, int threads)
      : plan_(plan),
        instrument_(instrument),
        on_gpu_(on_gpu),
        ops_(make_sweep_ops<T>(on_gpu, instrument.stream(), threads)) {}

  PointMeasurement run(const PointKey& key) override {
    case_ = MachineCase::parse(key.strategy);
    switch (case_.work) {
      case MachineWork::kCopy:
        elements_ = std::max<std::int64_t>(1, key.context_len * 1024 / kElementBytes);
        outputs_ = elements_;
        break;
      case MachineWork::kLaunch:
        elements_ = outputs_ = kTinyWidth;
        break;
      case MachineWork::kGemm:
        elements_ = case_.k * case_.m;
        outputs_ = key.num_queries * case_.m;
        break;
    }
    rows_ = key.num_queries;
    allocate(key);
    return measure(key);
  }

 private:
  static constexpr std::int64_t kElementBytes = static_cast<std::int64_t>(sizeof(T));

  // What is read lies in as many copies as make one cold; what is written follows it.
  void allocate(const PointKey& key) {
    const bool rotates = key.cache_state == CacheState::kColdRotate && on_gpu_;
    const double bytes = static_cast<double>(elements_) * static_cast<double>(sizeof(T));
    sets_ = rotates ? cold_sets(static_cast<double>(instrument_.cold_bytes()), bytes) : 1;
    for (kernels::OpsBuffer<T>* buffer : {&in_, &out_, &x_}) {
      *buffer = kernels::OpsBuffer<T>();  // frees first
    }
    in_ = kernels::OpsBuffer<T>(*ops_, sets_ * elements_);
    const bool copies = case_.work == MachineWork::kCopy;
    out_ = kernels::OpsBuffer<T>(*ops_, copies ? sets_ * outputs_ : outputs_);
    x_ = kernels::OpsBuffer<T>(*ops_, case_.work == MachineWork::kGemm ? rows_ * case_.k : 1);
  }

  void run_set(std::int64_t set) {
    const T* const in = in_.data() + set * elements_;
    switch (case_.work) {
      case MachineWork::kCopy:
        ops_->copy_rows(
            {.rows = 1, .width = elements_, .src = in, .dst = out_.data() + set * outputs_});
        return;
      case MachineWork::kLaunch:
        for (std::int64_t i = 0; i < case_.launches; ++i) {
          ops_->copy_rows({.rows = 1, .width = kTinyWidth, .src = in, .dst = out_.data()});
        }
        return;
      case MachineWork::kGemm:
        ops_->linear(
            {.n = rows_, .k = case_.k, .m = case_.m, .x = x_.data(), .w = in, .y = out_.data()});
        return;
    }
  }

  PointMeasurement measure(const PointKey& key) {
    PointMeasurement point{.key = key};
    instrument_.measure(work_on<T>(*ops_, sets_, [this](std::int64_t set) { run_set(set); }),
                        measure_plan(plan_, key), point);
    return point;
  }

  const SweepPlan& plan_;
  Instrument& instrument_;
  bool on_gpu_;
  std::unique_ptr<kernels::Ops<T>> ops_;
  MachineCase case_;
  std::int64_t elements_ = 0, outputs_ = 0, rows_ = 1, sets_ = 1;
  kernels::OpsBuffer<T> in_;   // [sets, elements]: a copy's source, or weights [m, k]
  kernels::OpsBuffer<T> out_;  // [sets, elements] or [N, m]
  kernels::OpsBuffer<T> x_;    // [N, k]
};

}  // namespace

template <class T>
std::unique_ptr<PointRunner> make_machine_runner(const SweepPlan& plan, Instrument& instrument,
                                                 bool on_gpu, int threads) {
  return std::make_unique<MachineRunner<T>>(plan, instrument, on_gpu, threads);
}

template std::unique_ptr<PointRunner> make_machine_runner<float>(const SweepPlan&, Instrument&,
                                                                 bool, int);
template std::unique_ptr<PointRunner> make_machine_runner<Bf16>(const SweepPlan&, Instrument&, bool,
                                                                int);

}  // namespace versieve::engine
