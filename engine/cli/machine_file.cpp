#include "engine/cli/machine_file.h"

#include <optional>

#include "engine/analyse/plan/hardware_file.h"
#include "engine/io/atomic_file.h"
#include "engine/measure/sweep/machine_figures.h"
#include "model/words/error.h"
#include "model/words/hardware_limits.h"
#include "model/words/machine_rates.h"
#include "profiler/environment.h"
#include "profiler/gpu_timer.h"

namespace versieve::cli {

void write_machine_file(const std::vector<PointMeasurement>& points,
                        const engine::CampaignMachine& machine, const std::string& path) {
  const std::optional<profiler::GpuDescription> gpu = profiler::describe_gpu();
  const std::string source = machine.record.device + ", " + profiler::utc_now().substr(0, 10);
  std::vector<MeasuredFigure> figures = engine::machine_figures(points, source);
  if (!gpu || figures.empty()) {
    throw Error(ExitCode::kAnswerNo,
                "no point states the rates of this machine: profile --sweep calibrate first");
  }
  const auto clock_of = [](const std::optional<int>& mhz) { return mhz ? 1.0 * *mhz : 0.0; };
  const double mebibyte = 1 << 20;
  const engine::DeviceFacts facts{
      .name = gpu->name,
      .compute_capability = gpu->compute_capability,
      .sm_count = 1.0 * gpu->sm_count,
      .l2_mib = static_cast<double>(gpu->l2_bytes) / mebibyte,
      .memory_mib = static_cast<double>(gpu->memory_bytes) / mebibyte,
      .memory_bus_bits = static_cast<double>(gpu->memory_bus_bits),
      .max_clock_mhz = gpu->state ? clock_of(gpu->state->sm_clock_max_mhz) : 0.0,
      .memory_clock_mhz = gpu->state ? clock_of(gpu->state->memory_clock_mhz) : 0.0};
  const HardwareSpec hardware = engine::calibrated_hardware(facts, std::move(figures));
  for (const std::string& reason : {implausible_field(hardware), impossible_figure(hardware)}) {
    if (!reason.empty()) {
      throw Error(ExitCode::kAnswerNo, reason + "; no hardware file was written");
    }
  }
  engine::write_file_atomically(path, engine::hardware_json(hardware));
}

}  // namespace versieve::cli
