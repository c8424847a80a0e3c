#include "gui/views/number_knob.h"

#include <QToolTip>
#include <cmath>

namespace versieve::gui {

NumberKnob::NumberKnob(const QString& what, QWidget* parent) : QDoubleSpinBox(parent), what_(what) {
  setKeyboardTracking(false);  // a number is taken when it is written
}

QString NumberKnob::bare(const QString& text) const {
  QString number = text;
  if (!suffix().isEmpty() && number.endsWith(suffix().trimmed())) {
    number.chop(suffix().trimmed().size());
  }
  return number.trimmed().replace(',', '.');
}

QString NumberKnob::refusal(const QString& text) const {
  if (!specialValueText().isEmpty() && text.trimmed() == specialValueText()) {
    return {};
  }
  bool is_number = false;
  const double number = bare(text).toDouble(&is_number);
  if (!is_number || !std::isfinite(number)) {
    return tr("“%1” is no number: %2 stays %3").arg(text.trimmed(), what_, current());
  }
  if (!specialValueText().isEmpty() && number == minimum()) {
    return {};  // what that text stands for
  }
  const double low = specialValueText().isEmpty() ? minimum() : minimum() + singleStep();
  if (number < low || number > maximum()) {
    return tr("%1 is from %2 to %3%4, not %5: it stays %6")
        .arg(what_)
        .arg(low)
        .arg(maximum())
        .arg(suffix())
        .arg(bare(text), current());
  }
  return {};
}

QValidator::State NumberKnob::validate(QString& text, int&) const {
  return refusal(text).isEmpty() ? QValidator::Acceptable : QValidator::Intermediate;
}

QString NumberKnob::current() const {
  return value() == minimum() && !specialValueText().isEmpty() ? specialValueText()
                                                               : textFromValue(value()) + suffix();
}

// Asked when the text is left in a state that validate() does not take.
void NumberKnob::fixup(QString& text) const {
  const QString sentence = refusal(text);
  text = current();
  if (!sentence.isEmpty()) {
    QToolTip::showText(mapToGlobal(QPoint(0, height())), sentence);
    Q_EMIT refused(sentence);
  }
}

double NumberKnob::valueFromText(const QString& text) const {
  if (!specialValueText().isEmpty() && text.trimmed() == specialValueText()) {
    return minimum();
  }
  return bare(text).toDouble();
}

}  // namespace versieve::gui
