// What was measured? One filter, one plot, one table and one point in full, all showing the same.
#pragma once

#include <QWidget>

#include "gui/models/document.h"
#include "gui/models/point_table.h"
#include "gui/views/filter_bar.h"
#include "gui/views/scatter_panel.h"

class QTableView;
class QTextBrowser;
class QToolButton;

namespace versieve::gui {

class PointsPage : public QWidget {
  Q_OBJECT
 public:
  explicit PointsPage(Document& document, QWidget* parent = nullptr);

  Scatter& scatter() { return plot_->scatter(); }
  ScatterPanel& plot() { return *plot_; }
  QTableView& table() { return *table_; }
  PointTable& points() { return *points_; }
  FilterBar& filter() { return *filter_; }
  QComboBox& system() { return filter_->system(); }
  static QString filterExample() { return FilterBar::filterExample(); }
  void recolor();  // the palette has changed

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;  // the pointer leaves the table

 private:
  QWidget* make_table();
  QWidget* make_details();
  void toggle_baseline();
  void show_details();
  int strategy_width() const;
  void keep_selection();
  void show_selected(int point);
  void greet_data();

  Document& document_;
  PointTable* points_;
  QTableView* table_;
  FilterBar* filter_;
  ScatterPanel* plot_;
  QTextBrowser* details_;
  QToolButton* baseline_;
  std::shared_ptr<const PointMeasurement> read_;  // the selected point, if it was read
  QString unread_because_;
  bool says_hidden_ = false;  // of the selected point
};

}  // namespace versieve::gui
