#include "gui/models/point_table.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "gui/models/comparison.h"
#include "gui/models/numbers.h"
#include "gui/models/point_cells.h"
#include "gui/models/point_column.h"

namespace versieve::gui {
namespace {

constexpr std::size_t kSortedAtOnce = 50'000;  // points, in a moment

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
int sorting_column(int column) {
  return column == PointTable::ratioColumn() ? column_index("time") : column;
}

// All points, from the order in which they were.
std::vector<std::int32_t> sorted(const Snapshot& snapshot, std::vector<std::int32_t> order,
                                 int column, bool ascending) {
  const std::span<const double> values = snapshot.values.column(column);
  if (order.empty()) {
    order.resize(values.size());
    std::iota(order.begin(), order.end(), 0);
  }
  std::stable_sort(order.begin(), order.end(), [values, ascending](std::int32_t a, std::int32_t b) {
    const double x = values[static_cast<std::size_t>(a)];
    const double y = values[static_cast<std::size_t>(b)];
    if (std::isnan(x) || std::isnan(y)) {
      return !std::isnan(x) && std::isnan(y);  // what is absent comes last in either order
    }
    return ascending ? x < y : y < x;
  });
  return order;
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
  return point_cell(*document_.snapshot(), pointAt(index.row()), index.column(), role);
}

QVariant PointTable::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation == Qt::Vertical) {
    return {};
  }
  const QString sign = section == sort_column_ ? sort_sign(sort_order_) : QString();
  return section == ratioColumn() ? ratio_header(role, sign) : point_header(section, role, sign);
}

void PointTable::sort(int column, Qt::SortOrder order) {
  sort_column_ = column;
  sort_order_ = order;
  begin_sort();
  Q_EMIT headerDataChanged(Qt::Horizontal, 0, columnCount() - 1);
}

void PointTable::begin_sort() {
  const SnapshotPtr snapshot = document_.snapshot();
  if (!snapshot || sort_column_ < 0) {
    return;
  }
  std::vector<std::int32_t> order = sorted_ == snapshot ? order_ : std::vector<std::int32_t>();
  const int column = sorting_column(sort_column_);
  const bool ascending = sort_order_ == Qt::AscendingOrder;
  if (snapshot->overview.points.size() <= kSortedAtOnce) {
    sorted_ = snapshot;
    take_order(sorted(*snapshot, std::move(order), column, ascending));
    return;
  }
  using Order = std::vector<std::int32_t>;
  sort_job_.start<Order>([=] { return sorted(*snapshot, order, column, ascending); },
                         [=, this](const Order& sorted_order) {
                           if (snapshot == document_.snapshot()) {
                             sorted_ = snapshot;
                             take_order(sorted_order);
                           }
                         },
                         [](const QString&) {});
}

void PointTable::take_order(std::vector<std::int32_t> order) {
  Q_EMIT layoutAboutToBeChanged({}, QAbstractItemModel::VerticalSortHint);
  const QModelIndexList old_indices = persistentIndexList();
  std::vector<int> points;
  for (const QModelIndex& index : old_indices) {
    points.push_back(pointAt(index.row()));
  }
  order_ = std::move(order);
  pick_rows();
  std::vector<std::int32_t> places;  // [point] = row
  if (!points.empty()) {
    places.assign(order_.size(), -1);
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      places[static_cast<std::size_t>(rows_[row])] = static_cast<std::int32_t>(row);
    }
  }
  QModelIndexList new_indices;
  for (qsizetype i = 0; i < old_indices.size(); ++i) {
    const std::size_t point = static_cast<std::size_t>(points[static_cast<std::size_t>(i)]);
    new_indices << index(places[point], old_indices[i].column());
  }
  changePersistentIndexList(old_indices, new_indices);
  Q_EMIT layoutChanged({}, QAbstractItemModel::VerticalSortHint);
}

int PointTable::rowOf(int point) const {
  const auto row = point < 0 ? rows_.end() : std::find(rows_.begin(), rows_.end(), point);
  return row == rows_.end() ? -1 : static_cast<int>(row - rows_.begin());
}

void PointTable::take_shown() {
  beginResetModel();
  pick_rows();
  endResetModel();
  if (document_.snapshot() && sorted_ != document_.snapshot()) {
    begin_sort();
  }
}

// Of the sorted points those that are shown.
void PointTable::pick_rows() {
  if (order_.empty() || sorted_ != document_.snapshot()) {
    rows_ = document_.shown();
    return;
  }
  const std::vector<std::uint8_t>& mask = document_.mask();
  rows_.resize(order_.size());
  std::size_t count = 0;
  for (const std::int32_t point : order_) {
    rows_[count] = point;
    count += mask[static_cast<std::size_t>(point)];
  }
  rows_.resize(count);
}

}  // namespace versieve::gui
