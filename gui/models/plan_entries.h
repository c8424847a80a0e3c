// Ranked entries of one context range as a table: of one class, or of several together.
#pragma once

#include <QAbstractTableModel>
#include <map>
#include <string>

#include "gui/models/plan_slice.h"
#include "gui/models/planner.h"

namespace versieve::gui {

class PlanEntries : public QAbstractTableModel {
  Q_OBJECT
 public:
  using QAbstractTableModel::QAbstractTableModel;

  // Beside the text: the interval of tokens a second, for who paints it.
  enum Role {
    kLowRole = Qt::UserRole,
    kMiddleRole,
    kHighRole,
    kBaselineRole,
    kScaleLowRole,
    kScaleHighRole
  };

  void show(const PlanPtr& plan, const PlanPlace& place,
            const std::vector<PrecisionClass>& classes);
  // Whether its interval overlaps that of the first: not decided which is faster.
  bool isTied(int row) const;
  const PlanEntry* entryAt(int row) const;  // null beyond the last

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  // Of the column that shows the interval.
  static int intervalColumn();
  int rowOf(const QString& strategy) const;  // -1 if it is not among them
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  QString rank_text(int row) const;

  PlanPtr plan_;  // keeps the entries alive
  int level_ = 0;
  std::vector<const PlanEntry*> entries_;
  Interval scale_;         // tokens a second that the list spans
  double baseline_ = 0.0;  // of the fixed baseline
  // On another machine than the measured one: ranks there, by strategy.
  std::map<std::string, int> ranks_before_;
};

}  // namespace versieve::gui
