// The desktop app without a display: a database goes in, tables and plot must show it.
#include <QAbstractItemModelTester>
#include <QAction>
#include <QComboBox>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QSignalSpy>
#include <QTableView>
#include <QTemporaryDir>
#include <QTest>
#include <QTextBrowser>
#include <QThreadPool>
#include <cmath>
#include <set>

#include "gui/models/numbers.h"
#include "gui/models/plain_words.h"
#include "gui/models/point_column.h"
#include "gui/models/point_filter.h"
#include "gui/models/point_text.h"
#include "gui/models/snapshot.h"
#include "gui/pages/planner_page.h"
#include "gui/pages/points_page.h"
#include "gui/views/axis.h"
#include "gui/views/theme.h"
#include "gui/window.h"
#include "model/words/error.h"
#include "tests/gui/test_main.h"
#include "tests/gui/window_case.h"

using namespace versieve;
using namespace versieve::gui;

namespace {

// Pixels within `reach` of a place that are not the plot's background or grid.
int marked_pixels(const QImage& picture, const QPointF& place, int reach) {
  int count = 0;
  for (int y = -reach; y <= reach; ++y) {
    for (int x = -reach; x <= reach; ++x) {
      const QColor color = picture.pixelColor(place.toPoint() + QPoint(x, y));
      count += color.saturation() > 60 ? 1 : 0;
    }
  }
  return count;
}

// Measured points of a database.
std::int64_t ok_points_in(const QString& path) {
  std::int64_t points = 0;
  const SnapshotPtr snapshot = read_snapshot(path);
  for (const db::StoredRun& run : snapshot->runs) {
    points += run.ok_count;
  }
  return points;
}

}  // namespace

class AppTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir folder_;
  QString sweep_;
  QString systems_;  // with points of the other systems

 private Q_SLOTS:
  void initTestCase() {
    theme::apply(*qApp);
    sweep_ = folder_.filePath("sweep.db");
    test::write_made_up_sweep(sweep_.toStdString());
    systems_ = folder_.filePath("systems.db");
    write_synthetic_campaign(systems_, true);
  }

  void cleanupTestCase() { job_pool().waitForDone(); }

  void numbersCarryUnitsAndAbsenceIsADash() {
    QCOMPARE(bytes(1.05e6), QString("1.05 MB"));
    QCOMPARE(nanoseconds(12'340), QString("12.34 µs"));
    QCOMPARE(tokens(65536), QString("64K"));
    QCOMPARE(tokens(1000), QString("1000"));
    QCOMPARE(fixed(std::nan(""), 2), QString(QChar(kAbsent)));
    QCOMPARE(fixed(-1234567.26, 1).remove(QChar(0x202F)), QString("-1234567.3"));
  }

  void axesPlaceValuesAndTicks() {
    Axis axis = Axis::around({1024, 65536, std::nan(""), -5}, true, true);
    QVERIFY(!axis.holds(0.0));
    QVERIFY(axis.place(1024) > 0.0 && axis.place(1024) < 0.1);
    QVERIFY(std::fabs(axis.place(8192) - 0.5) < 1e-9);
    QVERIFY(std::fabs(axis.value_at(axis.place(3000.0)) - 3000.0) < 1e-6);
    QCOMPARE(axis.ticks(10).size(), std::size_t{7});
    QCOMPARE(axis.ticks(10).front().text, QString("1K"));
    axis.zoom(0.5, axis.place(8192));
    QVERIFY(std::fabs(axis.place(8192) - 0.5) < 1e-9);
    QCOMPARE(axis.ticks(10).size(), std::size_t{3});
    const std::vector<Tick> linear = Axis::around({0.0, 1.0}, false, false).ticks(6);
    QCOMPARE(linear[0].text, QString("0.0"));
    QCOMPARE(linear[1].text, QString("0.2"));
    QCOMPARE(Axis::around({7.0}, false, false).place(7.0), 0.5);  // a range even of one value
  }

  void theKeyOfTheBaselineLeavesTheFocusWhereItIs() {
    Window window;
    window.show();
    QVERIFY(open(window, sweep_));
    window.showPage("points");
    window.activateWindow();
    Scatter& scatter = window.pointsPage().scatter();
    scatter.setFocus();
    window.document().select(3);
    QTest::keyClick(&scatter, Qt::Key_B);
    QCOMPARE(window.document().baseline(), 3);
    QVERIFY(scatter.hasFocus());
    QTest::keyClick(&scatter, Qt::Key_B);
    QCOMPARE(window.document().baseline(), -1);
  }

  void importedPointsAreNotTakenForMeasuredOnes() {
    const QString path = folder_.filePath("imported.db");
    test::write_imported(path.toStdString());
    Window window;
    window.show();
    QVERIFY(open(window, path));
    const SnapshotPtr snapshot = read_snapshot(path);
    const auto count = [&snapshot](const char* text) {
      return static_cast<int>(PointFilter::parse(text).apply(*snapshot).size());
    };
    QCOMPARE(count("source=imported"), 2);
    QCOMPARE(count("source=measured"), 0);
    window.showPage("runs");
    const QTableView* runs = window.findChild<QTableView*>("runs");
    QVERIFY(runs->isVisible());
    QCOMPARE(runs->model()->rowCount(), 1);
    QCOMPARE(window.pointsPage().points().rowCount(), 2);
  }

  void aWindowWithoutDatabaseSaysWhatToDo() {
    Window window;
    window.show();
    const QLabel* title = window.findChild<QLabel*>("startTitle");
    QVERIFY(title->isVisible());
    QVERIFY(title->text().contains("Open a database"));
    QVERIFY(!window.pointsPage().isVisible());
  }

  void theShippedDatabaseWithMostPointsIsOffered() {
    QTemporaryDir folder;
    QVERIFY(largest_database_in(QDir(folder.path())).isEmpty());
    QFile(folder.filePath("a-no-database.db")).open(QIODevice::WriteOnly);
    QVERIFY(largest_database_in(QDir(folder.path())).isEmpty());
    QFile::copy(sweep_, folder.filePath("z.db"));
    QFile::copy(systems_, folder.filePath("b.db"));
    const QString larger = ok_points_in(sweep_) > ok_points_in(systems_) ? "z.db" : "b.db";
    QCOMPARE(QFileInfo(largest_database_in(QDir(folder.path()))).fileName(), larger);
    QCOMPARE(QFileInfo(shipped_database()).fileName(), QString("h100.db"));
  }

  void aDatabaseShowsItsRunsAndPoints() {
    Window window;
    window.show();
    QVERIFY(open(window, sweep_));
    window.showPage("runs");
    const QTableView* runs = window.findChild<QTableView*>("runs");
    QVERIFY(runs->isVisible());
    QCOMPARE(runs->model()->rowCount(), 2);
    QCOMPARE(cell(*runs->model(), 1, 4), QString("complete"));
    QCOMPARE(cell(*runs->model(), 1, 6), QString("40"));
    QCOMPARE(cell(*runs->model(), 1, 7), QString("1"));
    QCOMPARE(window.pointsPage().points().rowCount(), test::kMadeUpPoints);
    QVERIFY(window.windowTitle().contains("sweep.db"));
  }

  void theTableSortsAndKeepsAbsentValuesLast() {
    Window window;
    QVERIFY(open(window, sweep_));
    PointTable& points = window.pointsPage().points();
    QAbstractItemModelTester tester(&points, QAbstractItemModelTester::FailureReportingMode::Fatal);
    const int time = column_index("time");
    const int present = test::kMadeUpAttention + test::kMadeUpSimulated;
    for (const Qt::SortOrder order : {Qt::AscendingOrder, Qt::DescendingOrder}) {
      points.sort(time, order);
      for (int row = 1; row < present; ++row) {
        const double above = cell(points, row - 1, time).toDouble();
        const double below = cell(points, row, time).toDouble();
        QVERIFY(order == Qt::AscendingOrder ? above <= below : above >= below);
      }
      for (int row = present; row < test::kMadeUpPoints; ++row) {
        QCOMPARE(cell(points, row, time), QString(QChar(kAbsent)));
      }
    }
    points.sort(time, Qt::DescendingOrder);
    points.sort(column_index("L"), Qt::AscendingOrder);  // stable: time still orders equal L
    QVERIFY(cell(points, 0, time).toDouble() > cell(points, 4, time).toDouble());
    QCOMPARE(cell(points, 4, column_index("L")), QString("1K"));
    for (int row = 0; row < points.rowCount(); ++row) {
      QCOMPARE(points.rowOf(points.pointAt(row)), row);
    }
  }

  void theFilterLineNarrowsTableAndPlotAndExplainsItself() {
    Window window;
    window.show();
    QVERIFY(open(window, sweep_));
    window.showPage("points");
    QLineEdit* filter = window.findChild<QLineEdit*>("filter");
    QTest::keyClicks(filter, "source=simulated");
    QCOMPARE(window.pointsPage().points().rowCount(), test::kMadeUpSimulated);
    (void)window.grab();
    QCOMPARE(window.pointsPage().scatter().drawnCount(), test::kMadeUpSimulated);
    filter->setText("nonsense=1");
    QCOMPARE(window.pointsPage().points().rowCount(), test::kMadeUpPoints);  // not filtered
    QVERIFY(window.document().filterError().contains("no column is called"));
    filter->clear();
    QCOMPARE(window.pointsPage().points().rowCount(), test::kMadeUpPoints);
  }

  void thePlotDrawsEveryPointWhereItBelongs() {
    Window window;
    window.show();
    QVERIFY(open(window, sweep_));
    window.showPage("points");
    Scatter& scatter = window.pointsPage().scatter();
    window.document().select(-1);
    const QImage picture = scatter.grab().toImage();
    QCOMPARE(scatter.drawnCount(), test::kMadeUpAttention + test::kMadeUpSimulated);
    int drawn = 0;
    for (const std::int32_t point : window.document().shown()) {
      const QPointF place = scatter.placeOf(point);
      if (!place.isNull()) {
        QVERIFY(scatter.plotArea().adjusted(-1, -1, 1, 1).contains(place.toPoint()));
        QVERIFY2(marked_pixels(picture, place, 4) >= 10, "a point left no mark");
        ++drawn;
      }
    }
    QCOMPARE(drawn, test::kMadeUpAttention + test::kMadeUpSimulated);
    const QRect area = scatter.plotArea();
    QCOMPARE(marked_pixels(picture, area.topLeft() + QPoint(12, area.height() / 2), 8), 0);
    QVERIFY(window.grab().save(folder_.filePath("points.png")));
  }

  void aClickInThePlotSelectsTheRowAndARowMarksThePoint() {
    Window window;
    window.show();
    QVERIFY(open(window, sweep_));
    window.showPage("points");
    PointsPage& page = window.pointsPage();
    page.points().sort(column_index("N"), Qt::DescendingOrder);
    const int target = 17;
    QSignalSpy read(&window.document(), &Document::pointRead);
    QTest::mouseClick(&page.scatter(), Qt::LeftButton, {},
                      page.scatter().placeOf(target).toPoint());
    QCOMPARE(window.document().selected(), target);
    QCOMPARE(page.points().pointAt(page.table().currentIndex().row()), target);
    QVERIFY(read.wait(kWaitMs));
    while (read.size() > 1) {
      read.removeFirst();
    }
    const auto point = read.first().first().value<std::shared_ptr<const PointMeasurement>>();
    QVERIFY(point != nullptr);
    QCOMPARE(point->key.num_queries,
             window.document().snapshot()->overview.points[target].num_queries);

    page.table().selectRow(3);
    const int other = page.points().pointAt(3);
    QCOMPARE(window.document().selected(), other);
    const QImage picture = page.scatter().grab().toImage();
    const QPointF ring = page.scatter().placeOf(other) + QPointF(8.5, 0);
    QVERIFY(picture.pixelColor(ring.toPoint()).lightness() < 120);  // the dark ring
    QTest::mouseClick(&page.scatter(), Qt::LeftButton, {},
                      page.scatter().plotArea().topLeft() + QPoint(3, 3));
    QCOMPARE(window.document().selected(), -1);
    QVERIFY(!page.table().currentIndex().isValid());
  }

  void keysWalkThroughThePlotAndZoomIt() {
    Window window;
    window.show();
    QVERIFY(open(window, sweep_));
    window.showPage("points");
    Scatter& scatter = window.pointsPage().scatter();
    window.document().select(-1);
    std::set<int> met;
    double left = 0.0;
    for (int step = 0; step < 40; ++step) {
      QTest::keyClick(&scatter, Qt::Key_Right);
      const int point = window.document().selected();
      QVERIFY(scatter.placeOf(point).x() >= left);
      left = scatter.placeOf(point).x();
      met.insert(point);
    }
    QCOMPARE(static_cast<int>(met.size()), test::kMadeUpAttention + test::kMadeUpSimulated);
    QTest::keyClick(&scatter, Qt::Key_Right);  // the last one stays
    QVERIFY(met.contains(window.document().selected()));
    QTest::keyClick(&scatter, Qt::Key_Left);
    QVERIFY(scatter.placeOf(window.document().selected()).x() <= left);
    const QPointF before = scatter.placeOf(17);
    QTest::keyClick(&scatter, Qt::Key_Plus);
    QVERIFY(scatter.placeOf(17) != before);
    QTest::keyClick(&scatter, Qt::Key_Home);
    QCOMPARE(scatter.placeOf(17), before);
  }

  void otherAxesRedrawThePlot() {
    Window window;
    window.show();
    QVERIFY(open(window, sweep_));
    window.showPage("points");
    Scatter& scatter = window.pointsPage().scatter();
    scatter.setY(column_index("accepted"));
    (void)scatter.grab();
    QCOMPARE(scatter.drawnCount(), test::kMadeUpAcceptance);
    scatter.setX(column_index("dram"));
    (void)scatter.grab();
    QCOMPARE(scatter.drawnCount(), 0);  // no point has both; the plot says so
  }

  void aBadFileIsASentenceInTheWindow() {
    const QString path = folder_.filePath("notes.db");
    QFile file(path);
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write(QByteArray(4000, 'n'));
    file.close();
    Window window;
    window.show();
    QVERIFY(open(window, sweep_));
    for (const QString& bad : {path, folder_.filePath("missing.db"), folder_.path()}) {
      QSignalSpy failed(&window.document(), &Document::failed);
      window.document().open(bad);
      QVERIFY(failed.wait(kWaitMs));
      const QLabel* text = window.findChild<QLabel*>("bannerText");
      QVERIFY(text->isVisible());
      QVERIFY(text->text().contains(bad));
      QVERIFY(window.windowTitle().contains("sweep.db"));  // what is open stays open
      QCOMPARE(window.pointsPage().points().rowCount(), test::kMadeUpPoints);
      (void)window.grab();
    }
    window.findChild<QPushButton*>("bannerAway")->click();
    QVERIFY(!window.findChild<QLabel*>("bannerText")->isVisible());
    QVERIFY(open(window, sweep_));
    QCOMPARE(window.pointsPage().points().rowCount(), test::kMadeUpPoints);

    Window none;
    none.show();
    QSignalSpy failed(&none.document(), &Document::failed);
    none.document().open(path);
    QVERIFY(failed.wait(kWaitMs));
    const QLabel* start = none.findChild<QLabel*>("startText");
    QVERIFY(start->isVisible() && start->text().contains(path));
  }

  // F5 on a file that was deleted, broken or written by a newer program threw everything away.
  void aFileThatVanishesOrBreaksLeavesWhatWasRead() {
    const QString path = folder_.filePath("fading.db");
    QVERIFY(QFile::copy(sweep_, path));
    Window window;
    window.document().setWatchInterval(20);
    window.show();
    QVERIFY(open(window, path));
    window.document().setFilter("N=128");
    window.document().select(5);
    const int shown = window.pointsPage().points().rowCount();
    const QLabel* text = window.findChild<QLabel*>("bannerText");
    QVERIFY(QFile::remove(path));
    QTRY_VERIFY_WITH_TIMEOUT(text->isVisible() && text->text().contains("no longer there"),
                             kWaitMs);
    for (const int bytes : {0, 4000}) {
      QFile file(path);
      QVERIFY(file.open(QIODevice::WriteOnly) && file.write(QByteArray(bytes, 'n')) == bytes);
      file.close();
      QSignalSpy failed(&window.document(), &Document::failed);
      window.document().open(path);
      QVERIFY(failed.wait(kWaitMs));
      QVERIFY(text->text().contains("What is shown was read before"));
      QCOMPARE(window.pointsPage().points().rowCount(), shown);
      QCOMPARE(window.document().selected(), 5);
    }
  }

  void aFileThatGrowsIsHintedAtAndReadByItselfIfAsked() {
    const QString path = folder_.filePath("growing.db");
    QVERIFY(QFile::copy(sweep_, path));
    const auto grow = [&path](const char* uuid) {
      db::Store store = db::Store::open(path.toStdString(), db::OpenMode::kCreateOrOpen);
      const std::int64_t run = store.begin_run(test::sample_run(uuid));
      store.add_point(run, test::made_up_attention(2048, 32, Backend::kCuda));
      store.finish_run(run, RunStatus::kComplete);
    };
    Window window;
    window.document().setWatchInterval(20);
    window.show();
    QVERIFY(open(window, path));
    window.document().select(7);
    window.document().setBaseline(4);
    const QLabel* text = window.findChild<QLabel*>("bannerText");
    grow("grown-1");
    QTRY_VERIFY_WITH_TIMEOUT(text->isVisible() && text->text().contains("has changed"), kWaitMs);
    QCOMPARE(window.pointsPage().points().rowCount(), test::kMadeUpPoints);
    window.findChild<QPushButton*>("bannerAction")->click();
    QTRY_COMPARE_WITH_TIMEOUT(window.pointsPage().points().rowCount(), test::kMadeUpPoints + 1,
                              kWaitMs);
    QVERIFY(!text->isVisible());
    QCOMPARE(window.document().selected(), 7);
    QCOMPARE(window.document().baseline(), 4);
    window.findChild<QAction*>("file.follow")->setChecked(true);
    QTest::qWait(100);
    grow("grown-2");
    QTRY_COMPARE_WITH_TIMEOUT(window.pointsPage().points().rowCount(), test::kMadeUpPoints + 2,
                              kWaitMs);
    QCOMPARE(window.document().selected(), 7);
  }

  // "DRAM measured" stood beside what the simulator had counted.
  void whatWasSimulatedIsNotCalledMeasured() {
    PointMeasurement point = test::made_up_attention(4096, 16, Backend::kSimulator);
    db::PointOverview overview;
    overview.dram_bytes = 1e6;
    QVERIFY(point_html(point, overview).contains("DRAM simulated"));
    QVERIFY(!point_html(point, overview).contains("DRAM measured"));
    point.key.backend = Backend::kCuda;
    QVERIFY(point_html(point, overview).contains("DRAM measured"));
  }

  void anEmptyDatabaseIsShownAsEmpty() {
    const QString path = folder_.filePath("empty.db");
    { db::Store::open(path.toStdString(), db::OpenMode::kCreateOrOpen); }
    Window window;
    window.show();
    QVERIFY(open(window, path));
    for (const QString& page : Window::pageNames()) {
      QVERIFY(window.showPage(page));
      (void)window.grab();
    }
    QTRY_VERIFY_WITH_TIMEOUT(!window.plannerPage().planner().sentence().isEmpty(), kWaitMs);
    QVERIFY(window.findChild<QLabel*>("plannerMessage")->text().contains("no timed point"));
  }

  void pointsAreChosenBySystemAndSaidInWords() {
    Window window;
    window.show();
    QVERIFY(open(window, systems_));
    window.showPage("points");
    PointsPage& page = window.pointsPage();
    QComboBox& system = page.system();
    int all = 0;
    for (int i = 1; i < system.count(); ++i) {
      system.setCurrentIndex(i);
      Q_EMIT system.activated(i);
      for (int row = 0; row < page.points().rowCount(); ++row) {
        QCOMPARE(cell(page.points(), row, column_index("system")), system.itemData(i).toString());
      }
      all += page.points().rowCount();
    }
    window.document().setFilter("dram>0 system=resa");
    QCOMPARE(system.currentData().toString(), QString("ReSA"));
    QVERIFY(page.points().rowCount() > 0);
    system.setCurrentIndex(0);
    Q_EMIT system.activated(0);
    QCOMPARE(window.document().filterText(), QString("dram>0"));
    window.document().setFilter({});
    QCOMPARE(page.points().rowCount(), all);
    QVERIFY(text_in_words("resa:b16p0.1f32/ar").contains("10 % of blocks of 16 tokens"));
    QVERIFY(!text_in_words("resa:b16p0.1f32/ar").contains("at least"));
    QVERIFY(text_in_words("resa:b16p0.1f32n_min4n_local2/ar")
                .contains("blocks of 16 tokens, at least 4, the 2 newest always"));
    QVERIFY(text_in_words("dense/d15k1n16/bfs/c1/F*/draft=resa:b16p0.1")
                .contains("drafted by the target's own steps over the best 10 % of blocks"));
    QVERIFY(text_in_words("topk:gvr/k256/hint0.75").contains("guess, verify, refine"));
    QVERIFY(text_in_words("sampling:exact/k4/r1").contains("tree of 4 children"));
    QVERIFY(text_in_words("sampling:exact/chain/r1/b16/topk50/topp0.95")
                .contains("16 sequences, top-k 50, top-p 0.95"));
    QVERIFY(text_in_words("from/another/version").isEmpty());
  }
};

VERSIEVE_GUI_TEST(AppTest)
#include "app_test.moc"
