#include "gui/pages/points_page.h"

#include <QCheckBox>
#include <QComboBox>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QScrollBar>
#include <QShortcut>
#include <QSplitter>
#include <QTableView>
#include <QTextBrowser>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>

#include "gui/models/comparison.h"
#include "gui/models/numbers.h"
#include "gui/models/plain_words.h"
#include "gui/models/point_column.h"
#include "gui/models/point_filter.h"
#include "gui/models/point_text.h"
#include "gui/views/table.h"
#include "gui/views/text.h"
#include "gui/views/theme.h"

namespace versieve::gui {
namespace {

const QString kSortSign = QStringLiteral(" \u25b4");  // a title needs room for it
constexpr int kHeaderPadding = 20;
constexpr int kAxisChars = 9;  // at least seen of a choice
const QString kSystemTerm = QStringLiteral("system=");

// All columns of a kind, each with its index as data.
QComboBox* column_box(ColumnKind kind, const char* chosen, const QString& accessible_name) {
  QComboBox* box = new QComboBox;
  box->setAccessibleName(accessible_name);
  int index = 0;
  for (const PointColumn& column : point_columns()) {
    if (column.kind == kind) {
      box->addItem(column.title, index);
    }
    ++index;
  }
  box->setCurrentIndex(box->findData(column_index(chosen)));
  box->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  box->setMinimumContentsLength(kAxisChars);
  return box;
}

}  // namespace

PointsPage::PointsPage(Document& document, QWidget* parent)
    : QWidget(parent),
      document_(document),
      points_(new PointTable(document, this)),
      table_(new QTableView),
      scatter_(new Scatter(document)),
      details_(new QTextBrowser),
      baseline_(new QToolButton),
      system_(new QComboBox),
      filter_(new QLineEdit),
      count_(quiet_label({})),
      filter_error_(new QLabel),
      x_(column_box(ColumnKind::kNumber, "L", tr("Horizontal axis"))),
      y_(column_box(ColumnKind::kNumber, "time", tr("Vertical axis"))),
      color_(column_box(ColumnKind::kText, "system", tr("Colour"))),
      x_log_(new QCheckBox(tr("log"))),
      y_log_(new QCheckBox(tr("log"))) {
  QSplitter* upper = new QSplitter(Qt::Horizontal);
  upper->addWidget(make_plot());
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
  layout->addWidget(make_filter_row());
  layout->addWidget(filter_error_);
  layout->addWidget(whole, 1);

  connect(&document, &Document::selectionChanged, this, &PointsPage::show_selected);
  connect(&document, &Document::shownChanged, this, &PointsPage::keep_selection);
  connect(&document, &Document::filterChanged, this, &PointsPage::show_filter);
  connect(&document, &Document::loaded, this, &PointsPage::choose_axes_for_data);
  connect(&document, &Document::pointRead, this,
          [this](const std::shared_ptr<const PointMeasurement>& point, const QString& sentence) {
            read_ = point;
            unread_because_ = sentence;
            show_details();
          });
  connect(&document, &Document::baselineChanged, this, &PointsPage::show_details);
  connect(scatter_, &Scatter::brushed, this, &PointsPage::brush);
}

QWidget* PointsPage::make_filter_row() {
  filter_->setPlaceholderText(
      tr("Filter: words, -words, and columns such as  %1").arg(filterExample()));
  filter_->setClearButtonEnabled(true);
  filter_->setAccessibleName(tr("Filter"));
  filter_error_->setObjectName("filterError");
  filter_error_->setWordWrap(true);
  filter_error_->hide();
  filter_->setObjectName("filter");
  connect(filter_, &QLineEdit::textChanged, &document_, &Document::setFilter);
  system_->setAccessibleName(tr("System"));
  system_->setObjectName("system");
  system_->addItem(tr("All systems"), QString());
  for (int i = 0; i < kSystemCount - 1; ++i) {
    const System system = static_cast<System>(i);
    system_->addItem(name_in_words(system), short_name(system));
  }
  connect(system_, &QComboBox::activated, this, &PointsPage::choose_system);
  QWidget* row = new QWidget;
  QHBoxLayout* layout = new QHBoxLayout(row);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addWidget(system_);
  layout->addWidget(filter_, 1);
  layout->addSpacing(8);
  layout->addWidget(count_);
  return row;
}

QWidget* PointsPage::make_plot() {
  x_log_->setChecked(true);
  y_log_->setChecked(true);
  for (QComboBox* box : {x_, y_, color_}) {
    connect(box, &QComboBox::currentIndexChanged, this, &PointsPage::set_axes);
  }
  for (QCheckBox* box : {x_log_, y_log_}) {
    connect(box, &QCheckBox::toggled, this, &PointsPage::set_axes);
  }
  QHBoxLayout* choices = new QHBoxLayout;
  choices->addWidget(quiet_label(tr("Vertical")));
  choices->addWidget(y_);
  choices->addWidget(y_log_);
  choices->addSpacing(8);
  choices->addWidget(quiet_label(tr("Horizontal")));
  choices->addWidget(x_);
  choices->addWidget(x_log_);
  choices->addSpacing(8);
  choices->addWidget(quiet_label(tr("Colour")));
  choices->addWidget(color_);
  choices->addStretch();
  QWidget* plot = new QWidget;
  QVBoxLayout* layout = new QVBoxLayout(plot);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addLayout(choices);
  layout->addWidget(scatter_, 1);
  return plot;
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
  // Not the button's own shortcut, which would take the focus from where one is.
  QShortcut* key = new QShortcut(Qt::Key_B, this);
  connect(key, &QShortcut::activated, this, [this] {
    if (baseline_->isEnabled()) {
      toggle_baseline();
    }
  });
  QWidget* whole = new QWidget;
  QVBoxLayout* layout = new QVBoxLayout(whole);
  layout->setContentsMargins(8, 0, 0, 0);
  layout->addWidget(baseline_, 0, Qt::AlignLeft);
  layout->addWidget(details_, 1);
  return whole;
}

// Of the selected point; of the baseline itself, no baseline any more.
void PointsPage::toggle_baseline() {
  const int selected = document_.selected();
  document_.setBaseline(selected == document_.baseline() ? -1 : selected);
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
  const QString hidden = points_->rowOf(selected) < 0
                             ? tr("<p><b>The filter hides this point; it stays selected.</b></p>")
                             : QString();
  const QString compared = baseline < 0 ? QString() : comparison_html(snapshot, selected, baseline);
  details_->setHtml(
      hidden +
      point_html(*read_, snapshot.overview.points[static_cast<std::size_t>(selected)], compared));
}

// What was brushed stands in the filter, where it can be read, changed and copied.
void PointsPage::brush(const QRectF& values) {
  const auto key_of = [](int column) {
    return QString(point_columns()[static_cast<std::size_t>(column)].key);
  };
  const QString x_brushed = with_range(document_.filterText(), key_of(scatter_->xColumn()),
                                       values.left(), values.right());
  document_.setFilter(
      with_range(x_brushed, key_of(scatter_->yColumn()), values.top(), values.bottom()));
}

void PointsPage::recolor() {
  style_text(*details_);
  show_details();
  show_filter();
}

QWidget* PointsPage::make_table() {
  style_table(*table_);
  table_->setObjectName("points");
  table_->setAccessibleName(tr("Points"));
  table_->setModel(points_);
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

// One more way to write a term of the filter.
void PointsPage::choose_system() {
  QStringList terms = terms_of(document_.filterText());
  terms.removeIf([](const QString& term) { return term.startsWith(kSystemTerm); });
  const QString system = system_->currentData().toString();
  if (!system.isEmpty()) {
    terms.prepend(kSystemTerm + system);
  }
  document_.setFilter(terms.join(' '));
}

void PointsPage::show_system() {
  int shown = 0;
  for (const QString& term : terms_of(document_.filterText())) {
    if (term.startsWith(kSystemTerm)) {
      const QString name = term.mid(kSystemTerm.size());
      shown = std::max(0, system_->findData(name, Qt::UserRole, Qt::MatchFixedString));
    }
  }
  system_->setCurrentIndex(shown);
}

void PointsPage::set_axes() {
  scatter_->setX(x_->currentData().toInt());
  scatter_->setY(y_->currentData().toInt());
  scatter_->setColor(color_->currentData().toInt());
  scatter_->setLog(x_log_->isChecked(), y_log_->isChecked());
}

// The table forgets its current row with each filter; the selection is the document's.
void PointsPage::keep_selection() {
  const int row = points_->rowOf(document_.selected());
  if (row >= 0) {
    table_->setCurrentIndex(points_->index(row, 0));
    table_->scrollTo(points_->index(row, 0), QAbstractItemView::PositionAtCenter);
  }
  if (read_) {
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

void PointsPage::show_filter() {
  if (filter_->text() != document_.filterText()) {
    filter_->setText(document_.filterText());
  }
  show_system();
  const QString& error = document_.filterError();
  const qsizetype all = document_.snapshot()
                            ? static_cast<qsizetype>(document_.snapshot()->overview.points.size())
                            : 0;
  count_->setText(tr("%1 of %2 points")
                      .arg(fixed(static_cast<double>(document_.shown().size()), 0),
                           fixed(static_cast<double>(all), 0)));
  QString sentence = error.isEmpty() ? error : tr("Not filtered: %1.").arg(error);
  if (error.isEmpty() && all > 0 && document_.shown().empty()) {
    sentence =
        tr("No point is left: %1.")
            .arg(PointFilter::parse(document_.filterText()).emptyBecause(*document_.snapshot()));
  }
  filter_error_->setText(sentence);
  filter_error_->setStyleSheet("color: " + theme::colors().warning.name());
  filter_error_->setVisible(!sentence.isEmpty());
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

// A database without times (acceptance only) starts with what it has; the first row is selected, so
// that the page shows what a selection does.
void PointsPage::choose_axes_for_data() {
  table_->setColumnWidth(column_index("strategy"), strategy_width());
  if (document_.selected() < 0) {
    document_.select(points_->rowCount() > 0 ? points_->pointAt(0) : -1);
  }
  const std::vector<db::PointOverview>& points = document_.snapshot()->overview.points;
  const bool has_times =
      points.empty() || std::any_of(points.begin(), points.end(), [](const db::PointOverview& p) {
        return p.median_ns.has_value();
      });
  if (has_times && y_follows_data_) {
    y_->setCurrentIndex(y_->findData(column_index("time")));
  } else if (!has_times) {
    y_->setCurrentIndex(y_->findData(column_index("accepted")));
  }
  y_follows_data_ = !has_times;
}

}  // namespace versieve::gui
