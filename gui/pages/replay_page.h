// What is the planner's table worth on texts that it has not seen? Each cell's policies along
// recorded requests, against the fixed baseline, and one cell in full.
#pragma once

#include <QWidget>

#include "gui/models/replay_table.h"
#include "gui/models/replayer.h"

class QComboBox;
class QLabel;
class QPushButton;
class QStackedWidget;
class QTableView;
class QTextBrowser;

namespace versieve::gui {

class FitWait;

class ReplayPage : public QWidget {
  Q_OBJECT
 public:
  ReplayPage(Document& document, Planner& planner, QWidget* parent = nullptr);

  Replayer& replayer() { return *replayer_; }
  ReplayTable& rows() { return *rows_; }
  QTableView& table() { return *table_; }
  QComboBox& texts() { return *texts_; }
  void recolor();  // the palette has changed

 Q_SIGNALS:
  void written(const QString& path);  // a sweep
  // A row was activated: the planner's cell is wanted.
  void cellRequested(int bucket, versieve::PrecisionClass precision);

 protected:
  void showEvent(QShowEvent* event) override;

 private:
  QWidget* make_choices();
  QWidget* make_answer();
  QString message() const;  // in the place of a replay
  void ask_for_missing();
  void show_replay();
  void show_row(int row);

  Planner& planner_;
  Replayer* replayer_;
  ReplayTable* rows_;
  QComboBox* texts_;
  QLabel* legend_;
  QPushButton* missing_;
  QStackedWidget* stack_;
  FitWait* wait_;
  QLabel* summary_;
  QLabel* gaps_;
  QTableView* table_;
  QTextBrowser* details_;
  ReplayedPtr shown_;
};

}  // namespace versieve::gui
