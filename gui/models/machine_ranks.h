// One context range's ranking on several machines side by side: that of the planner's knobs first,
// the others planned for by the same fit, pair, draft and limit of losses, on a worker. A row for
// each strategy that is among the first ones of any of them.
#pragma once

#include <QAbstractTableModel>
#include <vector>

#include "gui/models/plan_slice.h"
#include "gui/models/planner.h"

namespace versieve::gui {

class MachineRanks : public QAbstractTableModel {
  Q_OBJECT
 public:
  explicit MachineRanks(Planner& planner, QObject* parent = nullptr);

  // Beside the planner's own; none: nothing is planned and there are no rows.
  void setBeside(std::vector<HardwareSpec> machines);
  const std::vector<HardwareSpec>& beside() const { return beside_; }
  void show(const PlanPlace& place, const std::vector<PrecisionClass>& classes);
  bool isBusy() const { return job_.isRunning(); }
  int machineCount() const { return static_cast<int>(tables_.size()); }
  const PlanTable& tableOf(int machine) const {
    return table_of(*tables_[static_cast<std::size_t>(machine)], place_.level);
  }
  QString strategyAt(int row) const;
  // Null where it is not among the first ones of that machine.
  const PlanEntry* entryAt(int row, int machine) const;
  // "1", "3 ≈" where its interval overlaps the first one's; a dash where it is not listed.
  QString rankText(int row, int machine) const;

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 Q_SIGNALS:
  void refused(const QString& sentence);  // a machine that cannot be planned for

 private:
  struct Row {
    Strategy strategy;
    PrecisionClass precision = PrecisionClass::kStrict;
    std::vector<int> places;  // [machine]: from 0; -1: not listed
  };
  struct Part {
    int machine = 0, part = 0;  // part: rank, tokens a second, interval
  };

  void follow_planner();
  void start();
  void fill_rows();
  Part part_of(int column) const;
  QString cell_text(int row, const Part& part) const;

  Planner& planner_;
  std::vector<HardwareSpec> beside_;
  PlanPtr plan_;  // that the tables are of; keeps the first of them alive
  std::vector<std::shared_ptr<const PlanTable>> tables_;  // [machine]
  std::vector<std::vector<const PlanEntry*>> entries_;    // [machine], ranked
  std::vector<Row> rows_;
  PlanPlace place_;  // of the cell that is shown
  std::vector<PrecisionClass> classes_;
  Job job_;
};

}  // namespace versieve::gui
