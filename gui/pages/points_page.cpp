#include "gui/pages/points_page.h"

#include <QEvent>
#include <QHeaderView>
#include <QScrollBar>
#include <QSplitter>
#include <QStyledItemDelegate>
#include <QTableView>
#include <QTextBrowser>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>

#include "gui/models/comparison.h"
#include "gui/models/numbers.h"
#include "gui/models/plain_words.h"
#include "gui/models/point_column.h"
#include "gui/models/point_text.h"
#include "gui/views/decimal_cells.h"
#include "gui/views/table.h"
#include "gui/views/text.h"
#include "gui/views/theme.h"
#include "gui/views/ui_state.h"

namespace versieve::gui {
namespace {

const QString kSortSign = QStringLiteral(" \u25b4");  // a title needs room for it
constexpr int kHeaderPadding = 20;
// Rows of the point under the pointer in any view and of pinned ones stand out.
class PointRow : public DecimalCells {
 public:
  PointRow(const Document& document, const PointTable& points, QObject* parent)
      : DecimalCells(parent), document_(document), points_(points) {}

 protected:
  void initStyleOption(QStyleOptionViewItem* option, const QModelIndex& index) const override {
    DecimalCells::initStyleOption(option, index);
    const int point = points_.pointAt(index.row());
    const std::vector<int>& pins = document_.pins();
    if (point == document_.hovered()) {
      option->backgroundBrush = theme::colors().accent_tint;
    }
    if (std::find(pins.begin(), pins.end(), point) != pins.end()) {
      option->font.setBold(true);
    }
  }

 private:
  const Document& document_;
  const PointTable& points_;
};

}  // namespace

PointsPage::PointsPage(Document& document, QWidget* parent)
    : QWidget(parent),
      document_(document),
      points_(new PointTable(document, this)),
      table_(new QTableView),
      filter_(new FilterBar(document)),
      plot_(new ScatterPanel(document, "points")),
      details_(new QTextBrowser),
      baseline_(new QToolButton) {
  QSplitter* upper = new QSplitter(Qt::Horizontal);
  upper->addWidget(plot_);
  upper->addWidget(make_details());
  upper->setStretchFactor(0, 1);
  upper->setSizes({930, 440});
  QSplitter* whole = new QSplitter(Qt::Vertical);
  whole->addWidget(upper);
  whole->addWidget(make_table());
  whole->setStretchFactor(0, 3);
  whole->setStretchFactor(1, 2);
  whole->setSizes({450, 300});
  QVBoxLayout* layout = new QVBoxLayout(this);
  layout->setContentsMargins(12, 10, 12, 10);
  layout->addWidget(filter_);
  layout->addWidget(whole, 1);

  connect(&document, &Document::selectionChanged, this, &PointsPage::show_selected);
  connect(&document, &Document::shownChanged, this, &PointsPage::keep_selection);
  connect(&document, &Document::loaded, this, &PointsPage::greet_data);
  connect(&document, &Document::pointRead, this,
          [this](const std::shared_ptr<const PointMeasurement>& point, const QString& sentence) {
            read_ = point;
            unread_because_ = sentence;
            show_details();
          });
  connect(&document, &Document::baselineChanged, this, &PointsPage::show_details);
  connect(&document, &Document::hoverChanged, table_->viewport(),
          QOverload<>::of(&QWidget::update));
  connect(&document, &Document::pinsChanged, table_->viewport(), QOverload<>::of(&QWidget::update));
}

QWidget* PointsPage::make_details() {
  style_text(*details_);
  details_->setPlaceholderText(tr("Click a point or a row to see all of it."));
  details_->setAccessibleName(tr("The selected point"));
  details_->setObjectName("point");
  baseline_->setText(tr("Compare with this"));
  baseline_->setObjectName("baseline");
  baseline_->setCheckable(true);
  baseline_->setFocusPolicy(Qt::StrongFocus);
  baseline_->setToolTip(
      tr("Makes the selected point the baseline: every other shows its time over this one's (B)"));
  connect(baseline_, &QToolButton::clicked, this, &PointsPage::toggle_baseline);
  baseline_->setProperty(kFollowsProperty, true);  // the document's baseline
  QWidget* whole = new QWidget;
  QVBoxLayout* layout = new QVBoxLayout(whole);
  layout->setContentsMargins(8, 0, 0, 0);
  layout->addWidget(baseline_, 0, Qt::AlignLeft);
  layout->addWidget(details_, 1);
  return whole;
}

void PointsPage::toggle_baseline() {
  document_.toggleBaseline();
  show_details();
}

void PointsPage::show_details() {
  const int selected = document_.selected();
  const int baseline = document_.baseline();
  baseline_->setEnabled(selected >= 0);
  baseline_->setChecked(selected >= 0 && selected == baseline);
  if (selected < 0 || !read_) {
    details_->setPlainText(selected < 0 ? QString() : unread_because_);
    return;
  }
  const Snapshot& snapshot = *document_.snapshot();
  says_hidden_ = points_->rowOf(selected) < 0;
  const QString hidden = says_hidden_
                             ? tr("<p><b>The filter hides this point; it stays selected.</b></p>")
                             : QString();
  const QString compared = baseline < 0 ? QString() : comparison_html(snapshot, selected, baseline);
  details_->setHtml(
      hidden +
      point_html(*read_, snapshot.overview.points[static_cast<std::size_t>(selected)], compared));
}

bool PointsPage::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::Leave) {
    document_.hover(-1);
  }
  return QWidget::eventFilter(watched, event);
}

void PointsPage::recolor() {
  style_text(*details_);
  show_details();
}

QWidget* PointsPage::make_table() {
  style_table(*table_);
  table_->setObjectName("points");
  table_->setAccessibleName(tr("Points"));
  table_->setModel(points_);
  table_->setItemDelegate(new PointRow(document_, *points_, table_));
  table_->setMouseTracking(true);
  connect(table_, &QTableView::entered, this,
          [this](const QModelIndex& cell) { document_.hover(points_->pointAt(cell.row())); });
  table_->viewport()->installEventFilter(this);
  table_->setSortingEnabled(true);
  table_->horizontalHeader()->setSortIndicatorClearable(false);
  table_->sortByColumn(column_index("L"), Qt::AscendingOrder);
  int index = 0;
  for (const PointColumn& column : point_columns()) {
    const int title = fontMetrics().horizontalAdvance(
        points_->headerData(index, Qt::Horizontal, Qt::DisplayRole).toString() + kSortSign);
    const int text = fontMetrics().averageCharWidth() * (column.width + 2);
    table_->setColumnWidth(index, std::max(title + kHeaderPadding, text));
    ++index;
  }
  table_->setColumnWidth(
      index, fontMetrics().horizontalAdvance(tr("× baseline") + kSortSign) + kHeaderPadding);
  table_->horizontalHeader()->moveSection(index, column_index("time") + 1);
  connect(table_->selectionModel(), &QItemSelectionModel::currentRowChanged, this,
          [this](const QModelIndex& current) {
            if (current.isValid()) {
              document_.select(points_->pointAt(current.row()));
            }
          });
  return table_;
}

// The table forgets its current row with each filter; the selection is the document's.
void PointsPage::keep_selection() {
  const int row = points_->rowOf(document_.selected());
  if (row >= 0) {
    table_->setCurrentIndex(points_->index(row, 0));
    table_->scrollTo(points_->index(row, 0), QAbstractItemView::PositionAtCenter);
  }
  if (read_ && says_hidden_ != (row < 0)) {
    show_details();
  }
}

void PointsPage::show_selected(int point) {
  const int row = points_->rowOf(point);
  if (row < 0) {
    table_->clearSelection();
    table_->setCurrentIndex({});
  } else if (table_->currentIndex().row() != row) {
    const int column = table_->horizontalScrollBar()->value();
    table_->setCurrentIndex(points_->index(row, 0));
    table_->scrollTo(points_->index(row, 0), QAbstractItemView::PositionAtCenter);
    table_->horizontalScrollBar()->setValue(column);
  }
  read_.reset();
  unread_because_.clear();
  if (point < 0) {
    show_details();
  } else {
    baseline_->setEnabled(true);
    baseline_->setChecked(point == document_.baseline());
  }
}

// Of the longest strategy text, within reason.
int PointsPage::strategy_width() const {
  constexpr int kMostPixels = 330, kPadding = 24;
  int width = table_->columnWidth(column_index("strategy"));
  for (const QString& word : document_.snapshot()->words) {
    if (word.contains('/')) {
      width = std::max(width, fontMetrics().horizontalAdvance(compact(word)) + kPadding);
    }
  }
  return std::min(width, kMostPixels);
}

// The first row is selected, so that the page shows what a selection does.
void PointsPage::greet_data() {
  table_->setColumnWidth(column_index("strategy"), strategy_width());
  if (document_.selected() < 0) {
    document_.select(points_->rowCount() > 0 ? points_->pointAt(0) : -1);
  }
}

}  // namespace versieve::gui
