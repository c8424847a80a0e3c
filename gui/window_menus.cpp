// The window's menus. A command is an action with an id ("file.open"): menu, palette, shortcut and
// tests share it.
#include <QApplication>
#include <QFileDialog>
#include <QFileInfo>
#include <QLineEdit>
#include <QMenuBar>
#include <QMessageBox>
#include <QStackedWidget>
#include <QTabWidget>
#include <QTableView>
#include <tuple>
#include <utility>

#include "gui/models/preferences.h"
#include "gui/pages/explore/explore_page.h"
#include "gui/pages/planner_page.h"
#include "gui/pages/points_page.h"
#include "gui/views/command_palette.h"
#include "gui/views/contrast.h"
#include "gui/views/objective_knobs.h"
#include "gui/views/scope_knobs.h"
#include "gui/views/table.h"
#include "gui/views/theme.h"
#include "gui/window.h"

namespace versieve::gui {
namespace {

constexpr int kNumberedPages = 10;  // Alt and one digit

QAction* command(QMenu& menu, const QString& id, const QString& text,
                 const QKeySequence& keys = {}) {
  QAction* action = menu.addAction(text);
  action->setObjectName(id);
  action->setShortcut(keys);
  return action;
}

}  // namespace

void Window::make_menus() {
  make_file_menu();
  make_edit_menu();
  make_view_menu();
  make_plan_menu();
  make_help_menu();
  for (QAction* action : commands_of(*menuBar())) {
    commands_[action->objectName()] = action;
  }
  connect(tabs_, &QTabWidget::currentChanged, this, &Window::enable_commands);
  connect(&document_, &Document::selectionChanged, this, &Window::enable_commands);
  connect(&document_, &Document::filterChanged, this, &Window::enable_commands);
  connect(&document_, &Document::pinsChanged, this, &Window::enable_commands);
  enable_commands();
}

void Window::make_file_menu() {
  QMenu& file = *menuBar()->addMenu(tr("&File"));
  connect(command(file, "file.open", tr("&Open…"), QKeySequence::Open), &QAction::triggered, this,
          &Window::ask_for_file);
  recent_ = file.addMenu(tr("Open &recent"));
  recent_->menuAction()->setObjectName("recent");
  recent_->setEnabled(false);
  connect(command(file, "file.read", tr("&Read again"), QKeySequence::Refresh), &QAction::triggered,
          this, &Window::read_again);
  QAction* follow = command(file, "file.follow", tr("Read again by &itself"));
  follow->setCheckable(true);
  follow->setToolTip(tr("Shows points of a file that grows as they come"));
  connect(follow, &QAction::toggled, this, [this](bool follows) {
    document_.follow(follows);
    if (follows) {
      read_again();
    }
  });
  file.addSeparator();
  connect(command(file, "file.openSession", tr("Open a &session…")), &QAction::triggered, this,
          [this] { ask_for_session(false); });
  connect(command(file, "file.saveSession", tr("Save the s&ession…"), QKeySequence("Ctrl+Alt+S")),
          &QAction::triggered, this, [this] { ask_for_session(true); });
  file.addSeparator();
  connect(command(file, "file.quit", tr("&Quit"), QKeySequence::Quit), &QAction::triggered, this,
          &QWidget::close);
}

void Window::make_edit_menu() {
  QMenu& edit = *menuBar()->addMenu(tr("&Edit"));
  QAction* undo = history_.stack().createUndoAction(this, tr("&Undo"));
  undo->setObjectName("edit.undo");
  undo->setShortcut(QKeySequence::Undo);
  QAction* redo = history_.stack().createRedoAction(this, tr("&Redo"));
  redo->setObjectName("edit.redo");
  redo->setShortcuts({QKeySequence("Ctrl+Shift+Z"), QKeySequence("Ctrl+Y")});
  edit.addActions({undo, redo});
  edit.addSeparator();
  connect(command(edit, "edit.filter", tr("To the &filter"), QKeySequence::Find),
          &QAction::triggered, this, &Window::focus_filter);
  connect(command(edit, "edit.allPoints", tr("Show &all points")), &QAction::triggered, this,
          [this] { document_.setFilter({}); });
  edit.addSeparator();
  connect(command(edit, "points.baseline", tr("&Baseline: the selected point"),
                  QKeySequence(Qt::Key_B)),
          &QAction::triggered, &document_, &Document::toggleBaseline);
  connect(command(edit, "points.pin", tr("&Pin the selected point"), QKeySequence(Qt::Key_P)),
          &QAction::triggered, this, [this] { document_.togglePin(document_.selected()); });
  connect(command(edit, "points.unpin", tr("Take all pins a&way")), &QAction::triggered, this,
          [this] { document_.setPins({}); });
  connect(command(edit, "points.columns", tr("&Columns of the table…")), &QAction::triggered, this,
          [this] {
            tabs_->setCurrentWidget(points_page_);
            show_column_menu(points_page_->table());
          });
}

void Window::make_view_menu() {
  QMenu& view = *menuBar()->addMenu(tr("&View"));
  for (int index = 0; index < tabs_->count(); ++index) {
    const QKeySequence keys = index < kNumberedPages
                                  ? QKeySequence(QString("Alt+%1").arg((index + 1) % 10))
                                  : QKeySequence();
    QAction* page = command(view, "page." + pageNames()[index], tabs_->tabText(index), keys);
    connect(page, &QAction::triggered, this, [this, index] { show_page_at(index); });
  }
  view.addSeparator();
  dark_ = command(view, "view.dark", tr("&Dark colours"));
  dark_->setCheckable(true);
  dark_->setChecked(theme::shade() == theme::Shade::kDark);
  connect(dark_, &QAction::triggered, this, [this](bool is_dark) {
    setDark(is_dark);
    if (preferences_ != nullptr) {
      preferences_->setDark(is_dark);
    }
  });
  QAction* const contrast = command(view, "view.contrast", tr("&High contrast"));
  contrast->setCheckable(true);
  contrast->setChecked(theme::is_contrast_high());
  connect(contrast, &QAction::triggered, this, [this](bool is_high) {
    theme::raise_contrast(is_high);
    setDark(dark_->isChecked());
    if (preferences_ != nullptr) {
      preferences_->setHighContrast(is_high);
    }
  });
  view.addSeparator();
  offer_saving(view);
}

// What the planner is after, from whatever page.
void Window::make_plan_menu() {
  QMenu& plan = *menuBar()->addMenu(tr("&Plan"));
  const std::tuple<const char*, QString, ObjectiveKnobs::Aim> aims[] = {
      {"plan.tokens", tr("Most &tokens a second"), ObjectiveKnobs::kTokens},
      {"plan.latency", tr("Within a &latency"), ObjectiveKnobs::kLatency},
      {"plan.energy", tr("Most tokens a &joule"), ObjectiveKnobs::kEnergy}};
  for (const auto& [id, text, aim] : aims) {
    connect(command(plan, id, text), &QAction::triggered, this, [this, aim = aim] {
      tabs_->setCurrentWidget(planner_page_);
      planner_page_->scope().objective().choose(aim);
    });
  }
  plan.addSeparator();
  connect(command(plan, "plan.prompts", tr("&Prompts from a file…")), &QAction::triggered, this,
          [this] {
            tabs_->setCurrentWidget(planner_page_);
            planner_page_->scope().objective().askForPrompts();
          });
}

void Window::make_help_menu() {
  QMenu& help = *menuBar()->addMenu(tr("&Help"));
  connect(command(help, "help.keys", tr("&Keys and gestures"), QKeySequence::HelpContents),
          &QAction::triggered, this, &Window::show_keys);
  connect(command(help, "help.commands", tr("&Commands…"), QKeySequence("Ctrl+Shift+P")),
          &QAction::triggered, this,
          [this] { (new CommandPalette(commands_of(*menuBar()), this))->open(); });
}

// What a command is about must be there, and on a page that shows points.
void Window::enable_commands() {
  const QWidget* page = tabs_->currentWidget();
  const bool shows_points = document_.snapshot() && (page == points_page_ || page == explore_page_);
  const bool has_selection = shows_points && document_.selected() >= 0;
  const std::pair<const char*, bool> states[] = {
      {"edit.filter", document_.snapshot() != nullptr},
      {"edit.allPoints", !document_.filterText().isEmpty()},
      {"points.baseline", has_selection},
      {"points.pin", has_selection},
      {"plan.tokens", document_.snapshot() != nullptr},
      {"plan.latency", document_.snapshot() != nullptr},
      {"plan.energy", document_.snapshot() != nullptr},
      {"plan.prompts", document_.snapshot() != nullptr},
      {"points.unpin", !document_.pins().empty()},
      {"points.columns", document_.snapshot() != nullptr},
      {"file.read", document_.snapshot() != nullptr},
      {"file.saveSession", document_.snapshot() != nullptr}};
  for (const auto& [id, is_enabled] : states) {
    commands_[id]->setEnabled(is_enabled);
  }
}

void Window::focus_filter() {
  if (tabs_->currentWidget() != explore_page_) {
    tabs_->setCurrentWidget(points_page_);
  }
  QLineEdit& line = tabs_->currentWidget() == explore_page_ ? explore_page_->filter().line()
                                                            : points_page_->filter().line();
  line.setFocus(Qt::ShortcutFocusReason);
  line.selectAll();
}

// The databases that were opened last, as the menu's entries.
void Window::list_recent() {
  recent_->clear();
  int number = 0;
  for (const QString& path : preferences_->recent()) {
    recent_->addAction(QString("&%1  %2").arg(++number).arg(QString(path).replace("&", "&&")), this,
                       [this, path] { openPath(path); });
  }
  recent_->setEnabled(number > 0);
}

void Window::show_keys() {
  const std::pair<QString, QString> rows[] = {
      {tr("Alt+1 to 9, Alt+0"), tr("the first ten pages")},
      {tr("Tab, Shift+Tab"), tr("the next and the previous control")},
      {tr("B, P"), tr("the selected point: the baseline, a pin; again: no more")},
      {tr("Ctrl+Z, Ctrl+Shift+Z"), tr("takes back what was set last, sets it again")},
      {tr("Ctrl+F"), tr("to the filter")},
      {tr("Ctrl+Shift+S, Ctrl+Shift+C; right button"), tr("saves or copies the view")},
      {tr("Ctrl+C"), tr("copies the selected rows of a table with their titles")},
      {tr("Left, Right"), tr("in the plot: the next and the previous point")},
      {tr("+, −, Home; wheel, double click"), tr("in the plot: nearer, farther, all of it")},
      {tr("Drag"), tr("in the plot: moves what is seen")},
      {tr("Shift and drag"), tr("in the plot: writes what is enclosed into the filter")},
      {tr("Drag, click"), tr("along an axis of Explore: keeps that part, keeps all again")},
      {tr("Arrows, Shift, Ctrl, Delete"),
       tr("in parallel coordinates: the axis, its brush, its upper and lower end, all of it")},
      {tr("Left, Right; Page Up, Page Down; Up, Down"),
       tr("in a step's trace: the next launch, the next of its phase, the other step")},
      {tr("+, −, 0; wheel, drag, double click"),
       tr("in a step's trace: nearer, farther, all of it; moves it; to the launch")},
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
      tr("Versieve databases (*.db);;Sessions (*.vsession);;All files (*)"));
  if (!path.isEmpty()) {
    openPath(path);
  }
}

}  // namespace versieve::gui
