// The page of points: brushing, comparing with a baseline, copying, and what it says when there is
// nothing to show.
#include <QClipboard>
#include <QComboBox>
#include <QFile>
#include <QGuiApplication>
#include <QSignalSpy>
#include <QTableView>
#include <QTemporaryDir>
#include <QTest>
#include <QTextBrowser>
#include <QThreadPool>
#include <QToolButton>
#include <set>

#include "gui/models/comparison.h"
#include "gui/models/filter_terms.h"
#include "gui/models/numbers.h"
#include "gui/models/point_column.h"
#include "gui/models/point_filter.h"
#include "gui/pages/points_page.h"
#include "gui/views/table.h"
#include "gui/views/theme.h"
#include "tests/gui/database_case.h"
#include "tests/gui/test_main.h"

using namespace versieve;
using namespace versieve::gui;

class PointsPageTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir folder_;
  QString sweep_;

 private Q_SLOTS:
  void initTestCase() {
    theme::apply(*qApp);
    sweep_ = made_up_sweep_in(folder_);
  }

  void cleanupTestCase() { job_pool().waitForDone(); }

  void aRangeReplacesWhatTheFilterSaidOfThatColumn() {
    QCOMPARE(with_range("", "time", 12.34, 56.7891), QString("time>=12.34 time<=56.79"));
    QCOMPARE(with_range("L>=16K chat time < 9 source=measured", "time", 1.0, 2.0),
             QString("L>=16K chat source=measured time>=1 time<=2"));
    QCOMPARE(with_range("L=4K N!=1", "L", 4000.4, 123456.0), QString("N!=1 L>=4000 L<=123456"));
  }

  void draggingWithShiftBrushesPointsIntoTheFilter() {
    Window window;
    window.show();
    QVERIFY(open(window, sweep_));
    window.showPage("points");
    Scatter& scatter = window.pointsPage().scatter();
    const QRect area = scatter.plotArea();
    const QRect band(area.left() + area.width() / 3, area.top() - 20, area.width() / 3,
                     area.height() / 2 + 20);
    std::set<std::int32_t> inside;
    for (const std::int32_t point : window.document().shown()) {
      const QPointF place = scatter.placeOf(point);
      if (!place.isNull() && QRectF(band).contains(place)) {
        inside.insert(point);
      }
    }
    QVERIFY(!inside.empty() && static_cast<int>(inside.size()) < test::kMadeUpPoints);
    QTest::mousePress(&scatter, Qt::LeftButton, Qt::ShiftModifier, band.topLeft());
    QTest::mouseMove(&scatter, band.center());
    QMouseEvent move(QEvent::MouseMove, band.center(), scatter.mapToGlobal(band.center()),
                     Qt::LeftButton, Qt::LeftButton, Qt::ShiftModifier);
    QCoreApplication::sendEvent(&scatter, &move);
    (void)scatter.grab();
    QTest::mouseRelease(&scatter, Qt::LeftButton, Qt::ShiftModifier, band.bottomRight());
    QVERIFY(window.document().filterText().contains("L>="));
    QVERIFY(window.document().filterText().contains("time<="));
    const std::vector<std::int32_t>& shown = window.document().shown();
    QCOMPARE(std::set<std::int32_t>(shown.begin(), shown.end()), inside);
  }

  void everyPointIsComparedWithTheBaseline() {
    Window window;
    window.show();
    QVERIFY(open(window, sweep_));
    window.showPage("points");
    PointsPage& page = window.pointsPage();
    const std::vector<db::PointOverview>& points = window.document().snapshot()->overview.points;
    const int column = PointTable::ratioColumn();
    const int last = 4, first = 0;  // 1K, 128 queries and 1
    QCOMPARE(cell(page.points(), page.points().rowOf(last), column), QString(QChar(kAbsent)));
    window.activateWindow();
    QVERIFY(QTest::qWaitForWindowActive(&window));
    window.document().select(first);
    QTest::keyClick(&page, Qt::Key_B);
    QTRY_COMPARE_WITH_TIMEOUT(window.document().baseline(), first, kWaitMs);  // after the press
    QCOMPARE(cell(page.points(), page.points().rowOf(first), column), QString("≈ 1.00"));
    QCOMPARE(cell(page.points(), page.points().rowOf(last), column),
             fixed(*points[last].median_ns / *points[first].median_ns, 2));
    window.document().select(last);
    const QTextBrowser* details = page.findChild<QTextBrowser*>("point");
    QTRY_VERIFY_WITH_TIMEOUT(details->toPlainText().contains("The baseline has"), kWaitMs);
    const QString text = details->toPlainText();
    QVERIFY(text.contains("Against the baseline"));
    QVERIFY2(text.contains("The baseline has strategy nsa/ar, N 1."), qPrintable(text));
    (void)window.grab();
    // Of the baseline itself the same key is the way back; another file has another baseline.
    window.document().select(first);
    QTest::keyClick(&page, Qt::Key_B);
    QTRY_COMPARE_WITH_TIMEOUT(window.document().baseline(), -1, kWaitMs);
    window.document().setBaseline(last);
    QVERIFY(open(window, sweep_));
    QCOMPARE(window.document().baseline(), last);
    const QString other = folder_.filePath("other.db");
    QVERIFY(QFile::copy(sweep_, other));
    QVERIFY(open(window, other));
    QCOMPARE(window.document().baseline(), -1);
  }

  void timesWhoseIntervalsOverlapAreNotSaidToDiffer() {
    db::PointOverview here, there;
    here.median_ns = 1010, here.median_low_ns = 1000, here.median_high_ns = 1020;
    there.median_ns = 1000, there.median_low_ns = 990, there.median_high_ns = 1005;
    QCOMPARE(time_ratio_text(here, there), QString("≈ 1.01"));
    there.median_high_ns = 999;
    QCOMPARE(time_ratio_text(here, there), QString("1.01"));
    there.median_ns.reset();
    QCOMPARE(time_ratio_text(here, there), QString(QChar(kAbsent)));
  }

  // The point's page was shown for a selection that was gone: an index of -1.
  void whatIsReadForAnEarlierSelectionIsDropped() {
    Window window;
    window.show();
    QVERIFY(open(window, sweep_));
    window.showPage("points");
    job_pool().waitForDone();
    QCoreApplication::processEvents();
    QSignalSpy read(&window.document(), &Document::pointRead);
    window.document().select(5);
    window.document().select(-1);
    job_pool().waitForDone();
    QCoreApplication::processEvents();
    QCOMPARE(read.size(), 0);
    window.document().select(6);
    window.document().select(7);
    job_pool().waitForDone();
    QCoreApplication::processEvents();
    QCOMPARE(read.size(), 1);  // of the last alone
  }

  // The points that another, larger database had shown were looked for in the new one.
  void aFilterThatCannotBeReadShowsAllOfTheNextDatabase() {
    const QString path = folder_.filePath("smaller.db");
    test::write_imported(path.toStdString());
    Window window;
    window.show();
    window.document().setFilter("nonsense=1");
    QVERIFY(open(window, sweep_));
    window.showPage("points");
    QCOMPARE(window.pointsPage().points().rowCount(), test::kMadeUpPoints);
    QVERIFY(open(window, path));
    (void)window.grab();
    QCOMPARE(window.pointsPage().points().rowCount(), 2);
    QVERIFY(window.document().filterError().contains("nonsense"));
  }

  void selectedRowsAreCopiedWithTheirTitles() {
    Window window;
    window.show();
    QVERIFY(open(window, sweep_));
    window.showPage("points");
    QTableView& table = window.pointsPage().table();
    table.selectRow(0);
    table.selectionModel()->select(table.model()->index(2, 0),
                                   QItemSelectionModel::Select | QItemSelectionModel::Rows);
    table.setFocus();
    QTest::keyClick(&table, Qt::Key_C, Qt::ControlModifier);
    const QStringList lines = QGuiApplication::clipboard()->text().split('\n');
    QCOMPARE(lines.size(), 4);
    QVERIFY(lines[0].startsWith("Source\tSystem\tWorkload\t"));
    QVERIFY(lines[1].startsWith("measured\tNSA\tattention\t"));
    QCOMPARE(lines[1].count('\t'), lines[0].count('\t'));
    QVERIFY(lines[3].isEmpty());
  }

  // The sort's sign pushed the title of the sorted column out of its cell.
  void titlesHaveRoomForTheSignOfTheSort() {
    Window window;
    window.show();
    QVERIFY(open(window, sweep_));
    window.showPage("points");
    QTableView& table = window.pointsPage().table();
    for (int column = 0; column < table.model()->columnCount(); ++column) {
      table.sortByColumn(column, Qt::DescendingOrder);
      const QString title = table.model()->headerData(column, Qt::Horizontal).toString();
      QVERIFY2(table.columnWidth(column) >= table.fontMetrics().horizontalAdvance(title) + 12,
               qPrintable(title));
    }
  }

  // It stayed with the yield of a database without times.
  void theVerticalAxisIsTimeAgainWhereThereAreTimes() {
    const QString path = folder_.filePath("accepted.db");
    {
      db::Store store = db::Store::open(path.toStdString(), db::OpenMode::kCreateOrOpen);
      const std::int64_t run = store.begin_run(test::sample_run("acceptance-alone"));
      store.add_point(run, test::made_up_acceptance(4096, "chat", 16));
      store.finish_run(run, RunStatus::kComplete);
    }
    Window window;
    window.show();
    window.showPage("points");
    QVERIFY(open(window, path));
    (void)window.grab();
    QCOMPARE(window.pointsPage().scatter().drawnCount(), 1);
    QVERIFY(open(window, sweep_));
    (void)window.grab();
    QCOMPARE(window.pointsPage().scatter().drawnCount(),
             test::kMadeUpAttention + test::kMadeUpSimulated);
  }

  void anEmptyPlotSaysWhy() {
    const QString path = folder_.filePath("empty.db");
    { db::Store::open(path.toStdString(), db::OpenMode::kCreateOrOpen); }
    Window window;
    window.show();
    window.showPage("points");
    Scatter& scatter = window.pointsPage().scatter();
    QVERIFY(open(window, path));
    QVERIFY(scatter.emptyText().contains("holds no points yet"));
    QVERIFY(open(window, sweep_));
    window.document().setFilter("N=3");
    QVERIFY(scatter.emptyText().contains("The filter leaves no point"));
    window.document().setFilter("workload=acceptance");
    QVERIFY(scatter.emptyText().contains("Median time"));
  }
};

VERSIEVE_GUI_TEST(PointsPageTest)
#include "points_page_test.moc"
