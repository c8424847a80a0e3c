#include "gui/pages/compare/compare_page.h"

#include <QClipboard>
#include <QComboBox>
#include <QDir>
#include <QDragEnterEvent>
#include <QFileDialog>
#include <QFileInfo>
#include <QGuiApplication>
#include <QHeaderView>
#include <QLabel>
#include <QMimeData>
#include <QPushButton>
#include <QSignalBlocker>
#include <QSplitter>
#include <QStackedWidget>
#include <QTableView>
#include <QTextBrowser>
#include <QVBoxLayout>
#include <algorithm>

#include "gui/models/command_words.h"
#include "gui/views/choice.h"
#include "gui/views/elided_text.h"
#include "gui/views/flow_row.h"
#include "gui/views/number_knob.h"
#include "gui/views/ratio_plot.h"
#include "gui/views/table.h"
#include "gui/views/text.h"
#include "gui/views/theme.h"

namespace versieve::gui {
namespace {

constexpr int kSaidLines = 2;
constexpr double kMeasuredNoise = -0.1;  // of the knob: what repeated measurements show
constexpr int kMostColumn = 330;         // pixels
constexpr int kMeasuredRows = 60;        // of thousands, for the width of a column

int index_of(const Snapshot& snapshot, std::int64_t id) {
  const std::vector<db::PointOverview>& points = snapshot.overview.points;
  const auto found = std::lower_bound(
      points.begin(), points.end(), id,
      [](const db::PointOverview& point, std::int64_t wanted) { return point.id < wanted; });
  return found != points.end() && found->id == id ? static_cast<int>(found - points.begin()) : -1;
}

// A database that ships beside the open one, other than it.
QString other_database(const QString& open) {
  const QFileInfo file(open);
  QString best;
  qint64 most = 0;
  for (const QFileInfo& other : file.dir().entryInfoList({"*.db"}, QDir::Files, QDir::Name)) {
    if (other.fileName() != file.fileName() && other.size() > most) {
      best = other.filePath();
      most = other.size();
    }
  }
  return best;
}

}  // namespace

ComparePage::ComparePage(Document& document, QWidget* parent)
    : QWidget(parent),
      document_(document),
      comparer_(new Comparer(this)),
      rows_(new ComparisonRows(this)),
      first_(new QLabel),
      against_(named_choice(tr("Against"), "compareAgainst")),
      add_(new QPushButton(tr("Add…"))),
      remove_(new QPushButton(tr("Remove"))),
      swap_(new QPushButton(tr("Swap"))),
      figure_(named_choice(tr("Figure"), "compareFigure")),
      noise_(new NumberKnob(tr("the noise"))),
      command_(new QPushButton(tr("Copy command"))),
      stack_(new QStackedWidget),
      message_(quiet_label({})),
      shipped_(new QPushButton),
      said_(new ElidedText(kSaidLines)),
      plot_(new RatioPlot(*rows_)),
      table_(new QTableView),
      details_(new QTextBrowser) {
  setAcceptDrops(true);
  stack_->addWidget(make_empty());
  stack_->addWidget(make_answer());
  QVBoxLayout* layout = new QVBoxLayout(this);
  layout->setContentsMargins(12, 10, 12, 10);
  layout->addWidget(make_choices());
  layout->addWidget(stack_, 1);
  connect(comparer_, &Comparer::changed, this, &ComparePage::show_files);
  connect(&document_, &Document::loaded, this, &ComparePage::take_document);
  connect(&document_, &Document::shownChanged, this, &ComparePage::show_rows);
  take_document();
}

QWidget* ComparePage::make_choices() {
  add_->setObjectName("compareAdd");
  add_->setToolTip(tr("A database, or a table that the planner has exported"));
  remove_->setObjectName("compareRemove");
  remove_->setToolTip(tr("Leaves out the file that is shown against the first"));
  swap_->setObjectName("compareSwap");
  swap_->setToolTip(tr("The first becomes the second"));
  command_->setObjectName("compareCommand");
  figure_->addItems({tr("time"), tr("DRAM bytes"), tr("tokens a step")});
  noise_->setObjectName("compareNoise");
  noise_->setAccessibleName(tr("Noise between runs"));
  noise_->setToolTip(
      tr("Two that differ by no more are the same; as measured: what 95 % of repeated "
         "measurements of one tuple differ by"));
  noise_->setDecimals(1);
  noise_->setSingleStep(0.5);
  noise_->setRange(kMeasuredNoise, 100.0);
  noise_->setValue(kMeasuredNoise);
  noise_->setSpecialValueText(tr("as measured"));
  noise_->setSuffix(tr(" %"));
  first_->setMinimumWidth(60);
  connect(add_, &QPushButton::clicked, this, &ComparePage::ask_for_file);
  connect(remove_, &QPushButton::clicked, this, [this] {
    const int at = std::max(0, against_->currentIndex());
    if (at + 1 < comparer_->paths().size()) {
      comparer_->remove(comparer_->paths()[at + 1]);
    }
  });
  connect(swap_, &QPushButton::clicked, comparer_, &Comparer::swap);
  connect(command_, &QPushButton::clicked, this, &ComparePage::copy_command);
  connect(against_, &QComboBox::currentIndexChanged, this, &ComparePage::show_rows);
  connect(figure_, &QComboBox::currentIndexChanged, this,
          [this](int index) { comparer_->setFigure(static_cast<engine::ComparedFigure>(index)); });
  connect(noise_, &QDoubleSpinBox::valueChanged, this, [this](double percent) {
    comparer_->setNoise(percent < 0.0 ? std::nullopt : std::optional<double>(percent / 100.0));
  });
  connect(noise_, &NumberKnob::refused, this, &ComparePage::said);
  QWidget* row = new QWidget;
  FlowRow* layout = new FlowRow(row);
  layout->addNamed(quiet_label(tr("First")), first_);
  layout->addNamed(quiet_label(tr("against")), against_);
  layout->addWidget(add_);
  layout->addWidget(remove_);
  layout->addWidget(swap_);
  layout->addNamed(quiet_label(tr("Figure")), figure_);
  layout->addNamed(quiet_label(tr("Noise")), noise_);
  layout->addWidget(command_);
  return row;
}

QWidget* ComparePage::make_empty() {
  message_->setObjectName("compareMessage");
  message_->setAlignment(Qt::AlignCenter);
  message_->setWordWrap(true);
  shipped_->setObjectName("compareShipped");
  connect(shipped_, &QPushButton::clicked, this, [this] { addFile(shipped_path_); });
  QWidget* empty = new QWidget;
  QVBoxLayout* layout = new QVBoxLayout(empty);
  layout->addStretch(2);
  layout->addWidget(message_);
  layout->addWidget(shipped_, 0, Qt::AlignHCenter);
  layout->addStretch(3);
  return empty;
}

QWidget* ComparePage::make_answer() {
  style_table(*table_);
  table_->setModel(rows_);
  table_->setObjectName("compareRows");
  table_->setAccessibleName(tr("What changed, worse first"));
  table_->setSortingEnabled(true);
  table_->horizontalHeader()->setResizeContentsPrecision(kMeasuredRows);
  table_->horizontalHeader()->setSortIndicator(0, Qt::AscendingOrder);
  style_text(*details_);
  details_->setAccessibleName(tr("The selected row, and what differs"));
  said_->setObjectName("compareSaid");
  connect(table_->selectionModel(), &QItemSelectionModel::currentRowChanged, this,
          [this](const QModelIndex& index) { select_row(index.isValid() ? index.row() : -1); });
  connect(plot_, &RatioPlot::rowSelected, this, [this](int row) {
    table_->setCurrentIndex(rows_->index(row, 0));
    table_->scrollTo(rows_->index(row, 0));
  });
  QSplitter* upper = new QSplitter(Qt::Horizontal);
  upper->addWidget(plot_);
  upper->addWidget(details_);
  upper->setStretchFactor(0, 1);
  upper->setSizes({820, 400});
  QSplitter* whole = new QSplitter(Qt::Vertical);
  whole->addWidget(upper);
  whole->addWidget(table_);
  whole->setStretchFactor(0, 1);
  whole->setStretchFactor(1, 1);
  whole->setSizes({340, 320});
  QWidget* answer = new QWidget;
  QVBoxLayout* layout = new QVBoxLayout(answer);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addWidget(said_);
  layout->addWidget(whole, 1);
  return answer;
}

void ComparePage::recolor() {
  style_text(*details_);
  select_row(table_->currentIndex().row());
}

// The open database is the first until others are chosen; read again it is compared again.
void ComparePage::take_document() {
  if (!document_.snapshot()) {
    show_files();
    return;
  }
  const QString path = document_.snapshot()->path;
  const QStringList paths = comparer_->paths();
  const QString before = document_path_;
  document_path_ = path;
  if (paths.contains(path)) {
    comparer_->readAgain();
  } else if (paths.isEmpty() || (paths.size() == 1 && paths.first() == before)) {
    comparer_->setPaths({path});
  } else {
    show_files();
  }
}

void ComparePage::addFile(const QString& path) {
  comparer_->add(path);
  if (comparer_->paths().size() > 2) {
    against_->setCurrentIndex(against_->count() - 1);
  }
}

void ComparePage::ask_for_file() {
  const QStringList paths = comparer_->paths();
  const QString path = QFileDialog::getOpenFileName(
      this, tr("Compare with"),
      paths.isEmpty() ? QString() : QFileInfo(paths.last()).absolutePath(),
      tr("Databases and tables (*.db *.json);;All files (*)"));
  if (!path.isEmpty()) {
    addFile(path);
  }
}

void ComparePage::dragEnterEvent(QDragEnterEvent* event) {
  if (event->mimeData()->hasUrls() && event->mimeData()->urls().first().isLocalFile()) {
    event->acceptProposedAction();
  }
}

void ComparePage::dropEvent(QDropEvent* event) {
  for (const QUrl& url : event->mimeData()->urls()) {
    addFile(url.toLocalFile());
  }
}

void ComparePage::show_files() {
  const QStringList paths = comparer_->paths();
  first_->setText(paths.isEmpty() ? tr("nothing") : QFileInfo(paths.first()).fileName());
  first_->setToolTip(paths.value(0));
  QStringList others;
  for (const QString& path : paths.mid(1)) {
    others << QFileInfo(path).fileName();
  }
  list_texts(*against_, others);
  against_->setEnabled(!others.isEmpty());
  remove_->setEnabled(!others.isEmpty());
  swap_->setEnabled(!others.isEmpty());
  const ComparedFilesPtr& files = comparer_->files();
  command_->setEnabled(files != nullptr);
  command_->setToolTip(comparer_->commandLine());
  figure_->setEnabled(!files || !files->are_tables);
  noise_->setEnabled(!files || !files->are_tables);
  shipped_path_ =
      paths.size() == 1 && !comparer_->isBusy() ? other_database(paths.first()) : QString();
  shipped_->setVisible(!shipped_path_.isEmpty());
  shipped_->setText(tr("Compare with %1").arg(QFileInfo(shipped_path_).fileName()));
  if (!files || files->paths != paths) {
    message_->setText(
        comparer_->isBusy()                ? tr("Comparing …")
        : !comparer_->sentence().isEmpty() ? tr("Not compared: %1.").arg(comparer_->sentence())
        : paths.isEmpty()
            ? tr("Add two databases, or two tables that the planner has exported, to see what "
                 "changed between them.")
            : tr("Add a second file, or drop one here, to see what changed: which tuples are "
                 "slower beyond noise, or which cells of a table have another winner."));
    stack_->setCurrentIndex(0);
    rows_->show(nullptr, 0, {});
    return;
  }
  stack_->setCurrentIndex(1);
  show_rows();
}

void ComparePage::show_rows() {
  const ComparedFilesPtr& files = comparer_->files();
  if (!files || files->paths != comparer_->paths()) {
    return;
  }
  const int against = std::max(0, against_->currentIndex());
  const SnapshotPtr& snapshot = document_.snapshot();
  std::function<bool(const ComparedPoint&, const ComparedPoint&)> keeps;
  const bool is_narrowed =
      snapshot && document_.shown().size() < snapshot->overview.points.size() && !files->are_tables;
  const bool is_first = snapshot && files->paths.first() == snapshot->path;
  const bool is_second = snapshot && files->paths.value(against + 1) == snapshot->path;
  if (is_narrowed && (is_first || is_second)) {
    keeps = [this, snapshot, is_first](const ComparedPoint& base, const ComparedPoint& other) {
      const int index = index_of(*snapshot, is_first ? base.id : other.id);
      return std::binary_search(document_.shown().begin(), document_.shown().end(), index);
    };
  }
  const bool other_columns = rows_->areTables() != files->are_tables || rows_->rowCount() == 0;
  rows_->show(files, against, keeps);
  const QHeaderView& header = *table_->horizontalHeader();
  if (other_columns) {
    table_->horizontalHeader()->setSortIndicator(0, Qt::AscendingOrder);
    table_->resizeColumnsToContents();
    for (int column = 0; column + 1 < rows_->columnCount(); ++column) {
      table_->setColumnWidth(column, std::min(kMostColumn, table_->columnWidth(column)));
    }
  }
  rows_->sort(header.sortIndicatorSection(), header.sortIndicatorOrder());
  said_->setText(rows_->summary());
  if (rows_->rowCount() > 0) {
    table_->setCurrentIndex(rows_->index(0, 0));
  }
  select_row(table_->currentIndex().row());
}

// A tuple of the open database is the selected point of the other pages too.
void ComparePage::select_row(int row) {
  plot_->select(row);
  details_->setHtml(rows_->html(row) + rows_->surroundings());
}

void ComparePage::copy_command() {
  const QString line = comparer_->commandLine();
  QGuiApplication::clipboard()->setText(line);
  Q_EMIT said(tr("Copied: %1").arg(line));
}

}  // namespace versieve::gui
