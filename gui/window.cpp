#include "gui/window.h"

#include <QAction>
#include <QApplication>
#include <QCloseEvent>
#include <QDragEnterEvent>
#include <QFileInfo>
#include <QHeaderView>
#include <QLabel>
#include <QMimeData>
#include <QSet>
#include <QStackedWidget>
#include <QStatusBar>
#include <QTabWidget>
#include <QTableView>
#include <QVBoxLayout>
#include <utility>

#include "gui/models/command_words.h"
#include "gui/models/numbers.h"
#include "gui/models/preferences.h"
#include "gui/models/provenance.h"
#include "gui/pages/compare/compare_page.h"
#include "gui/pages/explore/explore_page.h"
#include "gui/pages/measure/measure_page.h"
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
#include "gui/views/view_saver.h"

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
      compare_page_(new ComparePage(document_)),
      measure_page_(new MeasurePage(document_)),
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
  tabs_->addTab(compare_page_, tr("Compare"));
  tabs_->addTab(measure_page_, tr("Measure"));
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

  connect(tabs_, &QTabWidget::currentChanged, this, &Window::recolor_shown);
  connect(start_page_, &StartPage::openRequested, this, &Window::ask_for_file);
  connect(start_page_, &StartPage::shippedRequested, &document_, &Document::open);
  connect(start_page_, &StartPage::measureRequested, this, [this] { showPage("measure"); });
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
  const auto say = [this](const QString& sentence) {
    statusBar()->showMessage(sentence, kMessageMs);
  };
  connect(planner_page_, &PlannerPage::said, this, say);
  connect(compare_page_, &ComparePage::said, this, say);
}

// The pages leave before the document that they look at.
Window::~Window() {
  tabs_->disconnect(this);
  delete takeCentralWidget();
}

QStringList Window::pageNames() {
  return {"runs",        "points",  "explore", "planner", "validation", "replay",
          "sensitivity", "quality", "step",    "compare", "measure"};
}

bool Window::showPage(const QString& name) {
  const qsizetype index = pageNames().indexOf(name);
  if (index >= 0) {
    show_page_at(static_cast<int>(index));
  }
  return index >= 0;
}

// Two pages need no open database.
void Window::show_page_at(int index) {
  tabs_->setCurrentIndex(index);
  const QWidget* page = tabs_->currentWidget();
  if (page == compare_page_ || page == measure_page_) {
    stack_->setCurrentWidget(tabs_);
  } else if (!document_.snapshot()) {
    stack_->setCurrentWidget(start_page_);
  }
}

void Window::offer_saving(QMenu& menu) {
  saver_ = new ViewSaver(
      *this, menu,
      [this] { return stack_->currentWidget() == tabs_ ? tabs_->currentWidget() : nullptr; },
      [this] { return provenance(); });
  const auto say = [this](const QString& sentence) {
    statusBar()->showMessage(sentence, kMessageMs);
  };
  connect(saver_, &ViewSaver::written, this,
          [say](const QString& path) { say(tr("%1 was written").arg(path)); });
  connect(saver_, &ViewSaver::copied, this, [say](const QString& name) {
    say(tr("\"%1\" was copied, as picture and as table").arg(name));
  });
  connect(saver_, &ViewSaver::failed, this, say);
}

// Of the page that is shown; where it has no command of its own, the one that shows it.
Provenance Window::provenance() const {
  Provenance p = provenance_of(document_.snapshot(), document_.filterText());
  const QWidget* page = tabs_->currentWidget();
  p.page = tabs_->tabText(tabs_->currentIndex());
  if (page == compare_page_) {
    p.files = compare_page_->comparer().paths();
    p.command = compare_page_->comparer().commandLine();
  } else if (page == planner_page_ || page == quality_page_ || page == sensitivity_page_) {
    p.command = planner_page_->planner().commandLine("plan.json");
  }
  if (p.command.isEmpty() && document_.snapshot()) {
    QStringList words = {"versieve-gui", document_.snapshot()->path, "--page",
                         pageNames()[tabs_->currentIndex()]};
    if (!p.filter.isEmpty()) {
      words << "--filter" << p.filter;
    }
    p.command = command_line(words);
  }
  return p;
}

void Window::setDark(bool is_dark) {
  theme::apply(*qApp, is_dark ? theme::Shade::kDark : theme::Shade::kLight);
  dark_->setChecked(is_dark);
  stale_ = {runs_page_, points_page_, planner_page_, replay_page_, compare_page_};
  recolor_shown();
}

// Rich texts have their colours in them: those of hidden pages are set anew once they are shown.
void Window::recolor_shown() {
  QWidget* const page = tabs_->currentWidget();
  if (!stale_.remove(page)) {
    return;
  }
  const auto recolor = [page](auto*... pages) {
    (..., (page == pages ? pages->recolor() : void()));
  };
  recolor(runs_page_, points_page_, planner_page_, replay_page_, compare_page_);
}

void Window::keepIn(Preferences& preferences) {
  preferences_ = &preferences;
  restoreGeometry(preferences.geometry());
  for (QTableView* table : kept_tables()) {
    table->horizontalHeader()->restoreState(preferences.columns(table->objectName()));
  }
  list_recent();
}

// Those whose columns are the same at all times.
QList<QTableView*> Window::kept_tables() const {
  QList<QTableView*> tables;
  for (QTableView* table : tabs_->findChildren<QTableView*>()) {
    if (!table->objectName().isEmpty() && !compare_page_->isAncestorOf(table)) {
      tables << table;
    }
  }
  return tables;
}

void Window::closeEvent(QCloseEvent* event) {
  planner_page_->planner().endFit();  // nobody waits for it any more
  if (preferences_ != nullptr) {
    preferences_->setGeometry(saveGeometry());
    for (const QTableView* table : kept_tables()) {
      preferences_->setColumns(table->objectName(), table->horizontalHeader()->saveState());
    }
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
