// The one filter of all views of the points: a line to type it, its parts as chips that a click
// takes away, and how many points it leaves. What it cannot read, it says.
#pragma once

#include <QWidget>

#include "gui/models/document.h"

class QComboBox;
class QLabel;
class QLineEdit;
class QToolButton;

namespace versieve::gui {

class FlowRow;

class FilterBar : public QWidget {
  Q_OBJECT
 public:
  // name: begins the object names of its parts ("explore": "exploreFilter"); empty: "filter".
  explicit FilterBar(Document& document, const QString& name = {}, QWidget* parent = nullptr);

  QComboBox& system() { return *system_; }
  QLineEdit& line() { return *filter_; }
  // Of the filter's parts, then of the pinned points; those that are seen.
  QList<QToolButton*> chips() const;
  // Of the placeholder: holds for points of the shipped databases.
  static QString filterExample() { return QStringLiteral("L>=4K  time<2ms  workload=step"); }

 private:
  void choose_system();
  void show_system();
  void show_filter();
  void show_chips();
  QToolButton* chip(qsizetype index);
  void take_away(int index);

  Document& document_;
  QComboBox* system_;
  QLineEdit* filter_;
  QLabel* count_;
  QLabel* error_;
  QWidget* chip_row_;
  FlowRow* chip_layout_;
  QList<QToolButton*> chips_;  // kept for the next filter where they are too many
};

}  // namespace versieve::gui
