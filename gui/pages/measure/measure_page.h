// Measure from here: what this machine has (doctor), a sweep on its GPU, its CPU or the simulator
// of any machine, and a fit, each as a job that says how far it is, how much time is left, and that
// can be cancelled: the points that were stored stay, and starting it again goes on. Points appear
// on the other pages as they are stored; a sweep that somebody else runs is watched by opening its
// database and "Read again by itself".
#pragma once

#include <QWidget>

#include "gui/models/command_run.h"
#include "gui/models/document.h"

class QComboBox;
class QLabel;
class QLineEdit;
class QPlainTextEdit;
class QProgressBar;
class QPushButton;
class QTableView;

namespace versieve::gui {

class ElidedText;

class MeasurePage : public QWidget {
  Q_OBJECT
 public:
  explicit MeasurePage(Document& document, QWidget* parent = nullptr);

  CommandRun& run() { return *run_; }
  QComboBox& job() { return *job_; }
  QComboBox& sweep() { return *sweep_; }
  QComboBox& machine() { return *machine_; }
  QLineEdit& database() { return *database_; }
  QPushButton& startButton() { return *start_; }
  QPushButton& cancelButton() { return *cancel_; }
  QProgressBar& bar() { return *bar_; }
  QLabel& told() { return *told_; }
  QPlainTextEdit& said() { return *said_; }
  QTableView& stored() { return *stored_; }
  // Takes the sweep of a file for choice; it is the chosen one then.
  void addSweep(const QString& path);

 private:
  enum Kind { kDoctor, kSweep, kFit };

  QWidget* make_choices();
  QStringList arguments() const;
  // Why the job cannot begin; empty if it can.
  QString refusal() const;
  void choose_database();
  void choose_sweep();
  void show_choices();
  void show_run();
  void show_stored();
  QWidget* make_answer();
  void begin();
  void follow();
  Kind kind() const;

  Document& document_;
  CommandRun* run_;
  QComboBox* job_;
  QComboBox* sweep_;
  QComboBox* machine_;
  QLineEdit* database_;
  QList<QWidget*> of_sweep_;     // shown for a sweep alone
  QList<QWidget*> of_database_;  // for a sweep and a fit
  QPushButton* start_;
  QPushButton* cancel_;
  QProgressBar* bar_;
  QLabel* told_;
  ElidedText* command_;
  QPlainTextEdit* said_;
  QLabel* stored_title_;
  QTableView* stored_;   // what the sweep has stored, newest first
  QString written_;      // the database of the sweep that runs
  QString sweeps_into_;  // that of the last one
  bool is_followed_ = false;
};

}  // namespace versieve::gui
