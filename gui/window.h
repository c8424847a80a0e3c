// The main window: menus, the pages, drag and drop, and the start page when nothing is open.
#pragma once

#include <QHash>
#include <QMainWindow>
#include <QSet>
#include <QTimer>

#include "gui/models/document.h"
#include "gui/models/session.h"
#include "gui/views/history.h"
#include "gui/views/ui_state.h"

class QAction;
class QLabel;
class QMenu;
class QStackedWidget;
class QTabWidget;
class QTableView;

namespace versieve::gui {

class Banner;
class ComparePage;
class ExplorePage;
class MeasurePage;
class PlannerPage;
class PointsPage;
class Preferences;
class QualityPage;
class ReplayPage;
class RunsPage;
class SensitivityPage;
class StartPage;
class StepPage;
class ValidationPage;
class ViewSaver;
struct Provenance;

class Window : public QMainWindow {
  Q_OBJECT
 public:
  Window();
  ~Window() override;

  Document& document() { return document_; }
  PointsPage& pointsPage() { return *points_page_; }
  ExplorePage& explorePage() { return *explore_page_; }
  ComparePage& comparePage() { return *compare_page_; }
  MeasurePage& measurePage() { return *measure_page_; }
  PlannerPage& plannerPage() { return *planner_page_; }
  QualityPage& qualityPage() { return *quality_page_; }
  ReplayPage& replayPage() { return *replay_page_; }
  SensitivityPage& sensitivityPage() { return *sensitivity_page_; }
  ViewSaver& saver() { return *saver_; }
  StepPage& stepPage() { return *step_page_; }
  ValidationPage& validationPage() { return *validation_page_; }
  // One of pageNames(); false if there is no such page.
  bool showPage(const QString& name);
  static QStringList pageNames();
  void setDark(bool is_dark);
  // Takes its place from there, and keeps there what is to be the same next time. Without it
  // nothing is kept. preferences: outlives the window.
  void keepIn(Preferences& preferences);
  // A database, or a session by its suffix.
  void openPath(const QString& path);
  // The session that the last window left, where there is one.
  void openLastSession();
  // Throws Error.
  void saveSession(const QString& path);
  void openSession(const QString& path);
  void openSession(Session session);
  History& history() { return history_; }

 protected:
  void closeEvent(QCloseEvent* event) override;
  void dragEnterEvent(QDragEnterEvent* event) override;
  void dropEvent(QDropEvent* event) override;

 private:
  void make_menus();
  void make_file_menu();
  void make_edit_menu();
  void make_view_menu();
  void make_plan_menu();
  void make_help_menu();
  void enable_commands();
  void focus_filter();
  void list_state();
  Session session() const;
  void take_session();
  void keep_session();
  void ask_for_session(bool saves);
  void offer_saving(QMenu& menu);
  Provenance provenance() const;
  void ask_for_file();
  QList<QTableView*> kept_tables() const;
  void list_recent();
  void recolor_shown();
  void show_page_at(int index);
  void show_keys();
  void show_loaded();
  void show_summary();
  void show_failure(const QString& path, const QString& sentence);
  void show_change(bool exists);
  void read_again();

  Document document_;
  Banner* banner_;
  QStackedWidget* stack_;
  StartPage* start_page_;
  QTabWidget* tabs_;
  RunsPage* runs_page_;
  PointsPage* points_page_;
  ExplorePage* explore_page_;
  PlannerPage* planner_page_;
  ValidationPage* validation_page_;
  ReplayPage* replay_page_;
  SensitivityPage* sensitivity_page_;
  QualityPage* quality_page_;
  StepPage* step_page_;
  ComparePage* compare_page_;
  MeasurePage* measure_page_;
  QLabel* summary_;
  QHash<QString, QAction*> commands_;  // by id
  UiState state_;
  History history_{state_};
  Session awaited_;  // whose database is being read
  bool is_awaited_ = false;
  QTimer autosave_;
  QString opened_;  // of which the steps back are
  ViewSaver* saver_ = nullptr;
  QSet<QWidget*> stale_;  // pages in the colours before
  QAction* dark_ = nullptr;
  QMenu* recent_ = nullptr;
  Preferences* preferences_ = nullptr;
};

}  // namespace versieve::gui
