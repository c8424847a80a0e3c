// What a plan is after: the most tokens a second, the most within bounds between tokens and to the
// first one, or the most a joule; and the file that says how long prompts take, without which no
// bound to a first token can be kept. The bounds stand there once they matter.
#pragma once

#include <QWidget>

#include "gui/models/plan.h"

class QComboBox;
class QPushButton;

namespace versieve::gui {

class NumberKnob;

class ObjectiveKnobs : public QWidget {
  Q_OBJECT
 public:
  enum Aim { kTokens, kLatency, kEnergy };

  explicit ObjectiveKnobs(QWidget* parent = nullptr);

  void showScope(const PlanScope& scope);
  void writeTo(PlanScope& scope) const;
  void choose(Aim aim);
  Aim aim() const;
  void setPrompts(const QString& path);  // of bench prefill --out; empty: none
  void askForPrompts();

  QComboBox& aims() { return *aims_; }
  NumberKnob& bound() { return *bound_; }  // between tokens; 0: none
  NumberKnob& first() { return *first_; }  // to the first token; 0: none
  QPushButton& prompts() { return *prompts_; }

 Q_SIGNALS:
  void turned();
  void refused(const QString& sentence);

 private:
  void show_bounds();

  QComboBox* aims_;
  NumberKnob* bound_;
  NumberKnob* first_;
  QPushButton* prompts_;
  QWidget* bounds_;  // what the aim needs
  QString prompts_path_;
};

}  // namespace versieve::gui
