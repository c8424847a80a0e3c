// The cells of a replay as a table: tokens a second and gains over the fixed baseline by policy.
#pragma once

#include <QAbstractTableModel>
#include <utility>
#include <vector>

#include "gui/models/replayer.h"

namespace versieve::gui {

class ReplayTable : public QAbstractTableModel {
  Q_OBJECT
 public:
  using QAbstractTableModel::QAbstractTableModel;

  // Beside the text: gains over the fixed baseline, for who paints them.
  enum Role {
    kIsPlayedRole = Qt::UserRole,
    kFirstRole,
    kNextRankedRole,
    kPromiseRole,
    kScaleLowRole,
    kScaleHighRole
  };

  void show(const ReplayedPtr& replayed);
  // What stands in a row: a cell that was played, or one that was not. Null, null beyond the last.
  struct Line {
    const engine::ReplayRow* played = nullptr;
    const engine::ReplayGap* gap = nullptr;
  };
  Line lineAt(int row) const;
  std::pair<std::int64_t, PrecisionClass> cellAt(int row) const;  // REQUIRES: a row
  static int gainColumn();  // that shows all gains beside each other

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  void arrange();
  QString text(const Line& line, int column) const;
  QVariant painted(const engine::ReplayRow& row, int role) const;

  ReplayedPtr replayed_;
  std::vector<Line> lines_;  // in the table's order of buckets and classes
  double low_ = 0.0;         // gains that the painted column spans
  double high_ = 0.1;
};

}  // namespace versieve::gui
