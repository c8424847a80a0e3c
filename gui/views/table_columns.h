// Which columns a table shows, in which order, and by which it is sorted: chosen by a menu of its
// header, moved by dragging, and told as data, so that it can be kept and brought back.
#pragma once

#include <QJsonValue>

class QTableView;

namespace versieve::gui {

// The header's menu, and titles that can be dragged.
void offer_columns(QTableView& table);
// Opens that menu, for the keyboard.
void show_column_menu(QTableView& table);

QJsonValue columns_of(const QTableView& table);
// False, and nothing changed, where it is of another table.
bool set_columns(QTableView& table, const QJsonValue& columns);

}  // namespace versieve::gui
