// Which columns a table shows, in which order, and by which it is sorted, told as data, so that it
// can be kept and brought back.
#pragma once

#include <QJsonValue>

class QTableView;

namespace versieve::gui {

QJsonValue columns_of(const QTableView& table);
// False, and nothing changed, where it is of another table.
bool set_columns(QTableView& table, const QJsonValue& columns);

}  // namespace versieve::gui
