#include "gui/views/table.h"

#include <QAction>
#include <QClipboard>
#include <QGuiApplication>
#include <QHeaderView>
#include <QMenu>
#include <QTableView>
#include <QToolTip>
#include <algorithm>

#include "gui/models/plain_words.h"
#include "gui/views/decimal_cells.h"

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

QString title_of(const QTableView& table, int column) {
  QString title = table.model()->headerData(column, Qt::Horizontal).toString();
  return title.remove(QChar(0x25b4)).remove(QChar(0x25be)).trimmed();  // the signs of a sort
}

// What cannot be seen cannot be shown again: one column stays.
void list_columns(QTableView& table, QMenu& menu) {
  menu.clear();
  QHeaderView& header = *table.horizontalHeader();
  const bool is_last = header.count() - header.hiddenSectionCount() == 1;
  for (int place = 0; place < header.count(); ++place) {
    const int column = header.logicalIndex(place);
    QAction* action = menu.addAction(title_of(table, column).replace('&', "&&"));
    action->setCheckable(true);
    action->setChecked(!header.isSectionHidden(column));
    action->setEnabled(header.isSectionHidden(column) || !is_last);
    QObject::connect(action, &QAction::toggled, &table,
                     [&table, column](bool is_shown) { table.setColumnHidden(column, !is_shown); });
  }
  menu.addSeparator();
  QObject::connect(menu.addAction(QObject::tr("All columns, as they stood")), &QAction::triggered,
                   &table, [&table] { show_all_columns(table); });
}

void open_column_menu(QTableView& table, const QPoint& at) {
  QMenu* menu = new QMenu(&table);
  menu->setObjectName("columnMenu");
  menu->setAttribute(Qt::WA_DeleteOnClose);
  list_columns(table, *menu);
  menu->popup(at);
}

// Dragged by their titles; chosen from a menu of the titles, which Shift+F10 in the table opens
// too.
void offer_columns(QTableView& table) {
  QHeaderView& header = *table.horizontalHeader();
  header.setSectionsMovable(true);
  header.setContextMenuPolicy(Qt::CustomContextMenu);
  QAction* columns = new QAction(QObject::tr("Columns"), &table);
  QMenu* menu = new QMenu(&table);
  menu->setObjectName("columnList");
  columns->setMenu(menu);
  QObject::connect(menu, &QMenu::aboutToShow, &table,
                   [&table, menu] { list_columns(table, *menu); });
  QObject::connect(
      &header, &QWidget::customContextMenuRequested, &table,
      [&table, &header](const QPoint& at) { open_column_menu(table, header.mapToGlobal(at)); });
  table.addAction(columns);
}

}  // namespace

void show_column_menu(QTableView& table) {
  open_column_menu(table, table.horizontalHeader()->mapToGlobal(QPoint(0, 0)));
}

void show_all_columns(QTableView& table) {
  QHeaderView& header = *table.horizontalHeader();
  for (int column = 0; column < header.count(); ++column) {
    table.setColumnHidden(column, false);
    header.moveSection(header.visualIndex(column), column);
  }
}

void style_table(QTableView& table) {
  table.setSelectionBehavior(QAbstractItemView::SelectRows);
  table.setSelectionMode(QAbstractItemView::ExtendedSelection);
  table.setEditTriggers(QAbstractItemView::NoEditTriggers);
  table.setTabKeyNavigation(false);  // Tab goes on to the next control; arrows move in the table
  table.setShowGrid(false);
  table.setAlternatingRowColors(true);
  table.setWordWrap(false);
  table.setItemDelegate(new DecimalCells(&table));
  table.verticalHeader()->hide();
  table.verticalHeader()->setDefaultSectionSize(24);
  table.horizontalHeader()->setHighlightSections(false);
  table.setHorizontalScrollMode(QAbstractItemView::ScrollPerPixel);
  QAction* copy = new QAction(QObject::tr("Copy rows"), &table);
  copy->setShortcut(QKeySequence::Copy);
  copy->setShortcutContext(Qt::WidgetShortcut);
  QObject::connect(copy, &QAction::triggered, &table, [&table] { copy_rows(table); });
  table.addAction(copy);
  offer_columns(table);
  table.setContextMenuPolicy(Qt::ActionsContextMenu);
}

QList<int> shown_columns(const QTableView& table) {
  const QHeaderView& header = *table.horizontalHeader();
  QList<int> columns;
  for (int place = 0; place < header.count(); ++place) {
    if (!header.isSectionHidden(header.logicalIndex(place))) {
      columns << header.logicalIndex(place);
    }
  }
  return columns;
}

QString selected_rows(const QTableView& table) {
  const QAbstractItemModel& model = *table.model();
  const QList<int> columns = shown_columns(table);
  QModelIndexList rows = table.selectionModel()->selectedRows();
  std::sort(rows.begin(), rows.end());
  QStringList lines;
  QStringList cells;
  for (const int column : columns) {
    cells << model.headerData(column, Qt::Horizontal).toString();
  }
  lines << cells.join('\t');
  for (const QModelIndex& row : rows) {
    cells.clear();
    for (const int column : columns) {
      const QModelIndex cell = model.index(row.row(), column);
      const QVariant copied = cell.data(kCopyRole);
      cells << (copied.isValid() ? copied : cell.data()).toString();
    }
    lines << cells.join('\t');
  }
  return lines.join('\n') + '\n';
}

}  // namespace versieve::gui
