// What the window remembers: the ids of all that can be set, sessions in files, and the last one,
// which the next window begins with.
#include <QFileDialog>
#include <QFileInfo>
#include <QJsonArray>
#include <QStackedWidget>
#include <QStatusBar>
#include <QTabWidget>
#include <QTableView>
#include <utility>

#include "gui/models/point_column.h"
#include "gui/models/preferences.h"
#include "gui/models/scope_json.h"
#include "gui/pages/explore/explore_page.h"
#include "gui/pages/planner_page.h"
#include "gui/pages/points_page.h"
#include "gui/pages/start_page.h"
#include "gui/views/banner.h"
#include "gui/views/table_columns.h"
#include "gui/window.h"
#include "model/words/error.h"

namespace versieve::gui {
namespace {

constexpr int kAutosaveMs = 2'000;
constexpr int kMessageMs = 10'000;

QJsonValue keys_of(const std::vector<int>& columns) {
  QJsonArray keys;
  for (const int column : columns) {
    keys << QString(point_columns()[static_cast<std::size_t>(column)].key);
  }
  return keys;
}

std::vector<int> columns_named(const QJsonValue& keys) {
  std::vector<int> columns;
  for (const QJsonValue& key : keys.toArray()) {
    if (const int column = column_index(key.toString()); column >= 0) {
      columns.push_back(column);
    }
  }
  return columns;
}

// Points go by their ids in the file.
UiState::Knob point_knob(Document& document, const QString& id, const QString& title,
                         int (Document::*read)() const, void (Document::*write)(int)) {
  return {.id = id,
          .title = title,
          .read = [&document, read]() -> QJsonValue { return document.idOf((document.*read)()); },
          .write =
              [&document, write](const QJsonValue& value) {
                (document.*write)(document.indexOf(value.toInteger(-1)));
                return true;
              }};
}

// Taken once there is a plan.
UiState::Knob scope_knob(Planner& planner) {
  return {.id = "planner.scope",
          .title = Window::tr("what is planned"),
          .read = [&planner]() -> QJsonValue { return scope_json(planner.scope()); },
          .write =
              [&planner](const QJsonValue& value) {
                if (!planner.plan()) {
                  return false;
                }
                planner.setScope(scope_of(value));
                return true;
              }};
}

// Of a model that no list of choices holds before it was asked for.
UiState::Knob folder_knob(Planner& planner) {
  return {
      .id = "planner.folder",
      .title = Window::tr("model's folder"),
      .read = [&planner]() -> QJsonValue { return QString::fromStdString(planner.modelFolder()); },
      .write =
          [&planner](const QJsonValue& value) {
            if (!planner.plan()) {
              return false;
            }
            if (const std::string folder = value.toString().toStdString(); !folder.empty()) {
              planner.setModel(folder);
            }
            return true;
          },
      .is_undone = false};
}

}  // namespace

void Window::list_state() {
  state_.add({.id = "points.filter",
              .title = tr("filter"),
              .read = [this]() -> QJsonValue { return document_.filterText(); },
              .write =
                  [this](const QJsonValue& value) {
                    document_.setFilter(value.toString());
                    return true;
                  }});
  state_.add(point_knob(document_, "points.selected", tr("selection"), &Document::selected,
                        &Document::select));
  state_.add(point_knob(document_, "points.baseline", tr("baseline"), &Document::baseline,
                        &Document::setBaseline));
  state_.add({.id = "points.pins",
              .title = tr("pins"),
              .read = [this]() -> QJsonValue {
                QJsonArray ids;
                for (const int pin : document_.pins()) {
                  ids << document_.idOf(pin);
                }
                return ids;
              },
              .write =
                  [this](const QJsonValue& value) {
                    std::vector<int> pins;
                    for (const QJsonValue& id : value.toArray()) {
                      if (const int pin = document_.indexOf(id.toInteger(-1)); pin >= 0) {
                        pins.push_back(pin);
                      }
                    }
                    document_.setPins(pins);
                    return true;
                  }});
  state_.add({.id = "points.columns",
              .title = tr("columns"),
              .read = [this] { return columns_of(points_page_->table()); },
              .write =
                  [this](const QJsonValue& value) {
                    set_columns(points_page_->table(), value);
                    return true;
                  }});
  state_.add({.id = "explore.axes",
              .title = tr("axes"),
              .read = [this] { return keys_of(explore_page_->parallel().columns()); },
              .write =
                  [this](const QJsonValue& value) {
                    explore_page_->parallel().setColumns(columns_named(value));
                    return true;
                  }});
  for (int page = 0; page < tabs_->count(); ++page) {
    state_.addWidgets(pageNames()[page], *tabs_->widget(page));
  }
  // After the model, which begins a scope of its own.
  state_.add(folder_knob(plannerPage().planner()));
  state_.add(scope_knob(planner_page_->planner()));
  autosave_.setSingleShot(true);
  autosave_.setInterval(kAutosaveMs);
  connect(&autosave_, &QTimer::timeout, this, &Window::keep_session);
  // What is set by hand stands.
  connect(&history_, &History::setByHand, this, [this] { state_.forgetWaiting(); });
  connect(&history_, &History::changed, this, [this] {
    if (preferences_ != nullptr) {
      autosave_.start();
    }
  });
  connect(&planner_page_->planner(), &Planner::changed, this, [this] { state_.retry(); });
}

Session Window::session() const {
  return {
      document_.snapshot() ? QFileInfo(document_.snapshot()->path).absoluteFilePath() : QString(),
      pageNames()[tabs_->currentIndex()], state_.read()};
}

void Window::openPath(const QString& path) {
  if (QFileInfo(path).suffix() == QLatin1String(kSessionSuffix)) {
    try {
      openSession(path);
    } catch (const Error& error) {
      show_failure(path, QString::fromUtf8(error.what()));
    }
    return;
  }
  is_awaited_ = false;
  document_.open(path);
}

void Window::openSession(const QString& path) {
  openSession(read_session(path));
}

void Window::openSession(Session session) {
  awaited_ = std::move(session);
  is_awaited_ = true;
  if (awaited_.database.isEmpty()) {
    take_session();
  } else {
    document_.open(awaited_.database);
  }
}

// When its database is there.
void Window::take_session() {
  const bool is_there = awaited_.database.isEmpty() ||
                        (document_.snapshot() && document_.snapshot()->path == awaited_.database);
  if (!is_awaited_ || !is_there) {
    return;
  }
  is_awaited_ = false;
  showPage(awaited_.page);
  history_.write(awaited_.values);
  history_.clear();
}

void Window::saveSession(const QString& path) {
  write_session(path, session());
}

void Window::openLastSession() {
  if (preferences_ == nullptr || !QFileInfo::exists(preferences_->sessionPath())) {
    return;
  }
  try {
    openSession(preferences_->sessionPath());
  } catch (const Error& error) {
    start_page_->showFailure(preferences_->sessionPath(), QString::fromUtf8(error.what()));
  }
}

// What cannot be written is forgotten, as preferences are.
void Window::keep_session() {
  if (preferences_ == nullptr || !document_.snapshot()) {
    return;
  }
  try {
    saveSession(preferences_->sessionPath());
  } catch (const Error& error) {
    statusBar()->showMessage(QString::fromUtf8(error.what()), kMessageMs);
  }
}

void Window::ask_for_session(bool saves) {
  const QString kinds = tr("Sessions (*.vsession)");
  QString path = saves ? QFileDialog::getSaveFileName(this, tr("Save the session"), {}, kinds)
                       : QFileDialog::getOpenFileName(this, tr("Open a session"), {}, kinds);
  if (path.isEmpty()) {
    return;
  }
  if (!saves) {
    openPath(path);
    return;
  }
  if (QFileInfo(path).suffix().isEmpty()) {
    path += QString(".") + kSessionSuffix;
  }
  try {
    saveSession(path);
    statusBar()->showMessage(tr("%1 was written").arg(path), kMessageMs);
  } catch (const Error& error) {
    banner_->say(QString::fromUtf8(error.what()));
  }
}

}  // namespace versieve::gui
