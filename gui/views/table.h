// The look that all tables share, and how their rows are copied.
#pragma once

class QString;
class QTableView;

namespace versieve::gui {

void style_table(QTableView& table);
// The selected rows with the columns' titles, as columns stand, separated by tabs.
QString selected_rows(const QTableView& table);

}  // namespace versieve::gui
