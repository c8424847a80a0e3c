#include "gui/views/table.h"

#include <QHeaderView>
#include <QTableView>

namespace versieve::gui {

void style_table(QTableView& table) {
  table.setSelectionBehavior(QAbstractItemView::SelectRows);
  table.setSelectionMode(QAbstractItemView::SingleSelection);
  table.setEditTriggers(QAbstractItemView::NoEditTriggers);
  table.setShowGrid(false);
  table.setAlternatingRowColors(true);
  table.setWordWrap(false);
  table.verticalHeader()->hide();
  table.verticalHeader()->setDefaultSectionSize(24);
  table.horizontalHeader()->setHighlightSections(false);
  table.setHorizontalScrollMode(QAbstractItemView::ScrollPerPixel);
}

}  // namespace versieve::gui
