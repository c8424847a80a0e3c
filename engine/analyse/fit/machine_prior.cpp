#include "engine/analyse/fit/machine_prior.h"

#include "engine/measure/sweep/machine_figures.h"
#include "model/words/machine_rates.h"

namespace versieve::engine {
namespace {

// Of the logarithm. A stream of reads is what rings of weights are, so that its rate is known as
// well as it was measured; left to the points, attention would bend it to what gathers miss for
// other reasons, and the weights would pay.
constexpr double kReadSd = 0.005;
constexpr double kRateSd = 0.3;  // L2 and products: the best of a copy, of one shape

}  // namespace

HardwareSpec measured_machine(const HardwareSpec& hardware,
                              const std::vector<PointMeasurement>& measured,
                              const std::string& device,
                              std::map<std::string, std::int64_t>& skipped) {
  const std::vector<MeasuredFigure> figures = machine_figures(measured, device);
  if (figures.empty()) {
    return hardware;
  }
  HardwareSpec out = hardware;
  out.measured.clear();
  for (const MeasuredFigure& figure : figures) {
    const std::string reason = impossible_because(hardware, figure);
    if (reason.empty()) {
      out.measured.push_back(figure);
    } else {
      skipped[reason] += 1;
    }
  }
  return out;
}

std::vector<ParameterPrior> machine_priors(const HardwareSpec& hardware) {
  const MachineShares shares = machine_shares(hardware);
  std::vector<ParameterPrior> priors;
  const auto expect = [&](std::size_t parameter, double mean, double sd) {
    if (mean > 0.0) {
      priors.push_back({parameter, mean, sd, 0.0});
    }
  };
  const auto bound = [&](SharedParameter parameter, double high) {
    if (high > 0.0) {
      priors.push_back({index_of(parameter), 0.0, 0.0, high});
    }
  };
  expect(index_of(SharedParameter::kDramEfficiency), shares.read, kReadSd);
  expect(index_of(SharedParameter::kL2BytesPerClockSm), shares.l2, kRateSd);
  expect(index_of(LaunchKind::kLinear, KindParameter::kComputeShare), shares.products, kRateSd);
  bound(SharedParameter::kGraphGapUs, shares.graph_launch);
  bound(SharedParameter::kStreamGapUs, shares.stream_launch);
  return priors;
}

}  // namespace versieve::engine
