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
#include "gui/views/table.h"
#include "gui/views/theme.h"
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
  void cleanupTestCase() { QThreadPool::globalInstance()->waitForDone(); }

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

QTEST_MAIN(TableColumnsTest)
#include "table_columns_test.moc"
