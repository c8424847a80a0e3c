// The knob of how much an entry may lose, wherever it stands: below zero there is no limit.
#pragma once

#include <optional>

#include "gui/views/number_knob.h"

namespace versieve::gui {

NumberKnob* new_loss_knob();
inline std::optional<double> loss_limit_of(double knob_value) {
  return knob_value < 0.0 ? std::nullopt : std::optional<double>(knob_value);
}
// Turns the knob, without a word, to what stands.
void show_loss_limit(NumberKnob& knob, const std::optional<double>& limit);

}  // namespace versieve::gui
