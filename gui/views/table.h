// The look that all tables share.
#pragma once

class QTableView;

namespace versieve::gui {

void style_table(QTableView& table);

}  // namespace versieve::gui
