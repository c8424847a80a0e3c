// What was measured? One filter, one plot, one table and one point in full, all showing the same.
#pragma once

#include <QWidget>

#include "gui/models/document.h"
#include "gui/models/point_table.h"
#include "gui/views/scatter.h"

class QCheckBox;
class QComboBox;
class QLabel;
class QLineEdit;
class QTableView;
class QTextBrowser;
class QToolButton;

namespace versieve::gui {

class PointsPage : public QWidget {
  Q_OBJECT
 public:
  explicit PointsPage(Document& document, QWidget* parent = nullptr);

  Scatter& scatter() { return *scatter_; }
  QTableView& table() { return *table_; }
  PointTable& points() { return *points_; }
  QComboBox& system() { return *system_; }
  // Of the placeholder: holds for points of the shipped databases.
  static QString filterExample() { return QStringLiteral("L>=4K  time<2ms  workload=step"); }
  void recolor();  // the palette has changed

 private:
  QWidget* make_filter_row();
  QWidget* make_plot();
  QWidget* make_table();
  QWidget* make_details();
  void brush(const QRectF& values);
  void toggle_baseline();
  void show_details();
  void choose_system();
  void show_system();
  void set_axes();
  int strategy_width() const;
  void keep_selection();
  void show_selected(int point);
  void show_filter();
  void choose_axes_for_data();

  Document& document_;
  PointTable* points_;
  QTableView* table_;
  Scatter* scatter_;
  QTextBrowser* details_;
  QToolButton* baseline_;
  std::shared_ptr<const PointMeasurement> read_;  // the selected point, if it was read
  QString unread_because_;
  bool y_follows_data_ = false;  // chosen for a database without times
  QComboBox* system_;
  QLineEdit* filter_;
  QLabel* count_;
  QLabel* filter_error_;
  QComboBox* x_;
  QComboBox* y_;
  QComboBox* color_;
  QCheckBox* x_log_;
  QCheckBox* y_log_;
};

}  // namespace versieve::gui
