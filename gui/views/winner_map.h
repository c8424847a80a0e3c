// Which strategy wins over two knobs of the hardware: a cell a machine, coloured by its winner,
// with a line where the winner changes, the machines of the catalogue as marks, and a legend.
// Arrows and the pointer move a cursor whose cell is told.
#pragma once

#include <QWidget>

#include "gui/models/sensitivity.h"
#include "gui/views/saved_view.h"

namespace versieve::gui {

class WinnerMap : public QWidget, public SavedView {
  Q_OBJECT
 public:
  explicit WinnerMap(QWidget* parent = nullptr);

  void show_answer(const SensitivityPtr& answer);
  QRectF cellRect(int column, int row) const;
  int column() const { return column_; }
  int row() const { return row_; }
  // Machines of the catalogue that lie within the map, by key.
  QStringList machinesShown() const;
  QList<QStringList> savedRows() const override;
  QSize minimumSizeHint() const override { return {380, 320}; }

 Q_SIGNALS:
  void cellTold(const QString& text);

 protected:
  void paintEvent(QPaintEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  struct Mark {
    QString key;
    QPointF place;
  };

  QRectF area() const;
  int legend_height() const;
  // Where a value lies along an axis, 0 to 1; outside: it is not on the map.
  static double along(double value, const std::vector<double>& values);
  std::vector<Mark> marks() const;
  void tell(int column, int row);
  void tell_at(const QPointF& place);
  void draw_cells(QPainter& painter) const;
  void draw_axes(QPainter& painter) const;
  void draw_marks(QPainter& painter) const;
  void draw_legend(QPainter& painter) const;

  SensitivityPtr answer_;
  std::optional<std::pair<Knob, Knob>> asked_;  // that the cursor was set for
  int column_ = kMapSide / 2;
  int row_ = kMapSide / 2;
};

}  // namespace versieve::gui
