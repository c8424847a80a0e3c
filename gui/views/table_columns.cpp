#include "gui/views/table_columns.h"

#include <QHeaderView>
#include <QJsonArray>
#include <QJsonObject>
#include <QMenu>
#include <QTableView>
#include <utility>

namespace versieve::gui {
namespace {

QString title_of(const QTableView& table, int column) {
  QString title = table.model()->headerData(column, Qt::Horizontal).toString();
  return title.remove(QChar(0x25b4)).remove(QChar(0x25be)).trimmed();  // the signs of a sort
}

// One column stays.
void open_menu(QTableView& table, const QPoint& at) {
  QHeaderView& header = *table.horizontalHeader();
  QMenu* menu = new QMenu(&table);
  menu->setObjectName("columnMenu");
  menu->setAttribute(Qt::WA_DeleteOnClose);
  for (int place = 0; place < header.count(); ++place) {
    const int column = header.logicalIndex(place);
    QAction* action = menu->addAction(title_of(table, column).replace('&', "&&"));
    action->setCheckable(true);
    action->setChecked(!header.isSectionHidden(column));
    action->setEnabled(header.isSectionHidden(column) ||
                       header.hiddenSectionCount() + 1 < header.count());
    QObject::connect(action, &QAction::triggered, &table,
                     [&table, column](bool is_shown) { table.setColumnHidden(column, !is_shown); });
  }
  menu->popup(at);
}

}  // namespace

void offer_columns(QTableView& table) {
  QHeaderView& header = *table.horizontalHeader();
  header.setSectionsMovable(true);
  header.setContextMenuPolicy(Qt::CustomContextMenu);
  QObject::connect(
      &header, &QHeaderView::customContextMenuRequested, &table,
      [&table, &header](const QPoint& at) { open_menu(table, header.mapToGlobal(at)); });
}

void show_column_menu(QTableView& table) {
  open_menu(table, table.horizontalHeader()->mapToGlobal(QPoint(0, 0)));
}

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
