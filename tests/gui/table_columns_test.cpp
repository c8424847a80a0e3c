// Columns of a table are chosen, moved and remembered.
#include <QDir>
#include <QHeaderView>
#include <QMenu>
#include <QStandardItemModel>
#include <QTableView>
#include <QTemporaryDir>
#include <QTest>
#include <QThreadPool>
#include <memory>

#include "gui/models/preferences.h"
#include "gui/pages/points_page.h"
#include "gui/views/decimal_cells.h"
#include "gui/views/table.h"
#include "gui/views/theme.h"
#include "tests/gui/test_main.h"
#include "tests/gui/window_case.h"

using namespace versieve;
using namespace versieve::gui;

class TableColumnsTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir folder_;

  static QAction* entry(QMenu& menu, const QString& title) {
    for (QAction* action : menu.actions()) {
      if (action->text() == title) {
        return action;
      }
    }
    return nullptr;
  }

 private Q_SLOTS:
  void initTestCase() { theme::apply(*qApp); }
  void cleanupTestCase() { job_pool().waitForDone(); }

  // What stands left of a mark, and what right of it, is painted at the same place in every row.
  void decimalMarksStandUnderEachOther() {
    const auto cut = [](const QString& text) {
      const DecimalText parts = at_its_mark(text);
      return parts.whole + "|" + parts.rest;
    };
    QCOMPARE(cut("12.5 µs"), QString("12|.5 µs"));
    QCOMPARE(cut("3 ≈ (was 7)"), QString("3| ≈ (was 7)"));
    QCOMPARE(cut("1 234.5"), QString("1 234|.5"));
    QCOMPARE(cut("> 0.99"), QString("> 0|.99"));
    QCOMPARE(cut("64K"), QString("64|K"));
    QCOMPARE(cut("± 0.3"), QString("± 0|.3"));
    QCOMPARE(cut("\u2013"), QString("\u2013|"));
    QStandardItemModel model(0, 1);
    const QStringList texts = {"12.25", "999.25", "12", "12.5", "7.25", "\u2013"};
    for (const QString& text : texts) {
      QStandardItem* item = new QStandardItem(text);
      item->setTextAlignment(Qt::AlignRight | Qt::AlignVCenter);
      model.appendRow(item);
    }
    QTableView table;
    style_table(table);
    table.setAlternatingRowColors(false);
    table.setModel(&model);
    table.setColumnWidth(0, 120);
    table.resize(200, 300);
    table.show();
    const QImage image = table.viewport()->grab().toImage();
    const auto part = [&](int row, int left, int right) {
      const QRect cell = table.visualRect(model.index(row, 0));
      return image.copy(QRect(left, cell.top(), right - left, cell.height()));
    };
    const int end = 120;
    int mark = end;  // left of what only the rows of ".25" share
    while (mark > 0 && part(0, mark - 1, end) == part(1, mark - 1, end)) {
      --mark;
    }
    const int rest = QFontMetrics(table.font()).horizontalAdvance(".25");
    QVERIFY2(end - mark >= rest && end - mark <= rest + 30, qPrintable(QString::number(mark)));
    QCOMPARE(part(4, mark + 1, end), part(0, mark + 1, end));
    // A number of no decimals, and one of fewer, begin and end where "12.25" does.
    const int edge = end - 4 - rest;
    QCOMPARE(part(2, 0, edge - 1), part(0, 0, edge - 1));
    QCOMPARE(part(3, 0, edge - 1), part(0, 0, edge - 1));
    QVERIFY(part(5, 0, edge) != part(2, 0, edge));
    // Of a narrow column nothing is painted over what stands beside it.
    table.setColumnWidth(0, 30);
    (void)table.viewport()->grab();
  }

  void columnsAreChosenMovedAndRemembered() {
    QVERIFY(copy_shipped("h100.db", folder_));
    const QString kept = folder_.filePath("kept.ini");
    int hidden = -1;
    {
      Preferences preferences(kept);
      Window window;
      window.keepIn(preferences);
      window.show();
      QVERIFY(open(window, folder_.filePath("h100.db")));
      window.showPage("points");
      QTableView& table = *window.pointsPage().findChild<QTableView*>("points");
      QMenu& menu = *table.findChild<QMenu*>("columnList");
      Q_EMIT menu.aboutToShow();
      const QString title = table.model()->headerData(2, Qt::Horizontal).toString();
      QVERIFY(entry(menu, title) != nullptr);
      entry(menu, title)->trigger();
      hidden = 2;
      QVERIFY(table.isColumnHidden(hidden));
      table.horizontalHeader()->moveSection(0, 3);
      table.selectRow(0);
      QVERIFY(!selected_rows(table).split('\n').first().split('\t').contains(title));
      window.close();
    }
    Preferences preferences(kept);
    Window window;
    window.keepIn(preferences);
    window.show();
    QVERIFY(open(window, folder_.filePath("h100.db")));
    QTableView& table = *window.pointsPage().findChild<QTableView*>("points");
    QVERIFY(table.isColumnHidden(hidden));
    QCOMPARE(table.horizontalHeader()->visualIndex(0), 3);
    show_all_columns(table);
    QVERIFY(!table.isColumnHidden(hidden));
    QCOMPARE(table.horizontalHeader()->visualIndex(0), 0);
  }

  void theLastColumnStays() {
    QStandardItemModel model(1, 2);
    QTableView table;
    style_table(table);
    table.setModel(&model);
    table.setColumnHidden(0, true);
    QMenu& menu = *table.findChild<QMenu*>("columnList");
    Q_EMIT menu.aboutToShow();
    QVERIFY(menu.actions()[0]->isEnabled());
    QVERIFY(!menu.actions()[1]->isEnabled());
  }
};

VERSIEVE_GUI_TEST(TableColumnsTest)
#include "table_columns_test.moc"
