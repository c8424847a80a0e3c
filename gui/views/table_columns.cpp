#include "gui/views/table_columns.h"

#include <QHeaderView>
#include <QJsonArray>
#include <QJsonObject>
#include <QTableView>
#include <utility>

namespace versieve::gui {

QJsonValue columns_of(const QTableView& table) {
  const QHeaderView& header = *table.horizontalHeader();
  QJsonArray order, hidden;
  for (int place = 0; place < header.count(); ++place) {
    order << header.logicalIndex(place);
    if (header.isSectionHidden(header.logicalIndex(place))) {
      hidden << header.logicalIndex(place);
    }
  }
  return QJsonObject{{"order", order},
                     {"hidden", hidden},
                     {"sorted", header.sortIndicatorSection()},
                     {"descending", header.sortIndicatorOrder() == Qt::DescendingOrder}};
}

bool set_columns(QTableView& table, const QJsonValue& columns) {
  QHeaderView& header = *table.horizontalHeader();
  const QJsonArray order = columns["order"].toArray(), hidden = columns["hidden"].toArray();
  QList<bool> is_there(header.count(), false);
  for (const QJsonValue& column : order) {
    const int index = column.toInt(-1);
    if (index < 0 || index >= header.count() || std::exchange(is_there[index], true)) {
      return false;
    }
  }
  const int sorted = columns["sorted"].toInt(-1);
  if (is_there.contains(false) || hidden.size() >= header.count() || sorted >= header.count()) {
    return false;
  }
  for (int place = 0; place < header.count(); ++place) {
    header.moveSection(header.visualIndex(order[place].toInt()), place);
  }
  for (int column = 0; column < header.count(); ++column) {
    header.setSectionHidden(column, hidden.contains(column));
  }
  if (sorted >= 0) {
    table.sortByColumn(sorted,
                       columns["descending"].toBool() ? Qt::DescendingOrder : Qt::AscendingOrder);
  }
  return true;
}

}  // namespace versieve::gui
