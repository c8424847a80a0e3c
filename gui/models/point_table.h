// The shown points as a table: its own permutation instead of a sorting proxy, which is a hundred
// thousand times slower to narrow at a million rows. All points are sorted once and the shown ones
// picked from them. Sorting is stable: sort by L, then by time; of many points on a worker.
#pragma once

#include <QAbstractTableModel>
#include <vector>

#include "gui/models/document.h"
#include "gui/models/jobs.h"

namespace versieve::gui {

class PointTable : public QAbstractTableModel {
  Q_OBJECT
 public:
  explicit PointTable(Document& document, QObject* parent = nullptr);

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;
  void sort(int column, Qt::SortOrder order) override;

  int pointAt(int row) const { return rows_[static_cast<std::size_t>(row)]; }
  int rowOf(int point) const;  // -1 if it is not shown
  // After those of point_columns(): the time over the baseline's.
  static int ratioColumn();

 private:
  QVariant ratio(int row, int role) const;
  void take_shown();
  void begin_sort();
  void pick_rows();
  void take_order(std::vector<std::int32_t> order);

  Document& document_;
  std::vector<std::int32_t> rows_;   // [row] = point
  std::vector<std::int32_t> order_;  // all points as they are sorted; empty: as they were stored
  SnapshotPtr sorted_;               // that the order is of
  Job sort_job_;
  int sort_column_ = -1;
  Qt::SortOrder sort_order_ = Qt::AscendingOrder;
};

}  // namespace versieve::gui
