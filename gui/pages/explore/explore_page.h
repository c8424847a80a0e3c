// What do all the points look like at once? Histograms, parallel coordinates and a plane, one
// filter over them; what is pointed at, selected or pinned in one of them is so in all.
#pragma once

#include <QWidget>

#include "gui/views/facets.h"
#include "gui/views/filter_bar.h"
#include "gui/views/parallel_plot.h"
#include "gui/views/scatter_panel.h"

class QMenu;
class QToolButton;

namespace versieve::gui {

class ExplorePage : public QWidget {
  Q_OBJECT
 public:
  explicit ExplorePage(Document& document, QWidget* parent = nullptr);

  FilterBar& filter() { return *filter_; }
  Facets& facets() { return *facets_; }
  ParallelPlot& parallel() { return *parallel_; }
  ScatterPanel& plot() { return *plot_; }
  QToolButton& axes() { return *axes_; }

 private:
  QWidget* make_parallel();
  void list_axes();
  void toggle_axis(int column, bool is_there);

  Document& document_;
  FilterBar* filter_;
  Facets* facets_;
  ParallelPlot* parallel_;
  ScatterPanel* plot_;
  QToolButton* axes_;
  QMenu* axes_menu_;
};

}  // namespace versieve::gui
