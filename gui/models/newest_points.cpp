#include "gui/models/newest_points.h"

#include <algorithm>
#include <vector>

#include "gui/models/point_cells.h"

namespace versieve::gui {
namespace {

// As indices of point_columns().
const std::vector<int>& shown_of_new_points() {
  static const std::vector<int> columns = [] {
    std::vector<int> found;
    for (const char* key : {"workload", "model", "strategy", "L", "N", "time", "spread", "dram",
                            "accepted", "status"}) {
      found.push_back(column_index(key));
    }
    return found;
  }();
  return columns;
}

int column_of(int section) {
  return shown_of_new_points()[static_cast<std::size_t>(section)];
}

}  // namespace

NewestPoints::NewestPoints(Document& document, QObject* parent)
    : QAbstractTableModel(parent), document_(document), snapshot_(document.snapshot()) {
  connect(&document, &Document::loaded, this, [this] {
    beginResetModel();
    snapshot_ = document_.snapshot();
    endResetModel();
  });
}

int NewestPoints::columnWidth(int section) {
  return point_column(column_of(section)).width;
}

int NewestPoints::rowCount(const QModelIndex& parent) const {
  return parent.isValid() || !snapshot_
             ? 0
             : std::min(kMost, static_cast<int>(snapshot_->overview.points.size()));
}

int NewestPoints::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(shown_of_new_points().size());
}

QVariant NewestPoints::data(const QModelIndex& index, int role) const {
  if (!index.isValid()) {
    return {};
  }
  const int newest = static_cast<int>(snapshot_->overview.points.size()) - 1;
  return point_cell(*snapshot_, newest - index.row(), column_of(index.column()), role);
}

QVariant NewestPoints::headerData(int section, Qt::Orientation orientation, int role) const {
  return orientation == Qt::Vertical ? QVariant() : point_header(column_of(section), role);
}

}  // namespace versieve::gui
