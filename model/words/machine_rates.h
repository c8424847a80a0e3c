// What the sweep `calibrate` measured on a machine, as shares of what its data sheet allows: how a
// fit made on one machine is carried to another by what both were measured to give, and which
// figures cannot be.
#pragma once

#include <string>

#include "model/words/hardware.h"

namespace versieve {

// 0: not measured.
struct MachineShares {
  double read = 0.0;           // of the raw bandwidth, by a stream of weights
  double copy = 0.0;           // of the raw bandwidth, read and written
  double l2 = 0.0;             // bytes a clock and SM of a copy that stays in L2
  double products = 0.0;       // of the fp32 peak, by matrix products on tensor cores
  double graph_launch = 0.0;   // us, a kernel that does next to nothing after another in a graph
  double stream_launch = 0.0;  // us, the same on a stream

  bool operator==(const MachineShares&) const = default;
};

std::optional<double> measured_figure(const HardwareSpec& spec, std::string_view name);
MachineShares machine_shares(const HardwareSpec& spec);

// What `machine` gives against what its data sheet says and the machine of the fit gave of its own
// sheet: 1 where either was not measured.
RateScale rate_scale(const HardwareSpec& machine, const MachineShares& of_fit);
// Reads, L2, products and launches were all measured, on both.
bool is_calibrated(const HardwareSpec& machine, const MachineShares& of_fit);

// One sentence for the first measured figure that the machine cannot have (a rate below a tenth of
// the data sheet's or above all of it, a launch of no time or of a millisecond); empty if none.
std::string impossible_figure(const HardwareSpec& spec);
// The same of one figure.
std::string impossible_because(const HardwareSpec& spec, const MeasuredFigure& figure);

}  // namespace versieve
