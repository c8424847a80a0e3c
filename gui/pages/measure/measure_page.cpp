#include "gui/pages/measure/measure_page.h"

#include <QComboBox>
#include <QFileDialog>
#include <QFileInfo>
#include <QFontDatabase>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QPlainTextEdit>
#include <QProgressBar>
#include <QPushButton>
#include <QScrollBar>
#include <QSplitter>
#include <QTableView>
#include <QVBoxLayout>
#include <algorithm>

#include "engine/measure/sweep/sweep.h"
#include "gui/models/command_words.h"
#include "gui/models/newest_points.h"
#include "gui/models/numbers.h"
#include "gui/views/choice.h"
#include "gui/views/elided_text.h"
#include "gui/views/flow_row.h"
#include "gui/views/table.h"
#include "gui/views/text.h"
#include "model/words/hardware.h"

namespace versieve::gui {
namespace {

constexpr int kPathPixels = 240;
constexpr int kCellPadding = 14;

// A label, and what it names, which are shown and hidden together.
QWidget* named(const QString& name, std::initializer_list<QWidget*> parts) {
  QWidget* both = new QWidget;
  QHBoxLayout* layout = new QHBoxLayout(both);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addWidget(quiet_label(name));
  for (QWidget* part : parts) {
    layout->addWidget(part);
  }
  return both;
}

}  // namespace

MeasurePage::MeasurePage(Document& document, QWidget* parent)
    : QWidget(parent),
      document_(document),
      run_(new CommandRun(this)),
      job_(named_choice(tr("Job"), "measureJob")),
      sweep_(named_choice(tr("Sweep"), "measureSweep")),
      machine_(named_choice(tr("Measured by"), "measureMachine")),
      database_(new QLineEdit),
      start_(new QPushButton(tr("Start"))),
      cancel_(new QPushButton(tr("Cancel"))),
      bar_(new QProgressBar),
      told_(new QLabel),
      command_(new ElidedText(1)),
      said_(new QPlainTextEdit),
      stored_title_(quiet_label({})),
      stored_(new QTableView) {
  told_->setObjectName("measureTold");
  told_->setWordWrap(true);
  bar_->setObjectName("measureBar");
  bar_->setAccessibleName(tr("How far the job is"));
  bar_->setFormat(tr("%p %"));
  said_->setObjectName("measureSaid");
  said_->setAccessibleName(tr("What the job says"));
  said_->setReadOnly(true);
  said_->setTabChangesFocus(true);
  said_->setFont(QFontDatabase::systemFont(QFontDatabase::FixedFont));
  QVBoxLayout* layout = new QVBoxLayout(this);
  layout->setContentsMargins(12, 10, 12, 10);
  layout->addWidget(make_choices());
  layout->addWidget(command_);
  layout->addWidget(bar_);
  layout->addWidget(told_);
  layout->addWidget(make_answer(), 1);
  connect(run_, &CommandRun::changed, this, &MeasurePage::show_run);
  connect(run_, &CommandRun::finished, this, [this] {
    follow();
    written_.clear();
  });
  connect(&document_, &Document::loaded, this, [this] {
    if (database_->text().isEmpty()) {
      database_->setText(document_.snapshot()->path);
    }
    show_stored();
  });
  show_choices();
  show_run();
  show_stored();
}

QWidget* MeasurePage::make_choices() {
  job_->addItems({tr("Doctor: what this machine has"), tr("Sweep: measure points"),
                  tr("Fit: the cost model to a database")});
  for (const std::string& name : engine::sweep_names()) {
    sweep_->addItem(QString::fromStdString(name), QString::fromStdString(name));
  }
  machine_->addItem(tr("the GPU here, else the CPU"), QStringList());
  for (const HardwareSpec& machine : hardware_catalogue()) {
    machine_->addItem(
        tr("the simulator of %1").arg(QString::fromStdString(machine.name)),
        QStringList{"--backend", "sim", "--hardware", QString::fromStdString(machine.key)});
  }
  database_->setObjectName("measureDatabase");
  database_->setAccessibleName(tr("Database"));
  database_->setPlaceholderText(tr("a new or an old .db"));
  database_->setMinimumWidth(kPathPixels);
  start_->setObjectName("measureStart");
  cancel_->setObjectName("measureCancel");
  cancel_->setToolTip(tr("Stops after the point that is measured; those that were stored stay"));
  QPushButton* file = new QPushButton(tr("From a file…"));
  file->setToolTip(tr("A sweep as JSON"));
  QPushButton* where = new QPushButton(tr("Choose…"));
  connect(file, &QPushButton::clicked, this, &MeasurePage::choose_sweep);
  connect(where, &QPushButton::clicked, this, &MeasurePage::choose_database);
  connect(start_, &QPushButton::clicked, this, &MeasurePage::begin);
  connect(cancel_, &QPushButton::clicked, run_, &CommandRun::cancel);
  for (QComboBox* box : {job_, sweep_, machine_}) {
    connect(box, &QComboBox::currentIndexChanged, this, &MeasurePage::show_choices);
  }
  connect(database_, &QLineEdit::textChanged, this, &MeasurePage::show_choices);
  of_sweep_ = {named(tr("Sweep"), {sweep_, file}), named(tr("by"), {machine_})};
  of_database_ = {named(tr("Database"), {database_, where})};
  QWidget* row = new QWidget;
  FlowRow* choices = new FlowRow(row);
  choices->addWidget(named(tr("Job"), {job_}));
  for (QWidget* part : of_sweep_ + of_database_) {
    choices->addWidget(part);
  }
  choices->addWidget(start_);
  choices->addWidget(cancel_);
  return row;
}

// What the job says, and of a sweep what it has stored.
QWidget* MeasurePage::make_answer() {
  NewestPoints* points = new NewestPoints(document_, this);
  style_table(*stored_);
  stored_->setObjectName("measureStored");
  stored_->setAccessibleName(tr("What the sweep has stored"));
  stored_->setModel(points);
  for (int column = 0; column < points->columnCount(); ++column) {
    const int title = fontMetrics().horizontalAdvance(
        points->headerData(column, Qt::Horizontal, Qt::DisplayRole).toString());
    const int text = fontMetrics().averageCharWidth() * NewestPoints::columnWidth(column);
    stored_->setColumnWidth(column, std::max(title, text) + kCellPadding);
  }
  stored_title_->setObjectName("measureStoredTitle");
  QWidget* below = new QWidget;
  QVBoxLayout* column = new QVBoxLayout(below);
  column->setContentsMargins(0, 6, 0, 0);
  column->addWidget(stored_title_);
  column->addWidget(stored_, 1);
  QSplitter* both = new QSplitter(Qt::Vertical);
  both->setChildrenCollapsible(false);
  both->addWidget(said_);
  both->addWidget(below);
  both->setStretchFactor(0, 1);
  both->setStretchFactor(1, 2);
  return both;
}

// Of a sweep into the file that is open; else nothing was stored by it that could be shown.
void MeasurePage::show_stored() {
  const SnapshotPtr snapshot = document_.snapshot();
  const bool is_there =
      !sweeps_into_.isEmpty() && snapshot && QFileInfo(snapshot->path) == QFileInfo(sweeps_into_);
  stored_->parentWidget()->setVisible(is_there);
  if (!is_there) {
    return;
  }
  const int all = static_cast<int>(snapshot->overview.points.size());
  stored_title_->setText(all > NewestPoints::kMost
                             ? tr("The newest %1 of the %2 points in the database")
                                   .arg(NewestPoints::kMost)
                                   .arg(fixed(all, 0))
                         : all == 1 ? tr("One point in the database")
                                    : tr("%1 points in the database, newest first").arg(all));
}

MeasurePage::Kind MeasurePage::kind() const {
  return static_cast<Kind>(std::max(0, job_->currentIndex()));
}

void MeasurePage::addSweep(const QString& path) {
  sweep_->addItem(QFileInfo(path).fileName(), path);
  sweep_->setCurrentIndex(sweep_->count() - 1);
}

void MeasurePage::choose_sweep() {
  const QString path = QFileDialog::getOpenFileName(this, tr("Take a sweep from a file"), {},
                                                    tr("Sweeps (*.json);;All files (*)"));
  if (!path.isEmpty()) {
    addSweep(path);
  }
}

void MeasurePage::choose_database() {
  QFileDialog dialog(this, tr("The database that takes the points"));
  dialog.setAcceptMode(kind() == kSweep ? QFileDialog::AcceptSave : QFileDialog::AcceptOpen);
  dialog.setOption(QFileDialog::DontConfirmOverwrite);  // points are added, nothing is replaced
  dialog.setNameFilters({tr("Versieve databases (*.db)"), tr("All files (*)")});
  dialog.setDefaultSuffix("db");
  if (dialog.exec() == QDialog::Accepted) {
    database_->setText(dialog.selectedFiles().value(0));
  }
}

QStringList MeasurePage::arguments() const {
  switch (kind()) {
    case kDoctor:
      return {"doctor"};
    case kSweep:
      return QStringList{"profile", "--db", database_->text(), "--sweep",
                         sweep_->currentData().toString()} +
             machine_->currentData().toStringList() + QStringList{"--resume"};
    case kFit:
      return {"fit", "--db", database_->text()};
  }
  return {};
}

QString MeasurePage::refusal() const {
  if (kind() != kDoctor && database_->text().trimmed().isEmpty()) {
    return kind() == kSweep ? tr("Say which database takes the points.")
                            : tr("Say which database is fitted to.");
  }
  return {};
}

void MeasurePage::show_choices() {
  for (QWidget* part : of_sweep_) {
    part->setVisible(kind() == kSweep);
  }
  for (QWidget* part : of_database_) {
    part->setVisible(kind() != kDoctor);
  }
  const QString why = refusal();
  start_->setEnabled(!run_->isRunning() && why.isEmpty());
  start_->setToolTip(why);
  command_->setText(why.isEmpty() ? command_line(QStringList{"versieve"} + arguments()) : why);
}

void MeasurePage::begin() {
  if (run_->isRunning() || !refusal().isEmpty()) {
    return;
  }
  is_followed_ = false;
  written_ = kind() == kSweep ? database_->text() : QString();
  sweeps_into_ = written_;
  show_stored();
  run_->start(arguments());
}

// The points that were stored by now are shown: the database is opened with the first of them, and
// read again as they come by whoever watches the open file.
void MeasurePage::follow() {
  if (!written_.isEmpty() && QFileInfo(written_).isFile()) {
    document_.follow(true);
    document_.open(written_);
  }
}

void MeasurePage::show_run() {
  const std::optional<SweepProgress>& at = run_->progress();
  start_->setText(run_->isRunning() ? tr("Running") : tr("Start"));
  start_->setEnabled(!run_->isRunning() && refusal().isEmpty());
  cancel_->setEnabled(run_->isRunning() && !run_->isEnding());
  bar_->setVisible(run_->isRunning() || at);
  bar_->setRange(0, at ? std::max(1, at->total) : (run_->isRunning() ? 0 : 1));
  bar_->setValue(at ? at->done : 0);
  QString text = run_->outcome();
  if (run_->isRunning()) {
    text = at ? tr("%1 of %2 points, %3 passed, about %4 left")
                    .arg(at->done)
                    .arg(at->total)
                    .arg(at->passed, at->left)
              : tr("Running …");
    text += run_->isEnding() ? tr(". Stopping after the point that is measured …") : QString();
  }
  if (at && at->failed > 0) {
    text += tr(", %1 failed").arg(at->failed);
  }
  told_->setText(text);
  said_->setPlaceholderText(
      run_->isRunning() ? tr("It has said nothing yet but how far it is.")
      : !run_->outcome().isEmpty()
          ? tr("It said nothing.")
          : tr("Nothing was started yet. Doctor says what this machine has; a sweep measures into "
               "a database; a fit prints the cost model's parameters and errors. A sweep that runs "
               "elsewhere is watched by opening its database: File, Read again by itself."));
  if (said_->toPlainText() != run_->said().trimmed()) {
    said_->setPlainText(run_->said().trimmed());
    said_->verticalScrollBar()->setValue(0);
  }
  if (run_->isRunning() && at && at->done > 0 && !is_followed_) {
    is_followed_ = true;
    follow();
  }
}

}  // namespace versieve::gui
