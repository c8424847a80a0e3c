// The desktop app without a display: a database goes in, tables, plot and planner must show it.
#include <QAbstractItemModelTester>
#include <QComboBox>
#include <QElapsedTimer>
#include <QLabel>
#include <QLineEdit>
#include <QSignalSpy>
#include <QSlider>
#include <QTableView>
#include <QTemporaryDir>
#include <QTest>
#include <QTextBrowser>
#include <QThreadPool>
#include <QToolButton>
#include <cmath>
#include <set>

#include "engine/fit/fit_report.h"
#include "engine/io/atomic_file.h"
#include "engine/plan/hardware_file.h"
#include "engine/plan/table_file.h"
#include "gui/models/numbers.h"
#include "gui/models/plain_words.h"
#include "gui/models/point_column.h"
#include "gui/models/point_filter.h"
#include "gui/pages/planner_page.h"
#include "gui/pages/points_page.h"
#include "gui/pages/validation_page.h"
#include "gui/views/axis.h"
#include "gui/views/theme.h"
#include "gui/window.h"
#include "model/error.h"
#include "tests/gui/made_up_sweep.h"
#include "tests/support/synthetic_points.h"
#include "tests/support/system_points.h"

using namespace versieve;
using namespace versieve::gui;

namespace {

constexpr int kWaitMs = 60'000;

// Fitted and planned from measurements that never happened.
void write_synthetic_campaign(const QString& path, bool with_systems) {
  db::Store store = db::Store::open(path.toStdString(), db::OpenMode::kCreateOrOpen);
  const std::int64_t run = store.begin_run(test::sample_run("synthetic-run"));
  const synthetic::Plan plan = {.form = with_systems ? NsaForm::kFused : NsaForm::kVanilla,
                                .step_launch = with_systems ? "graph" : "stream"};
  const HardwareSpec& hardware = hardware_by_key("h200-sxm");
  for (const std::vector<PointMeasurement>& points :
       {synthetic::attention_points(plan, hardware), synthetic::step_points(plan, hardware),
        synthetic::acceptance_points(0.8, 0.9, 0.95),
        with_systems ? synthetic::system_points(plan, hardware, false)
                     : std::vector<PointMeasurement>()}) {
    for (const PointMeasurement& point : points) {
      store.add_point(run, point);
    }
  }
  store.finish_run(run, "complete");
}

bool open(Window& window, const QString& path) {
  QSignalSpy loaded(&window.document(), &Document::loaded);
  window.document().open(path);
  return loaded.wait(kWaitMs);
}

QString cell(const QAbstractItemModel& model, int row, int column) {
  return model.index(row, column).data().toString();
}

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

}  // namespace

class AppTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir folder_;
  QString sweep_;
  QString campaign_;
  QString systems_;  // with points of the other systems

 private Q_SLOTS:
  void initTestCase() {
    theme::apply(*qApp);
    sweep_ = folder_.filePath("sweep.db");
    test::write_made_up_sweep(sweep_.toStdString());
    campaign_ = folder_.filePath("campaign.db");
    write_synthetic_campaign(campaign_, false);
    systems_ = folder_.filePath("systems.db");
    write_synthetic_campaign(systems_, true);
  }

  void cleanupTestCase() { QThreadPool::globalInstance()->waitForDone(); }

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

  void filtersTakeWordsAndComparisons() {
    const SnapshotPtr snapshot = read_snapshot(sweep_);
    const auto count = [&snapshot](const char* text) {
      return static_cast<int>(PointFilter::parse(text).apply(*snapshot).size());
    };
    QCOMPARE(count(""), test::kMadeUpPoints);
    QCOMPARE(count("ATTENTION status=ok"), test::kMadeUpAttention + test::kMadeUpSimulated);
    QCOMPARE(count("-attention"), test::kMadeUpAcceptance);
    QCOMPARE(count("source=simulated"), test::kMadeUpSimulated);
    QCOMPARE(count("L>=16K L<=32K workload=attention source=measured"), 10);
    QCOMPARE(count("N=128 regime!=chat L=64K"), 1);
    QCOMPARE(count("time>0"), test::kMadeUpAttention + test::kMadeUpSimulated);
    for (const char* bad : {"colour=red", "L>=many", "model>3"}) {
      QVERIFY_EXCEPTION_THROWN(PointFilter::parse(bad), Error);
    }
  }

  void aWindowWithoutDatabaseSaysWhatToDo() {
    Window window;
    window.show();
    const QLabel* title = window.findChild<QLabel*>("startTitle");
    QVERIFY(title->isVisible());
    QVERIFY(title->text().contains("Open a database"));
    QVERIFY(!window.pointsPage().isVisible());
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
    QCOMPARE(window.pointsPage().points().rowCount(), test::kMadeUpSimulated);  // as it was
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
      const QLabel* text = window.findChild<QLabel*>("startText");
      QVERIFY(text->isVisible());
      QVERIFY(text->text().contains(bad));
      (void)window.grab();
    }
    QVERIFY(open(window, sweep_));
    QCOMPARE(window.pointsPage().points().rowCount(), test::kMadeUpPoints);
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

  void thePlannerFillsItsGridAndPlansAgainWhenAKnobTurns() {
    Window window;
    window.show();
    QVERIFY(open(window, campaign_));
    window.showPage("planner");
    PlannerPage& page = window.plannerPage();
    QTRY_VERIFY_WITH_TIMEOUT(page.planner().plan() != nullptr, kWaitMs);
    const PlanPtr own = page.planner().plan();
    QCOMPARE(own->chosen.buckets.size(), std::size_t{4});
    QCOMPARE(own->chosen.classes.size(), std::size_t{7});
    QTest::mouseClick(&page.grid(), Qt::LeftButton, {}, page.grid().cellRect(2, 1).center());
    QCOMPARE(page.grid().bucket(), 2);
    QCOMPARE(page.grid().selectedClasses(), std::vector{PrecisionClass::kStrict});
    QCOMPARE(page.entries().rowCount(), 12);
    const double before =
        best_entry(own->chosen, 2, PrecisionClass::kStrict)->evaluation.throughput;

    page.bandwidth().setValue(10);  // 1 TB/s
    QTRY_VERIFY_WITH_TIMEOUT(page.planner().plan() != own && !page.planner().isBusy(), kWaitMs);
    const PlanPtr slower = page.planner().plan();
    QCOMPARE(slower->fit, own->fit);  // not fitted again
    QVERIFY(best_entry(slower->chosen, 2, PrecisionClass::kStrict)->evaluation.throughput < before);
    QVERIFY(slower->chosen.scaled);
    QVERIFY(window.grab().save(folder_.filePath("planner.png")));
  }

  void theValidationPageShowsTheReportOfThePlannersFit() {
    Window window;
    window.show();
    QVERIFY(open(window, campaign_));
    window.showPage("validation");
    ValidationPage& page = window.validationPage();
    QTRY_VERIFY_WITH_TIMEOUT(!page.plots().empty(), kWaitMs);
    const engine::FitReport& fit = *window.plannerPage().planner().plan()->fit;
    QCOMPARE(page.plots().size(), engine::fit_plots(fit).size());
    std::size_t timed = 0;
    for (const engine::ComparedPoint& point : fit.compared) {
      timed += point.measured_us ? 1 : 0;
    }
    QVERIFY(timed > 20);
    QCOMPARE(static_cast<std::size_t>(page.plots()[0]->drawnCount()), timed);
    const QString text = page.tables().toPlainText();
    QVERIFY(text.contains("The twenty worst latencies"));
    QVERIFY(text.contains("What was measured"));
    QVERIFY(text.contains(QString::number(fit.points_holdout)));
    // Another machine is planned for, the fit is the same: nothing is drawn anew.
    ReportPlot* const first = page.plots()[0];
    window.plannerPage().bandwidth().setValue(10);
    QTRY_VERIFY_WITH_TIMEOUT(!window.plannerPage().planner().isBusy(), kWaitMs);
    QCOMPARE(page.plots()[0], first);
    QVERIFY(window.grab().save(folder_.filePath("validation.png")));
  }

  void aMachineOfAFileIsPlannedFor() {
    HardwareSpec mine = hardware_by_key("h200-sxm");
    mine.key = "mine";
    mine.name = "a card of my own";
    const QString path = folder_.filePath("mine.json");
    engine::write_file_atomically(path.toStdString(), engine::hardware_json(mine));
    const QString broken = folder_.filePath("broken.json");
    engine::write_file_atomically(broken.toStdString(), "{}");
    Window window;
    window.show();
    QVERIFY(open(window, campaign_));
    window.showPage("planner");
    PlannerPage& page = window.plannerPage();
    QTRY_VERIFY_WITH_TIMEOUT(page.planner().plan() != nullptr, kWaitMs);
    const std::string before = page.planner().plan()->chosen.hardware;
    QVERIFY(!page.addMachine(broken).isEmpty());
    QVERIFY(!page.addMachine(folder_.filePath("absent.json")).isEmpty());
    QCOMPARE(page.planner().plan()->chosen.hardware, before);
    QCOMPARE(page.addMachine(path), QString());
    QTRY_VERIFY_WITH_TIMEOUT(
        !page.planner().isBusy() && page.planner().plan()->chosen.hardware == "mine", kWaitMs);
    QCOMPARE(page.planner().machine()->name, mine.name);
  }

  void everyClassHasRowsOrAReasonInEveryBucket() {
    Window window;
    window.show();
    for (const QString& path : {campaign_, systems_}) {
      QVERIFY(open(window, path));
      window.showPage("planner");
      PlannerPage& page = window.plannerPage();
      QTRY_VERIFY_WITH_TIMEOUT(!page.planner().isBusy() && page.planner().plan(), kWaitMs);
      const PlanTable& chosen = page.planner().plan()->chosen;
      for (std::int64_t bucket = 0; bucket < 4; ++bucket) {
        for (const PrecisionClass precision : chosen.classes) {
          const bool has_points = path == systems_ ? precision != PrecisionClass::kApproxSampling
                                                   : precision < PrecisionClass::kSparseRectified;
          QCOMPARE(best_entry(chosen, bucket, precision) != nullptr, has_points);
          QCOMPARE(unavailable_text(chosen, bucket, precision).isEmpty(), has_points);
        }
      }
    }
  }

  // Both baselines are candidates of every class; of several classes each stands there once.
  void aRankingOfSeveralClassesNamesEachBaselineOnce() {
    PlanTable table;
    table.classes = {PrecisionClass::kStrict, PrecisionClass::kSparse};
    for (const PrecisionClass precision : table.classes) {
      const bool strict = precision == PrecisionClass::kStrict;
      for (const auto& [text, throughput, baseline] :
           {std::tuple{"nsa/d8k8n128/bfs/c1/F*", 30.0, "fixed"},
            std::tuple{strict ? "nsa/d6k6n32/bfs/c1/F*" : "resa:b16p0.1f0/ar", strict ? 40.0 : 20.0,
                       ""},
            std::tuple{"nsa/ar", 10.0, "autoregressive"}}) {
        PlanEntry& entry = table.entries.emplace_back();
        entry.precision = precision;
        entry.baseline = baseline;
        entry.evaluation.strategy = Strategy::parse(text);
        entry.evaluation.throughput = throughput;
      }
    }
    QStringList texts;
    for (const PlanEntry* entry : entries_of(table, 0, table.classes)) {
      texts << QString::fromStdString(entry->evaluation.strategy.text());
    }
    QCOMPARE(texts, QStringList({"nsa/d6k6n32/bfs/c1/F*", "nsa/d8k8n128/bfs/c1/F*",
                                 "resa:b16p0.1f0/ar", "nsa/ar"}));
    QCOMPARE(best_entry(table, 0, PrecisionClass::kSparse)->baseline, std::string("fixed"));
    QCOMPARE(best_of_its_own(table, 0, PrecisionClass::kSparse)->evaluation.throughput, 20.0);
    QVERIFY(best_entry(table, 0, PrecisionClass::kReuseOnly) == nullptr);
  }

  void theRankingOfAllShownClassesIsOneList() {
    Window window;
    window.show();
    QVERIFY(open(window, systems_));
    window.showPage("planner");
    PlannerPage& page = window.plannerPage();
    QTRY_VERIFY_WITH_TIMEOUT(page.planner().plan() != nullptr, kWaitMs);
    page.grid().select(1, 0);
    const std::vector<const PlanEntry*> all =
        entries_of(page.planner().plan()->chosen, 1, page.planner().shownClasses());
    QCOMPARE(page.entries().rowCount(), static_cast<int>(all.size()));
    std::set<PrecisionClass> classes;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const int row = static_cast<int>(i);
      const bool is_baseline = !all[i]->baseline.empty();
      classes.insert(all[i]->precision);
      QCOMPARE(cell(page.entries(), row, 0), QString::number(i + 1));
      QCOMPARE(cell(page.entries(), row, 2).endsWith("baseline"), is_baseline);
      QVERIFY(i == 0 || all[i]->evaluation.throughput <= all[i - 1]->evaluation.throughput);
    }
    QVERIFY(classes.size() >= 5);
    QVERIFY(window.grab().save(folder_.filePath("all_classes.png")));

    // A class that is not shown has no row, no entries and no lines in what is exported.
    page.classButton(PrecisionClass::kSparse).click();
    QVERIFY(!page.planner().isShown(PrecisionClass::kSparse));
    for (int row = 0; row < page.entries().rowCount(); ++row) {
      QVERIFY(page.entries().entryAt(row)->precision != PrecisionClass::kSparse);
    }
    for (int i = 0; i < kPrecisionClassCount; ++i) {
      page.planner().setShown(static_cast<PrecisionClass>(i), false);
    }
    QCOMPARE(page.entries().rowCount(), 0);
    (void)window.grab();
  }

  void theShownClassesAreExported() {
    Window window;
    window.show();
    QVERIFY(!window.plannerPage().planner().exportTo(folder_.filePath("early.json")).isEmpty());
    QVERIFY(open(window, systems_));
    window.showPage("planner");
    Planner& planner = window.plannerPage().planner();
    QTRY_VERIFY_WITH_TIMEOUT(planner.plan() != nullptr, kWaitMs);
    for (int i = 0; i < kPrecisionClassCount; ++i) {
      planner.setShown(static_cast<PrecisionClass>(i),
                       static_cast<PrecisionClass>(i) == PrecisionClass::kSparseRectified);
    }
    const QString path = folder_.filePath("resa.json");
    QCOMPARE(planner.exportTo(path), QString());
    const PlanTable table = engine::read_plan_table(path.toStdString());
    QCOMPARE(table.classes, std::vector{PrecisionClass::kSparseRectified});
    QVERIFY(!table.entries.empty());
    bool has_resa = false;
    for (const PlanEntry& entry : table.entries) {
      QVERIFY(entry.precision == PrecisionClass::kSparseRectified);
      has_resa = has_resa || entry.evaluation.strategy.attention == AttentionMethod::kResa;
    }
    QVERIFY(has_resa);
    QCOMPARE(planner.exportTo(folder_.filePath("plan.csv")), QString());
    QCOMPARE(planner.exportTo(folder_.filePath("plan.h")), QString());
    QVERIFY(planner.exportTo(folder_.filePath("plan.xls")).contains(".csv"));
    QVERIFY(!QFile::exists(folder_.filePath("plan.xls")));
    QVERIFY(planner.exportTo("/nowhere/plan.csv").contains("/nowhere/plan.csv"));
  }

  void aDraggedKnobShowsPlansAsItGoesAndEndsWhereItWasLeft() {
    Window window;
    window.show();
    QVERIFY(open(window, systems_));
    window.showPage("planner");
    PlannerPage& page = window.plannerPage();
    QTRY_VERIFY_WITH_TIMEOUT(page.planner().plan() && !page.planner().isBusy(), kWaitMs);
    std::set<std::string> machines;
    connect(&page.planner(), &Planner::changed, &page,
            [&] { machines.insert(page.planner().plan()->chosen.hardware); });
    QElapsedTimer clock;
    clock.start();
    for (int step = 50; step <= 80; ++step) {  // 5 to 8 TB/s, a turn each 16 ms
      page.bandwidth().setValue(step);
      QTest::qWait(16);
    }
    QTRY_VERIFY_WITH_TIMEOUT(!page.planner().isBusy(), kWaitMs);
    qInfo("%d plans in %d ms of a drag over 31 values", static_cast<int>(machines.size()),
          static_cast<int>(clock.elapsed()));
    QVERIFY(machines.size() > 3);
    QCOMPARE(page.planner().plan()->chosen.hardware, std::string("h200-sxm at 8.0 TB/s"));
    QVERIFY(page.planner().plan()->chosen.scaled);
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
    QVERIFY(text_in_words("topk:gvr/k256/hint0.75").contains("guess, verify, refine"));
    QVERIFY(text_in_words("sampling:exact/k4/r1").contains("tree of 4 children"));
    QVERIFY(text_in_words("from/another/version").isEmpty());
  }

  void theValidationPageHasARowASystem() {
    Window window;
    window.show();
    QVERIFY(open(window, systems_));
    window.showPage("validation");
    ValidationPage& page = window.validationPage();
    QTRY_VERIFY_WITH_TIMEOUT(!page.plots().empty(), kWaitMs);
    const engine::FitReport& fit = *window.plannerPage().planner().plan()->fit;
    QVERIFY(fit.systems.size() >= 5);
    QCOMPARE(page.systems().rowCount(), static_cast<int>(fit.systems.size()) + 1);
    QVERIFY(window.grab().save(folder_.filePath("systems.png")));
  }
};

QTEST_MAIN(AppTest)
#include "app_test.moc"
