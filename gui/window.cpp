#include "gui/window.h"

#include <QAction>
#include <QApplication>
#include <QCloseEvent>
#include <QDragEnterEvent>
#include <QFileInfo>
#include <QLabel>
#include <QMimeData>
#include <QSet>
#include <QStackedWidget>
#include <QStatusBar>
#include <QTabWidget>
#include <QVBoxLayout>
#include <utility>

#include "gui/models/numbers.h"
#include "gui/models/preferences.h"
#include "gui/pages/explore/explore_page.h"
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
      explore_page_(new ExplorePage(document_)),
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
  tabs_->addTab(explore_page_, tr("Explore"));
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
  list_state();

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

// The pages leave before the document that they look at.
Window::~Window() {
  tabs_->disconnect(this);
  delete takeCentralWidget();
}

QStringList Window::pageNames() {
  return {"runs",   "points",      "explore", "planner", "validation",
          "replay", "sensitivity", "quality", "step"};
}

bool Window::showPage(const QString& name) {
  const qsizetype index = pageNames().indexOf(name);
  if (index >= 0) {
    tabs_->setCurrentIndex(static_cast<int>(index));
  }
  return index >= 0;
}

void Window::setDark(bool is_dark) {
  theme::apply(*qApp, is_dark ? theme::Shade::kDark : theme::Shade::kLight);
  dark_->setChecked(is_dark);
  runs_page_->recolor();
  points_page_->recolor();
  explore_page_->recolor();
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

void Window::closeEvent(QCloseEvent* event) {
  planner_page_->planner().endFit();  // nobody waits for it any more
  if (preferences_ != nullptr) {
    preferences_->setGeometry(saveGeometry());
    keep_session();
  }
  QMainWindow::closeEvent(event);
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
  if (opened_ != snapshot.path) {
    opened_ = snapshot.path;
    history_.clear();
  }
  take_session();
  enable_commands();
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
  is_awaited_ = false;
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
  openPath(event->mimeData()->urls().first().toLocalFile());
}

}  // namespace versieve::gui
