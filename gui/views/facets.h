// How the points are spread over each column: a bar for each text, a histogram of each number; all
// in grey, the shown ones in colour. A click keeps what is clicked alone (again: all), Ctrl and a
// click leave it out or take it in, a drag over a histogram keeps what it covers. Keys: up and down
// go from bar to bar, left and right within a histogram, Space does what a click does.
#pragma once

#include <QWidget>
#include <memory>
#include <vector>

#include "gui/models/document.h"
#include "gui/views/parallel_axes.h"

namespace versieve::gui {

// What a worker makes of a snapshot.
struct FacetColumn {
  ParallelAxis axis;
  std::vector<std::uint8_t> bars;  // [point] = its bar
  std::vector<int> all;            // [bar]
};

class Facets : public QWidget {
  Q_OBJECT
 public:
  explicit Facets(Document& document, QWidget* parent = nullptr);

  bool isReady() const { return !columns_job_.isRunning() && !count_job_.isRunning(); }
  int columnCount() const { return columns_ ? static_cast<int>(columns_->size()) : 0; }
  const FacetColumn& column(int index) const;
  int shownCount(int column, int bar) const;
  QRectF barRect(int column, int bar) const;
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return {150, sizeHint().height()}; }
  QVariant inputMethodQuery(Qt::InputMethodQuery query) const override;  // what is scrolled to

 protected:
  void paintEvent(QPaintEvent* event) override;
  void showEvent(QShowEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  struct Bar {
    int column = -1, bar = -1;
    bool operator==(const Bar&) const = default;
  };
  using Counts = std::vector<std::vector<int>>;  // [column][bar]

  void make_columns();
  void count_shown();
  void take_counts(const Counts& counts);
  Bar bar_at(const QPointF& place) const;
  void keep(const Bar& from, const Bar& to, bool adds);
  bool is_kept_alone(const Bar& bar) const;
  void go(int step, bool within);
  void tell();
  double top_of(int column) const;
  void draw_texts(QPainter& painter, int column) const;
  void draw_numbers(QPainter& painter, int column) const;
  void draw_bar(QPainter& painter, const QRectF& whole, int column, int bar, bool upright) const;

  Document& document_;
  std::shared_ptr<const std::vector<FacetColumn>> columns_;  // may be null
  SnapshotPtr made_of_;
  Counts shown_;
  Job columns_job_, count_job_;
  bool is_stale_ = false;  // while it is not seen
  Bar current_{0, 0};      // of the keys
  Bar pressed_;
};

}  // namespace versieve::gui
