#include "gui/models/point_table.h"

#include <algorithm>
#include <cmath>

#include "gui/models/comparison.h"
#include "gui/models/numbers.h"
#include "gui/models/plain_words.h"
#include "gui/models/point_column.h"

namespace versieve::gui {
namespace {

const PointColumn& column_at(int column) {
  return point_columns()[static_cast<std::size_t>(column)];
}

// Within the text: the style's own arrow would lie over right-aligned titles.
QString sort_sign(Qt::SortOrder order) {
  return order == Qt::AscendingOrder ? QStringLiteral(" \u25b4") : QStringLiteral(" \u25be");
}

QVariant ratio_header(int role, const QString& sign) {
  switch (role) {
    case Qt::DisplayRole:
      return QString::fromUtf8("× baseline") + sign;
    case Qt::ToolTipRole:
      return QString::fromUtf8(
          "Median time over the baseline's (B makes the selected point the baseline)\n"
          "≈: their 95 % intervals overlap");
    case Qt::TextAlignmentRole:
      return QVariant::fromValue(Qt::AlignVCenter | Qt::AlignRight);
    default:
      return {};
  }
}

// By the ratio to one baseline as by the time itself.
const PointColumn& sorting_column(int column) {
  return column_at(column == PointTable::ratioColumn() ? column_index("time") : column);
}

}  // namespace

PointTable::PointTable(Document& document, QObject* parent)
    : QAbstractTableModel(parent), document_(document) {
  connect(&document, &Document::shownChanged, this, &PointTable::take_shown);
  connect(&document, &Document::baselineChanged, this, [this] {
    if (rowCount() > 0) {
      Q_EMIT dataChanged(index(0, ratioColumn()), index(rowCount() - 1, ratioColumn()));
    }
  });
  take_shown();
}

int PointTable::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(rows_.size());
}

int PointTable::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : ratioColumn() + 1;
}

int PointTable::ratioColumn() {
  return static_cast<int>(point_columns().size());
}

QVariant PointTable::ratio(int row, int role) const {
  const std::vector<db::PointOverview>& points = document_.snapshot()->overview.points;
  const int baseline = document_.baseline();
  switch (role) {
    case Qt::DisplayRole:
      return baseline < 0 ? QString(QChar(kAbsent))
                          : time_ratio_text(points[static_cast<std::size_t>(pointAt(row))],
                                            points[static_cast<std::size_t>(baseline)]);
    case Qt::TextAlignmentRole:
      return QVariant::fromValue(Qt::AlignVCenter | Qt::AlignRight);
    default:
      return {};
  }
}

QVariant PointTable::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || !document_.snapshot()) {
    return {};
  }
  if (index.column() == ratioColumn()) {
    return ratio(index.row(), role);
  }
  const PointColumn& column = column_at(index.column());
  const Snapshot& snapshot = *document_.snapshot();
  const db::PointOverview& point =
      snapshot.overview.points[static_cast<std::size_t>(pointAt(index.row()))];
  const bool is_strategy = index.column() == column_index("strategy");
  if (role == Qt::DisplayRole) {
    return is_strategy ? compact(column.text(snapshot, point)) : column.text(snapshot, point);
  }
  if (is_strategy && (role == kCopyRole || role == Qt::ToolTipRole)) {
    return column.text(snapshot, point);
  }
  if (role == Qt::TextAlignmentRole) {
    return QVariant::fromValue(
        Qt::AlignVCenter | (column.kind == ColumnKind::kNumber ? Qt::AlignRight : Qt::AlignLeft));
  }
  return {};
}

QVariant PointTable::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation == Qt::Vertical) {
    return {};
  }
  if (section == ratioColumn()) {
    return ratio_header(role, section == sort_column_ ? sort_sign(sort_order_) : QString());
  }
  const PointColumn& column = column_at(section);
  // What L counts depends on the workload; the tool tip says it.
  const QString unit = *column.unit == '\0' || column.counts_tokens
                           ? QString()
                           : ", " + QString::fromUtf8(column.unit);
  switch (role) {
    case Qt::DisplayRole:
      return QString(column.title) + unit + (section == sort_column_ ? sort_sign(sort_order_) : "");
    case Qt::ToolTipRole:
      return QString(column.meaning) + "\nIn the filter: " + column.key;
    case Qt::TextAlignmentRole:
      return QVariant::fromValue(
          Qt::AlignVCenter | (column.kind == ColumnKind::kNumber ? Qt::AlignRight : Qt::AlignLeft));
    default:
      return {};
  }
}

void PointTable::sort(int column, Qt::SortOrder order) {
  sort_column_ = column;
  sort_order_ = order;
  Q_EMIT layoutAboutToBeChanged({}, QAbstractItemModel::VerticalSortHint);
  const QModelIndexList old_indices = persistentIndexList();
  std::vector<int> points;
  for (const QModelIndex& index : old_indices) {
    points.push_back(pointAt(index.row()));
  }
  arrange();
  QModelIndexList new_indices;
  for (qsizetype i = 0; i < old_indices.size(); ++i) {
    new_indices << index(rowOf(points[static_cast<std::size_t>(i)]), old_indices[i].column());
  }
  changePersistentIndexList(old_indices, new_indices);
  Q_EMIT layoutChanged({}, QAbstractItemModel::VerticalSortHint);
  Q_EMIT headerDataChanged(Qt::Horizontal, 0, columnCount() - 1);
}

int PointTable::rowOf(int point) const {
  return point < 0 || static_cast<std::size_t>(point) >= places_.size()
             ? -1
             : places_[static_cast<std::size_t>(point)];
}

void PointTable::take_shown() {
  beginResetModel();
  rows_ = document_.shown();
  arrange();
  endResetModel();
}

void PointTable::arrange() {
  const std::size_t count = document_.snapshot() ? document_.snapshot()->overview.points.size() : 0;
  if (sort_column_ >= 0 && count > 0) {
    const Snapshot& snapshot = *document_.snapshot();
    const PointColumn& column = sorting_column(sort_column_);
    std::vector<double> values(count);
    for (const std::int32_t row : rows_) {
      const std::size_t point = static_cast<std::size_t>(row);
      values[point] = column.value(snapshot, snapshot.overview.points[point]);
    }
    const bool ascending = sort_order_ == Qt::AscendingOrder;
    std::stable_sort(
        rows_.begin(), rows_.end(), [&values, ascending](std::int32_t a, std::int32_t b) {
          const double x = values[static_cast<std::size_t>(a)];
          const double y = values[static_cast<std::size_t>(b)];
          if (std::isnan(x) || std::isnan(y)) {
            return !std::isnan(x) && std::isnan(y);  // what is absent comes last in either order
          }
          return ascending ? x < y : y < x;
        });
  }
  places_.assign(count, -1);
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    places_[static_cast<std::size_t>(rows_[row])] = static_cast<std::int32_t>(row);
  }
}

}  // namespace versieve::gui
