// What the points of the sweep `calibrate` say of a machine, in figures that a hardware file holds.
#pragma once

#include <string>
#include <vector>

#include "model/words/hardware.h"
#include "model/words/measurement.h"

namespace versieve::engine {

// "read_rate", "copy_rate", "l2_copy_rate" (GB/s; a copy's bytes are read and written),
// "gemm_rate" (Tflop/s), "graph_launch", "stream_launch" (us a kernel after another), each the best
// of its points, with the point named as source. Points that are not ok, or were throttled, say
// nothing.
std::vector<MeasuredFigure> machine_figures(const std::vector<PointMeasurement>& points,
                                            const std::string& where_and_when);

// The catalogue's entry for the device, or, for one that it lacks, the entry of the same
// architecture with what the device itself says, made consistent; with the figures. `device` has
// SMs, L2, memory, bus width and clocks where they are known (0: not).
struct DeviceFacts {
  std::string name;                // "NVIDIA H200"
  std::string compute_capability;  // "9.0"
  double sm_count = 0.0, l2_mib = 0.0, memory_mib = 0.0, memory_bus_bits = 0.0;
  double max_clock_mhz = 0.0, memory_clock_mhz = 0.0;
};
HardwareSpec calibrated_hardware(const DeviceFacts& device, std::vector<MeasuredFigure> figures);

}  // namespace versieve::engine
