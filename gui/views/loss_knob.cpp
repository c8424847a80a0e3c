#include "gui/views/loss_knob.h"

#include <QSignalBlocker>
#include <cmath>

namespace versieve::gui {
namespace {

// Of KL, in nats a token; the lowest of the knob is no limit.
constexpr double kLossStep = 0.005;
constexpr double kMostLoss = 2.0;
constexpr double kSameLoss = 1e-9;

}  // namespace

NumberKnob* new_loss_knob() {
  NumberKnob* knob = new NumberKnob(NumberKnob::tr("the largest loss"));
  knob->setDecimals(3);
  knob->setSingleStep(kLossStep);
  knob->setRange(-kLossStep, kMostLoss);
  knob->setValue(knob->minimum());
  knob->setSpecialValueText(NumberKnob::tr("any"));
  knob->setSuffix(NumberKnob::tr(" nats"));
  knob->setAccessibleName(NumberKnob::tr("Loss at most"));
  knob->setToolTip(NumberKnob::tr(
      "KL against the exact run a token that an entry may have, by the upper end of its measured "
      "95 % interval. What was not measured is left out too, baselines stay"));
  return knob;
}

void show_loss_limit(NumberKnob& knob, const std::optional<double>& limit) {
  const double nats = limit.value_or(knob.minimum());
  if (std::fabs(knob.value() - nats) > kSameLoss) {
    const QSignalBlocker quietly(knob);
    knob.setValue(nats);
  }
}

}  // namespace versieve::gui
