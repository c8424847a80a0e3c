// The rows of a comparison for table and plot: tuples of two databases, or cells of two tables,
// those that matter most first; sorted and narrowed by their own permutation.
#pragma once

#include <QAbstractTableModel>
#include <optional>
#include <vector>

#include "gui/models/comparer.h"

namespace versieve::gui {

struct ComparedRow {
  engine::Change change = engine::Change::kSame;
  double base = 0.0;   // of the first: ns, bytes, tokens a step; of tables tokens a second
  double ratio = 1.0;  // second / first; NaN where one is missing
  std::optional<Interval> ratio_interval;
  std::size_t source = 0;  // index of the tuple or cell
};

class ComparisonRows : public QAbstractTableModel {
  Q_OBJECT
 public:
  using QAbstractTableModel::QAbstractTableModel;

  // `against`: which of the files but the first, from 0. `keeps`: of tuples, whether the point of
  // that id in file `of` is shown; empty: all are.
  void show(const ComparedFilesPtr& files, int against,
            std::function<bool(const ComparedPoint& base, const ComparedPoint& other)> keeps);

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;
  void sort(int column, Qt::SortOrder order) override;

  const std::vector<ComparedRow>& rows() const { return rows_; }  // in the table's order
  bool areTables() const { return files_ && files_->are_tables; }
  const ComparedFilesPtr& files() const { return files_; }
  // Of the shown file against the first; null without one.
  const engine::PointComparison* points() const;
  const engine::TableComparison* cells() const;
  // The two points of a row. REQUIRES: of databases.
  const ComparedPoint& basePoint(int row) const;
  const ComparedPoint& otherPoint(int row) const;
  const engine::ComparedCell& cell(int row) const;
  QString changeText(int row) const;
  QString html(int row) const;   // all that is known of it
  QString line(int row) const;   // in one line, for tool tips and screen readers
  QString summary() const;       // counts and the rule
  QString surroundings() const;  // HTML: the files, and what differs between them

 private:
  struct Column;
  const std::vector<Column>& columns() const;
  static const std::vector<Column>& point_columns_of_comparison();
  static const std::vector<Column>& cell_columns();

  ComparedFilesPtr files_;
  int against_ = 0;
  std::size_t matched_ = 0;  // before `keeps`
  std::vector<ComparedRow> rows_;
};

}  // namespace versieve::gui
