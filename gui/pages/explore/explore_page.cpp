#include "gui/pages/explore/explore_page.h"

#include <QCheckBox>
#include <QHBoxLayout>
#include <QLabel>
#include <QMenu>
#include <QScrollArea>
#include <QSplitter>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>

#include "gui/models/point_column.h"
#include "gui/views/text.h"

namespace versieve::gui {

ExplorePage::ExplorePage(Document& document, QWidget* parent)
    : QWidget(parent),
      document_(document),
      filter_(new FilterBar(document, "explore")),
      facets_(new Facets(document)),
      parallel_(new ParallelPlot(document)),
      plot_(new ScatterPanel(document, "explore")),
      axes_(new QToolButton),
      axes_menu_(new QMenu(this)) {
  QScrollArea* side = new QScrollArea;
  side->setWidget(facets_);
  side->setWidgetResizable(true);
  side->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  side->setFrameShape(QFrame::NoFrame);
  side->setFocusPolicy(Qt::NoFocus);
  QSplitter* pictures = new QSplitter(Qt::Vertical);
  pictures->addWidget(make_parallel());
  pictures->addWidget(plot_);
  pictures->setSizes({360, 400});
  pictures->setChildrenCollapsible(false);
  QSplitter* whole = new QSplitter(Qt::Horizontal);
  whole->addWidget(side);
  whole->addWidget(pictures);
  whole->setStretchFactor(1, 1);
  whole->setSizes({230, 1100});
  QVBoxLayout* layout = new QVBoxLayout(this);
  layout->setContentsMargins(12, 10, 12, 10);
  layout->addWidget(filter_);
  layout->addWidget(whole, 1);
  plot_->front().setChecked(true);
  connect(parallel_, &ParallelPlot::columnsChanged, this, &ExplorePage::list_axes);
}

QWidget* ExplorePage::make_parallel() {
  axes_->setText(tr("Axes"));
  axes_->setObjectName("axes");
  axes_->setAccessibleName(tr("Axes of the parallel coordinates"));
  axes_->setToolTip(tr("Which columns are axes; a title is dragged to move its axis"));
  axes_->setFocusPolicy(Qt::StrongFocus);
  axes_->setPopupMode(QToolButton::InstantPopup);
  axes_->setMenu(axes_menu_);
  QLabel* hint = quiet_label(tr("Drag along an axis to keep a part of it; click it to keep all."));
  QHBoxLayout* row = new QHBoxLayout;
  row->setContentsMargins(0, 0, 0, 0);
  row->addWidget(axes_);
  row->addSpacing(8);
  row->addWidget(hint, 1);
  hint->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  QWidget* whole = new QWidget;
  QVBoxLayout* layout = new QVBoxLayout(whole);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addLayout(row);
  layout->addWidget(parallel_, 1);
  return whole;
}

void ExplorePage::list_axes() {
  axes_menu_->clear();
  const std::vector<int>& shown = parallel_->columns();
  int index = 0;
  for (const PointColumn& column : point_columns()) {
    QAction* action = axes_menu_->addAction(QString::fromUtf8(column.title));
    action->setCheckable(true);
    action->setChecked(std::find(shown.begin(), shown.end(), index) != shown.end());
    connect(action, &QAction::triggered, this,
            [this, index](bool is_there) { toggle_axis(index, is_there); });
    ++index;
  }
}

// A new one stands last.
void ExplorePage::toggle_axis(int column, bool is_there) {
  std::vector<int> columns = parallel_->columns();
  columns.erase(std::remove(columns.begin(), columns.end(), column), columns.end());
  if (is_there) {
    columns.push_back(column);
  }
  parallel_->setColumns(columns);
}

}  // namespace versieve::gui
