// The look that all tables share, and how their rows are copied.
#pragma once

#include <QList>

class QString;
class QTableView;

namespace versieve::gui {

void style_table(QTableView& table);
// Of the columns, as the right button opens it on their titles.
void show_column_menu(QTableView& table);
// Shown, and in the order of the model.
void show_all_columns(QTableView& table);
// As they stand from left to right.
QList<int> shown_columns(const QTableView& table);
// The selected rows with the columns' titles, as columns stand, separated by tabs.
QString selected_rows(const QTableView& table);

}  // namespace versieve::gui
