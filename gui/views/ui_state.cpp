#include "gui/views/ui_state.h"

#include <QAbstractButton>
#include <QCheckBox>
#include <QComboBox>
#include <QDoubleSpinBox>
#include <QSlider>
#include <QSpinBox>
#include <algorithm>
#include <utility>

namespace versieve::gui {
namespace {

UiState::Knob choice_knob(QComboBox& box) {
  return {.read = [&box]() -> QJsonValue { return box.currentText(); },
          .write =
              [&box](const QJsonValue& value) {
                const int index = box.findText(value.toString());
                if (index < 0 || !box.isEnabled()) {
                  return value.toString().isEmpty();
                }
                box.setCurrentIndex(index);
                Q_EMIT box.activated(index);  // as by hand
                return true;
              }};
}

UiState::Knob slider_knob(QSlider& slider) {
  return {.read = [&slider]() -> QJsonValue { return slider.value(); },
          .write =
              [&slider](const QJsonValue& value) {
                slider.setValue(value.toInt(slider.value()));
                return true;
              }};
}

template <typename SpinBox>
UiState::Knob number_knob(SpinBox& box) {
  return {.read = [&box]() -> QJsonValue { return box.value(); },
          .write =
              [&box](const QJsonValue& value) {
                if constexpr (std::is_same_v<SpinBox, QSpinBox>) {
                  box.setValue(value.toInt(box.value()));
                } else {
                  box.setValue(value.toDouble(box.value()));
                }
                return true;
              }};
}

UiState::Knob switch_knob(QAbstractButton& button) {
  return {.read = [&button]() -> QJsonValue { return button.isChecked(); },
          .write =
              [&button](const QJsonValue& value) {
                if (value.toBool() != button.isChecked() && button.isEnabled()) {
                  button.click();  // as by hand
                }
                return value.toBool() == button.isChecked();
              }};
}

// Nothing to read or write: no knob.
UiState::Knob knob_of(QWidget& widget) {
  if (QComboBox* box = qobject_cast<QComboBox*>(&widget)) {
    return choice_knob(*box);
  }
  if (QSlider* slider = qobject_cast<QSlider*>(&widget)) {
    return slider_knob(*slider);
  }
  if (QDoubleSpinBox* box = qobject_cast<QDoubleSpinBox*>(&widget)) {
    return number_knob(*box);
  }
  if (QSpinBox* box = qobject_cast<QSpinBox*>(&widget)) {
    return number_knob(*box);
  }
  QAbstractButton* button = qobject_cast<QAbstractButton*>(&widget);
  return button != nullptr && button->isCheckable() ? switch_knob(*button) : UiState::Knob();
}

QString name_of(const QWidget& widget) {
  const QAbstractButton* button = qobject_cast<const QAbstractButton*>(&widget);
  const bool is_qts = widget.objectName().startsWith("qt_");
  return !widget.objectName().isEmpty() && !is_qts ? widget.objectName()
         : !widget.accessibleName().isEmpty()      ? widget.accessibleName()
         : button != nullptr                       ? button->text()
                                                   : QString();
}

}  // namespace

void UiState::add(Knob knob) {
  knobs_.push_back(std::move(knob));
}

void UiState::addWidgets(const QString& page, QWidget& root) {
  for (QWidget* widget : root.findChildren<QWidget*>()) {
    Knob knob = knob_of(*widget);
    const QString name = name_of(*widget);
    const bool is_there = std::any_of(knobs_.begin(), knobs_.end(), [&](const Knob& other) {
      return other.id == page + "." + name;
    });
    if (!knob.read || name.isEmpty() || is_there || widget->property(kFollowsProperty).toBool()) {
      continue;
    }
    knob.id = page + "." + name;
    knob.title = widget->accessibleName().isEmpty() ? name : widget->accessibleName();
    add(std::move(knob));
  }
}

QJsonObject UiState::read() const {
  QJsonObject values;
  for (const Knob& knob : knobs_) {
    values[knob.id] = knob.read();
  }
  return values;
}

QJsonObject UiState::readUndone() const {
  QJsonObject values;
  for (const Knob& knob : knobs_) {
    if (knob.is_undone) {
      values[knob.id] = knob.read();
    }
  }
  return values;
}

void UiState::write(const QJsonObject& values) {
  waiting_ = {};
  for (const Knob& knob : knobs_) {
    const QJsonValue value = values[knob.id];
    if (!value.isUndefined() && value != knob.read() && !knob.write(value)) {
      waiting_[knob.id] = value;
    }
  }
}

void UiState::retry() {
  if (!waiting_.isEmpty()) {
    write(QJsonObject(std::exchange(waiting_, {})));
  }
}

QString UiState::titleOf(const QString& id) const {
  const auto found =
      std::find_if(knobs_.begin(), knobs_.end(), [&id](const Knob& knob) { return knob.id == id; });
  return found == knobs_.end() ? QString() : found->title;
}

}  // namespace versieve::gui
