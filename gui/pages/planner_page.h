// Which strategy is best where, and what if the machine were another one? The planner's grid, the
// ranking of a cell, on this machine or on two or three side by side, the whole of an entry, and of
// several requests at once where drafts stop paying; classes to show, an export of what is shown,
// and knobs that plan again as they turn.
#pragma once

#include <QWidget>
#include <array>
#include <vector>

#include "gui/models/machine_ranks.h"
#include "gui/models/plan_entries.h"
#include "gui/models/planner.h"
#include "gui/views/acceptance_knob.h"
#include "gui/views/number_knob.h"
#include "gui/views/plan_grid.h"

class QComboBox;
class QLabel;
class QPushButton;
class QSlider;
class QStackedWidget;
class QTabWidget;
class QTableView;
class QTextBrowser;
class QToolButton;

namespace versieve::gui {

class ElidedText;
class FitWait;
class ScopeKnobs;
class SwitchPlot;

class PlannerPage : public QWidget {
  Q_OBJECT
 public:
  explicit PlannerPage(Document& document, QWidget* parent = nullptr);

  Planner& planner() { return *planner_; }
  PlanGrid& grid() { return *grid_; }
  // False if the class is not shown.
  bool showCell(int bucket, PrecisionClass precision);
  PlanEntries& entries() { return *entries_; }
  MachineRanks& machineRanks() { return *ranks_; }
  QComboBox& hardware() { return *hardware_; }
  QComboBox& slice() { return *slice_; }  // of contexts and requests, that the grid shows
  SwitchPlot& switches() { return *switches_; }
  QComboBox& beside(std::size_t place) { return *beside_[place]; }
  QSlider& bandwidth() { return *bandwidth_; }
  NumberKnob& typedBandwidth() { return *typed_bandwidth_; }
  AcceptanceKnob& acceptance() { return *acceptance_; }
  QComboBox& model() { return *model_; }
  QComboBox& draftVocab() { return *draft_vocab_; }
  ScopeKnobs& scope() { return *scope_; }
  QToolButton& more() { return *more_; }
  NumberKnob& maxLoss() { return *max_loss_; }
  void setBandwidth(double terabytes_per_s);  // within 1 and 10
  void recolor();                             // the palette has changed
  QToolButton& classButton(PrecisionClass precision) {
    return *classes_[static_cast<std::size_t>(precision)];
  }
  // Chooses the machine of a file (`versieve profile --sweep calibrate --hardware-out`); what is
  // wrong with it as a sentence, empty if it was taken.
  QString addMachine(const QString& path);
  // Asks for the folder of a pair, sparse or dense, and plans for it.
  void askForFolder();
  // Asks where to write the shown classes, and writes them.
  void askForExport();

 Q_SIGNALS:
  void written(const QString& path);   // an export
  void said(const QString& sentence);  // why something was not done

 protected:
  void showEvent(QShowEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  void set_up_model();
  void set_up_machine();
  void set_up_beside();
  void list_beside();
  void leave_out_own();
  void set_up_slice();
  void list_slices(const PlanPtr& plan);
  PlanSlice chosen_slice(const PlanPtr& plan) const;
  void show_switches(const PlanPtr& plan);
  void turn_beside();
  void set_up_bandwidth();
  void set_up_max_loss();
  void set_up_scope();
  void show_scope();
  void show_objective();
  void follow_machine();
  QWidget* make_knobs();
  void set_up_draft();
  QWidget* make_classes();
  void ask_for_machine();
  QWidget* make_answer();
  void show_plan();
  void show_wait();
  void show_goals(const PlanPtr& plan);
  void show_cell();
  void show_entry(int row);
  void show_ranks_row(int row);
  void show_bandwidth();
  void turn_bandwidth(double terabytes_per_s);
  void reset_bandwidth();
  void list_models(const PlanPtr& plan);
  void list_drafts(const PlanPtr& plan);
  QString summary() const;

  static constexpr int kMarkPixels = 10;  // a class in the legend
  static constexpr int kStepsPerTerabyte = 10;
  static constexpr double kBytesPerTerabyte = 1e12;
  Planner* planner_;
  PlanEntries* entries_;
  QStackedWidget* stack_;
  FitWait* wait_;
  ElidedText* summary_;
  QLabel* planning_;  // that a knob's turn is planned
  QLabel* goals_;     // that the fit misses
  QComboBox* model_;
  QComboBox* hardware_;
  std::vector<HardwareSpec> machines_;      // of the choice's entries after the first
  std::vector<std::string> machine_files_;  // that they were read from, or empty
  QSlider* bandwidth_;
  NumberKnob* typed_bandwidth_;
  AcceptanceKnob* acceptance_;
  QComboBox* draft_vocab_;
  NumberKnob* max_loss_;  // below 0: no limit
  QComboBox* slice_;      // shown of several requests at once
  QWidget* slice_row_;    // with its title
  QToolButton* more_;     // shows what the plan goes over
  ScopeKnobs* scope_;
  QPushButton* reset_;
  QPushButton* export_;
  std::array<QToolButton*, kPrecisionClassCount> classes_{};
  PlanGrid* grid_;
  QTableView* table_;
  MachineRanks* ranks_;  // of the chosen machine and those beside it
  QTableView* ranks_table_;
  QStackedWidget* tables_;  // one of the two
  std::array<QComboBox*, 2> beside_{};
  QTextBrowser* details_;
  SwitchPlot* switches_;
  QTabWidget* beside_table_;  // the entry and the switches
  bool bandwidth_turned_ = false;
  PlanPtr shown_;  // in grid and table
  std::vector<PrecisionClass> shown_classes_;
  PlanSlice shown_slice_;
};

}  // namespace versieve::gui
