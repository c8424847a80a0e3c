#include "gui/views/table.h"

#include <QAction>
#include <QClipboard>
#include <QGuiApplication>
#include <QHeaderView>
#include <QTableView>
#include <QToolTip>
#include <algorithm>

#include "gui/models/plain_words.h"

namespace versieve::gui {
namespace {

constexpr qsizetype kMostCopied = 20'000;  // rows, in a moment

void copy_rows(QTableView& table) {
  if (table.selectionModel()->selectedRows().size() > kMostCopied) {
    QToolTip::showText(table.mapToGlobal(table.rect().center()),
                       QObject::tr("More than %1 rows are not copied: narrow them by the filter.")
                           .arg(kMostCopied));
    return;
  }
  QGuiApplication::clipboard()->setText(selected_rows(table));
}

}  // namespace

void style_table(QTableView& table) {
  table.setSelectionBehavior(QAbstractItemView::SelectRows);
  table.setSelectionMode(QAbstractItemView::ExtendedSelection);
  table.setEditTriggers(QAbstractItemView::NoEditTriggers);
  table.setTabKeyNavigation(false);  // Tab goes on to the next control; arrows move in the table
  table.setShowGrid(false);
  table.setAlternatingRowColors(true);
  table.setWordWrap(false);
  table.verticalHeader()->hide();
  table.verticalHeader()->setDefaultSectionSize(24);
  table.horizontalHeader()->setHighlightSections(false);
  table.setHorizontalScrollMode(QAbstractItemView::ScrollPerPixel);
  QAction* copy = new QAction(QObject::tr("Copy rows"), &table);
  copy->setShortcut(QKeySequence::Copy);
  copy->setShortcutContext(Qt::WidgetShortcut);
  QObject::connect(copy, &QAction::triggered, &table, [&table] { copy_rows(table); });
  table.addAction(copy);
  table.setContextMenuPolicy(Qt::ActionsContextMenu);
}

QString selected_rows(const QTableView& table) {
  const QAbstractItemModel& model = *table.model();
  const QHeaderView& header = *table.horizontalHeader();
  QModelIndexList rows = table.selectionModel()->selectedRows();
  std::sort(rows.begin(), rows.end());
  QStringList lines;
  QStringList cells;
  for (int place = 0; place < header.count(); ++place) {
    cells << model.headerData(header.logicalIndex(place), Qt::Horizontal).toString();
  }
  lines << cells.join('\t');
  for (const QModelIndex& row : rows) {
    cells.clear();
    for (int place = 0; place < header.count(); ++place) {
      const QModelIndex cell = model.index(row.row(), header.logicalIndex(place));
      const QVariant copied = cell.data(kCopyRole);
      cells << (copied.isValid() ? copied : cell.data()).toString();
    }
    lines << cells.join('\t');
  }
  return lines.join('\n') + '\n';
}

}  // namespace versieve::gui
