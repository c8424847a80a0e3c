#include "gui/window.h"

#include <QAction>
#include <QApplication>
#include <QCloseEvent>
#include <QDragEnterEvent>
#include <QFileDialog>
#include <QFileInfo>
#include <QLabel>
#include <QMenuBar>
#include <QMessageBox>
#include <QMimeData>
#include <QSet>
#include <QStackedWidget>
#include <QStatusBar>
#include <QTabWidget>
#include <QVBoxLayout>
#include <utility>

#include "gui/models/numbers.h"
#include "gui/models/preferences.h"
#include "gui/pages/planner_page.h"
#include "gui/pages/points_page.h"
#include "gui/pages/quality/quality_page.h"
#include "gui/pages/replay_page.h"
#include "gui/pages/runs_page.h"
#include "gui/pages/sensitivity/sensitivity_page.h"
#include "gui/pages/start_page.h"
#include "gui/pages/step/step_page.h"
#include "gui/pages/validation_page.h"
#include "gui/views/banner.h"
#include "gui/views/command_palette.h"
#include "gui/views/theme.h"

namespace versieve::gui {
namespace {

constexpr int kMessageMs = 10'000;
constexpr int kIndent = 10;  // of the status line

}  // namespace

Window::Window()
    : banner_(new Banner),
      stack_(new QStackedWidget),
      start_page_(new StartPage),
      tabs_(new QTabWidget),
      runs_page_(new RunsPage(document_)),
      points_page_(new PointsPage(document_)),
      planner_page_(new PlannerPage(document_)),
      validation_page_(new ValidationPage(planner_page_->planner())),
      replay_page_(new ReplayPage(document_, planner_page_->planner())),
      sensitivity_page_(new SensitivityPage(planner_page_->planner())),
      quality_page_(new QualityPage(planner_page_->planner())),
      step_page_(new StepPage(document_)),
      summary_(new QLabel) {
  setWindowTitle("Versieve");
  resize(1400, 900);
  setAcceptDrops(true);
  tabs_->setDocumentMode(true);
  tabs_->addTab(runs_page_, tr("Runs"));
  tabs_->addTab(points_page_, tr("Points"));
  tabs_->addTab(planner_page_, tr("Planner"));
  tabs_->addTab(validation_page_, tr("Validation"));
  tabs_->addTab(replay_page_, tr("Replay"));
  tabs_->addTab(sensitivity_page_, tr("Sensitivity"));
  tabs_->addTab(quality_page_, tr("Quality"));
  tabs_->addTab(step_page_, tr("Step"));
  stack_->addWidget(start_page_);
  stack_->addWidget(tabs_);
  QWidget* center = new QWidget;
  QVBoxLayout* column = new QVBoxLayout(center);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  column->addWidget(banner_);
  column->addWidget(stack_, 1);
  setCentralWidget(center);
  summary_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);  // long paths are cut
  summary_->setIndent(kIndent);
  statusBar()->addWidget(summary_, 1);
  make_menus();

  connect(start_page_, &StartPage::openRequested, this, &Window::ask_for_file);
  connect(start_page_, &StartPage::shippedRequested, &document_, &Document::open);
  connect(runs_page_, &RunsPage::pointsOfRunRequested, this, [this](qint64 run_id) {
    document_.setFilter("run=" + QString::number(run_id));
    tabs_->setCurrentWidget(points_page_);
  });
  const auto show_cell = [this](int bucket, PrecisionClass precision) {
    if (planner_page_->showCell(bucket, precision)) {
      tabs_->setCurrentWidget(planner_page_);
    }
  };
  connect(replay_page_, &ReplayPage::cellRequested, this, show_cell);
  connect(quality_page_, &QualityPage::cellRequested, this, show_cell);
  connect(quality_page_, &QualityPage::exportRequested, planner_page_, &PlannerPage::askForExport);
  const auto say_written = [this](const QString& path) {
    statusBar()->showMessage(tr("%1 was written").arg(path), kMessageMs);
  };
  connect(planner_page_, &PlannerPage::written, this, say_written);
  connect(replay_page_, &ReplayPage::written, this, say_written);
  connect(&document_, &Document::loading, this, [this](const QString& path) {
    if (!document_.snapshot()) {
      start_page_->showLoading(path);
    }
    summary_->setText(tr("Reading %1 …").arg(path));
  });
  connect(&document_, &Document::loaded, this, &Window::show_loaded);
  connect(&document_, &Document::failed, this, &Window::show_failure);
  connect(&document_, &Document::changedOnDisk, this, &Window::show_change);
  connect(banner_, &Banner::acted, this, &Window::read_again);
  connect(planner_page_, &PlannerPage::said, this,
          [this](const QString& sentence) { statusBar()->showMessage(sentence, kMessageMs); });
}

QStringList Window::pageNames() {
  return {"runs", "points", "planner", "validation", "replay", "sensitivity", "quality", "step"};
}

bool Window::showPage(const QString& name) {
  const qsizetype index = pageNames().indexOf(name);
  if (index >= 0) {
    tabs_->setCurrentIndex(static_cast<int>(index));
  }
  return index >= 0;
}

void Window::make_menus() {
  QMenu* file = menuBar()->addMenu(tr("&File"));
  QAction* open = file->addAction(tr("&Open…"), this, &Window::ask_for_file);
  open->setShortcut(QKeySequence::Open);
  open->setObjectName("file.open");
  recent_ = file->addMenu(tr("Open &recent"));
  recent_->menuAction()->setObjectName("recent");
  recent_->setEnabled(false);
  QAction* reload = file->addAction(tr("&Read again"), this, &Window::read_again);
  reload->setShortcut(QKeySequence::Refresh);
  reload->setObjectName("file.read");
  QAction* follow = file->addAction(tr("Read again by &itself"));
  follow->setObjectName("file.follow");
  follow->setCheckable(true);
  follow->setToolTip(tr("Shows points of a file that grows as they come"));
  connect(follow, &QAction::toggled, this, [this](bool follows) {
    document_.follow(follows);
    if (follows) {
      read_again();
    }
  });
  file->addSeparator();
  QAction* quit = file->addAction(tr("&Quit"), this, &QWidget::close);
  quit->setShortcut(QKeySequence::Quit);
  quit->setObjectName("file.quit");
  QMenu* view = menuBar()->addMenu(tr("&View"));
  for (int index = 0; index < tabs_->count(); ++index) {
    QAction* page = view->addAction(tabs_->tabText(index), this,
                                    [this, index] { tabs_->setCurrentIndex(index); });
    page->setShortcut(QKeySequence(QString("Alt+%1").arg(index + 1)));
    page->setObjectName("page." + pageNames()[index]);
  }
  view->addSeparator();
  dark_ = view->addAction(tr("&Dark colours"));
  dark_->setObjectName("view.dark");
  dark_->setCheckable(true);
  dark_->setChecked(theme::shade() == theme::Shade::kDark);
  connect(dark_, &QAction::triggered, this, [this](bool is_dark) {
    setDark(is_dark);
    if (preferences_ != nullptr) {
      preferences_->setDark(is_dark);
    }
  });
  QMenu* help = menuBar()->addMenu(tr("&Help"));
  QAction* keys = help->addAction(tr("&Keys and gestures"), this, &Window::show_keys);
  keys->setShortcut(QKeySequence::HelpContents);
  keys->setObjectName("help.keys");
  QAction* palette = help->addAction(tr("&Commands…"), this, [this] {
    (new CommandPalette(commands_of(*menuBar()), this))->open();
  });
  palette->setShortcut(QKeySequence("Ctrl+Shift+P"));
  palette->setObjectName("help.commands");
}

void Window::setDark(bool is_dark) {
  theme::apply(*qApp, is_dark ? theme::Shade::kDark : theme::Shade::kLight);
  dark_->setChecked(is_dark);
  runs_page_->recolor();
  points_page_->recolor();
  planner_page_->recolor();
  validation_page_->recolor();
  replay_page_->recolor();
  sensitivity_page_->recolor();
  quality_page_->recolor();
  step_page_->recolor();
}

void Window::keepIn(Preferences& preferences) {
  preferences_ = &preferences;
  restoreGeometry(preferences.geometry());
  list_recent();
}

// The databases that were opened last, as the menu's entries.
void Window::list_recent() {
  recent_->clear();
  int number = 0;
  for (const QString& path : preferences_->recent()) {
    recent_->addAction(QString("&%1  %2").arg(++number).arg(QString(path).replace("&", "&&")), this,
                       [this, path] { document_.open(path); });
  }
  recent_->setEnabled(number > 0);
}

void Window::closeEvent(QCloseEvent* event) {
  planner_page_->planner().endFit();  // nobody waits for it any more
  if (preferences_ != nullptr) {
    preferences_->setGeometry(saveGeometry());
  }
  QMainWindow::closeEvent(event);
}

void Window::show_keys() {
  const std::pair<QString, QString> rows[] = {
      {tr("Alt+1 to 8"), tr("the pages")},
      {tr("Tab, Shift+Tab"), tr("the next and the previous control")},
      {tr("B"), tr("makes the selected point the baseline, and ends that")},
      {tr("Ctrl+C"), tr("copies the selected rows of a table with their titles")},
      {tr("Left, Right"), tr("in the plot: the next and the previous point")},
      {tr("+, −, Home; wheel, double click"), tr("in the plot: nearer, farther, all of it")},
      {tr("Drag"), tr("in the plot: moves what is seen")},
      {tr("Shift and drag"), tr("in the plot: writes what is enclosed into the filter")},
      {tr("Arrows"), tr("in the planner's grid and the map of machines: the next cell")},
      {tr("Enter, double click"), tr("on a run: its points; on a replay: the planner's cell")},
      {tr("Ctrl+Shift+P"), tr("all commands, by some of their letters")},
      {tr("Ctrl+O, F5"), tr("opens a database, reads it again")}};
  QString html = "<table>";
  for (const auto& [keys, what] : rows) {
    html += "<tr><td style='padding-right:18px'><b>" + keys + "</b></td><td>" + what + "</td></tr>";
  }
  QMessageBox* box = new QMessageBox(QMessageBox::NoIcon, tr("Keys and gestures"),
                                     html + "</table>", QMessageBox::Close, this);
  box->setObjectName("keys");
  box->setAttribute(Qt::WA_DeleteOnClose);
  box->open();
}

void Window::ask_for_file() {
  const QStringList recent = preferences_ != nullptr ? preferences_->recent() : QStringList();
  const QString path = QFileDialog::getOpenFileName(
      this, tr("Open a database"),
      recent.isEmpty() ? QString() : QFileInfo(recent.first()).absolutePath(),
      tr("Versieve databases (*.db);;All files (*)"));
  if (!path.isEmpty()) {
    document_.open(path);
  }
}

void Window::read_again() {
  if (document_.snapshot()) {
    document_.open(document_.snapshot()->path);
  }
}

void Window::show_loaded() {
  const Snapshot& snapshot = *document_.snapshot();
  if (planner_page_->planner().isBehind()) {
    banner_->say(tr("%1 grows: its points are shown as they come, the plan is of those that were "
                    "there before.")
                     .arg(QFileInfo(snapshot.path).fileName()),
                 tr("Plan again"));
  } else {
    banner_->hide();
  }
  if (preferences_ != nullptr) {
    preferences_->noteOpened(snapshot.path);
    list_recent();
  }
  stack_->setCurrentWidget(tabs_);
  setWindowTitle(QFileInfo(snapshot.path).fileName() + " – Versieve");
  show_summary();
}

void Window::show_summary() {
  const Snapshot& snapshot = *document_.snapshot();
  QSet<QString> devices;
  for (const db::StoredRun& run : snapshot.runs) {
    devices.insert(QString::fromStdString(run.record.device));
  }
  QStringList names(devices.begin(), devices.end());
  names.sort();
  summary_->setText(tr("%2 %6 on %3, %4 %7, schema %5    %1")
                        .arg(snapshot.path)
                        .arg(snapshot.runs.size())
                        .arg(names.isEmpty() ? tr("no device") : names.join(", "))
                        .arg(fixed(static_cast<double>(snapshot.overview.points.size()), 0))
                        .arg(snapshot.schema_version)
                        .arg(snapshot.runs.size() == 1 ? tr("run") : tr("runs"),
                             snapshot.overview.points.size() == 1 ? tr("point") : tr("points")));
  summary_->setToolTip(summary_->text());
}

// What is open stays as it is.
void Window::show_failure(const QString& path, const QString& sentence) {
  if (document_.snapshot()) {
    show_summary();
    banner_->say(document_.snapshot()->path == path
                     ? tr("Not read again: %1. What is shown was read before.").arg(sentence)
                     : tr("%1 was not opened: %2.").arg(QFileInfo(path).fileName(), sentence));
    return;
  }
  setWindowTitle("Versieve");
  summary_->clear();
  start_page_->showFailure(path, sentence);
  stack_->setCurrentWidget(start_page_);
}

void Window::show_change(bool exists) {
  const QString name = QFileInfo(document_.snapshot()->path).fileName();
  if (exists) {
    banner_->say(tr("%1 has changed since it was read.").arg(name), tr("Read again"));
  } else {
    banner_->say(tr("%1 is no longer there. What is shown was read before.").arg(name));
  }
}

void Window::dragEnterEvent(QDragEnterEvent* event) {
  if (event->mimeData()->hasUrls() && event->mimeData()->urls().first().isLocalFile()) {
    event->acceptProposedAction();
  }
}

void Window::dropEvent(QDropEvent* event) {
  document_.open(event->mimeData()->urls().first().toLocalFile());
}

}  // namespace versieve::gui
