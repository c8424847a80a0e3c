// A number that is typed or stepped. A comma is read as a point; what is no number, or lies outside
// the range, is said in a sentence and leaves the value as it was: nothing is cut to fit.
#pragma once

#include <QDoubleSpinBox>

namespace versieve::gui {

class NumberKnob : public QDoubleSpinBox {
  Q_OBJECT
 public:
  explicit NumberKnob(const QString& what, QWidget* parent = nullptr);

  QValidator::State validate(QString& text, int& position) const override;
  void fixup(QString& text) const override;
  double valueFromText(const QString& text) const override;

 Q_SIGNALS:
  void refused(const QString& sentence) const;

 private:
  // The number itself, without prefix and suffix, commas as points.
  QString bare(const QString& text) const;
  QString current() const;  // the value as it stands, whatever is being typed
  // Why the text is not taken; empty if it is.
  QString refusal(const QString& text) const;

  QString what_;  // "the memory bandwidth"
};

}  // namespace versieve::gui
