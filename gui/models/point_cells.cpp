#include "gui/models/point_cells.h"

#include "gui/models/plain_words.h"

namespace versieve::gui {
namespace {

QVariant alignment(const PointColumn& column) {
  return QVariant::fromValue(Qt::AlignVCenter |
                             (column.kind == ColumnKind::kNumber ? Qt::AlignRight : Qt::AlignLeft));
}

}  // namespace

const PointColumn& point_column(int column) {
  return point_columns()[static_cast<std::size_t>(column)];
}

QVariant point_cell(const Snapshot& snapshot, int point, int column, int role) {
  const PointColumn& shown = point_column(column);
  const db::PointOverview& of = snapshot.overview.points[static_cast<std::size_t>(point)];
  const bool is_strategy = column == column_index("strategy");
  if (role == Qt::DisplayRole) {
    return is_strategy ? compact(shown.text(snapshot, of)) : shown.text(snapshot, of);
  }
  if (is_strategy && (role == kCopyRole || role == Qt::ToolTipRole)) {
    return shown.text(snapshot, of);
  }
  return role == Qt::TextAlignmentRole ? alignment(shown) : QVariant();
}

QVariant point_header(int column, int role, const QString& sign) {
  const PointColumn& shown = point_column(column);
  // What L counts depends on the workload; the tool tip says it.
  const QString unit =
      *shown.unit == '\0' || shown.counts_tokens ? QString() : ", " + QString::fromUtf8(shown.unit);
  switch (role) {
    case Qt::DisplayRole:
      return QString(shown.title) + unit + sign;
    case Qt::ToolTipRole:
      return QString(shown.meaning) + "\nIn the filter: " + shown.key;
    case Qt::TextAlignmentRole:
      return alignment(shown);
    default:
      return {};
  }
}

}  // namespace versieve::gui
