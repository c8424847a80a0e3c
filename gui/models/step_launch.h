// The figures that the pictures of a measured step share: a kind of launch, and the machine's
// rates.
#pragma once

#include <QString>
#include <array>
#include <cstdint>
#include <optional>

#include "model/words/traffic.h"

namespace versieve::gui {

// All launches of one kind in a step.
struct StepLaunch {
  QString name;  // the kernel's root word
  std::int64_t launches = 0;
  std::optional<double> us;  // all of them together
  double flops = 0.0;
  std::array<double, kTrafficTermCount> term_bytes{};  // the floor: each byte moved once
  double floor_bytes = 0.0;
  std::optional<double> dram_bytes;  // counted
  std::optional<double> l2_bytes;    // counted: sectors looked up

  // Flop a counted byte; where nobody counted, a byte of the floor. None without arithmetic.
  std::optional<double> intensity() const;
};

// Bytes and arithmetic a second; none: not measured there.
struct MachineRoofs {
  QString machine;
  std::optional<double> dram, l2, tensor;
};

}  // namespace versieve::gui
