// The ranked entries of one planner cell as a table.
#pragma once

#include <QAbstractTableModel>

#include "gui/models/planner.h"

namespace versieve::gui {

class PlanEntries : public QAbstractTableModel {
  Q_OBJECT
 public:
  using QAbstractTableModel::QAbstractTableModel;

  void show(const PlanPtr& plan, std::int64_t bucket, PrecisionClass precision);
  const PlanEntry* entryAt(int row) const;  // null beyond the last

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  PlanPtr plan_;  // keeps the entries alive
  std::vector<const PlanEntry*> entries_;
};

}  // namespace versieve::gui
