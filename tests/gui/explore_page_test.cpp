// Explore a million: one filter in all views of the points, what is pointed at, selected or pinned
// in one of them is so in all, and all of it can be taken back.
#include <QAbstractItemModelTester>
#include <QCheckBox>
#include <QComboBox>
#include <QDir>
#include <QLabel>
#include <QLineEdit>
#include <QMenu>
#include <QTableView>
#include <QTemporaryDir>
#include <QTest>
#include <QThreadPool>
#include <QToolButton>
#include <cmath>
#include <numeric>

#include "gui/models/filter_terms.h"
#include "gui/models/pareto.h"
#include "gui/models/point_column.h"
#include "gui/models/point_filter.h"
#include "gui/pages/explore/explore_page.h"
#include "gui/pages/points_page.h"
#include "gui/views/point_density.h"
#include "gui/views/theme.h"
#include "tests/gui/golden.h"
#include "tests/gui/many_points.h"
#include "tests/gui/test_main.h"
#include "tests/gui/ui_watch.h"
#include "tests/gui/window_case.h"

using namespace versieve;
using namespace versieve::gui;

namespace {

void drag(QWidget& widget, const QPointF& from, const QPointF& to) {
  QTest::mousePress(&widget, Qt::LeftButton, {}, from.toPoint());
  for (const double share : {0.3, 0.7, 1.0}) {
    const QPointF at = from + share * (to - from);
    QMouseEvent move(QEvent::MouseMove, at, widget.mapToGlobal(at), Qt::LeftButton, Qt::LeftButton,
                     Qt::NoModifier);
    QCoreApplication::sendEvent(&widget, &move);
  }
  QTest::mouseRelease(&widget, Qt::LeftButton, {}, to.toPoint());
  QTest::qWait(1);  // what was done becomes a step back
}

}  // namespace

class ExplorePageTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir folder_;
  std::unique_ptr<Window> window_;

  ExplorePage& page() { return window_->explorePage(); }
  Document& document() { return window_->document(); }
  int axis_of(const char* key) {
    const std::vector<int>& columns = page().parallel().columns();
    const auto found = std::find(columns.begin(), columns.end(), column_index(key));
    return found == columns.end() ? -1 : static_cast<int>(found - columns.begin());
  }
  QPointF on_axis(int axis, double place) {
    const QRectF rect = page().parallel().axisRect(axis);
    return {rect.center().x(), rect.bottom() - place * rect.height()};
  }
  int facet_of(const char* key) {
    for (int index = 0; index < page().facets().columnCount(); ++index) {
      if (page().facets().column(index).axis.column() == column_index(key)) {
        return index;
      }
    }
    return -1;
  }
  void press(Qt::Key key, Qt::KeyboardModifiers with = {}) {
    QTest::keyClick(window_->focusWidget() != nullptr ? window_->focusWidget() : window_.get(), key,
                    with);
    QTest::qWait(1);
  }

  void compare_with_golden(const QString& name) {
    const QString difference = golden_difference(name, window_->grab().toImage());
    QVERIFY2(difference.isEmpty(), qPrintable(difference));
  }

 private Q_SLOTS:
  void initTestCase() {
    theme::apply(*qApp);
    QVERIFY(QDir::setCurrent(VERSIEVE_SOURCE_DIR));  // the window names the file as it was given
  }

  void init() {
    window_ = std::make_unique<Window>();
    window_->resize(1280, 800);
    window_->show();
    QVERIFY(open(*window_, "db/measured/h100.db"));
    window_->showPage("explore");
    window_->activateWindow();
    QVERIFY(QTest::qWaitForWindowActive(window_.get()));
    QTRY_VERIFY_WITH_TIMEOUT(page().parallel().isReady() && page().facets().isReady(), kWaitMs);
    (void)window_->grab();
  }

  void cleanup() {
    window_.reset();
    theme::apply(*qApp);
    job_pool().waitForDone();
  }

  // The whole flow, by mouse and keyboard.
  void aMillionIsExplored() {
    UiWatch watch;
    const std::size_t all = document().mask().size();
    // A part of the axis of times, by the mouse.
    const int time = axis_of("time");
    QVERIFY(time >= 0);
    drag(page().parallel(), on_axis(time, 0.2), on_axis(time, 0.55));
    QVERIFY2(document().filterText().startsWith("time>="), qPrintable(document().filterText()));
    const std::size_t brushed = document().shown().size();
    QVERIFY(brushed > 0 && brushed < all);
    QVERIFY(page().findChild<QLabel*>("exploreShownCount")->text().contains(" of "));
    QCOMPARE(window_->pointsPage().points().rowCount(), static_cast<int>(brushed));
    // All views count the same points.
    const int system = facet_of("system");
    int counted = 0;
    for (std::size_t bar = 0; bar < page().facets().column(system).all.size(); ++bar) {
      counted += page().facets().shownCount(system, static_cast<int>(bar));
    }
    QCOMPARE(counted, static_cast<int>(brushed));
    // One system of the list beside, by a click.
    const int nsa = page().facets().column(system).axis.names().indexOf("NSA");
    QTest::mouseClick(&page().facets(), Qt::LeftButton, {},
                      page().facets().barRect(system, nsa).center().toPoint());
    QTest::qWait(1);
    QVERIFY(document().filterText().endsWith("system=NSA"));
    QCOMPARE(page().filter().system().currentData().toString(), QString("NSA"));
    QCOMPARE(page().filter().chips().size(), 3);
    const std::size_t of_nsa = document().shown().size();
    QVERIFY(of_nsa > 0 && of_nsa < brushed);
    // A line is selected, and pinned by its key.
    const int point = document().shown()[of_nsa / 2];
    document().select(-1);
    QTest::mouseClick(&page().plot().scatter(), Qt::LeftButton, {},
                      page().plot().scatter().placeOf(point).toPoint());
    QTest::qWait(1);
    QVERIFY(document().selected() >= 0);
    QTest::keyClick(&page(), Qt::Key_P);
    QTRY_COMPARE_WITH_TIMEOUT(document().pins(), std::vector<int>{document().selected()}, kWaitMs);
    QCOMPARE(page().filter().chips().size(), 4);
    QVERIFY(page().filter().chips().last()->text().startsWith("pin 1: "));
    QTest::qWait(5);
    const double held = watch.longestMs();
    qInfo("the UI thread's longest stretch: %.1f ms", held);
    QVERIFY2(held <= UiWatch::kMostMs, qPrintable(QString::number(held)));
    keep_picture(*window_, "explore");
    // Back, step by step, and forth.
    QTest::keyClick(&page(), Qt::Key_Z, Qt::ControlModifier);
    QTRY_VERIFY_WITH_TIMEOUT(document().pins().empty(), kWaitMs);
    QTest::keyClick(&page(), Qt::Key_Z, Qt::ControlModifier);
    QTRY_COMPARE_WITH_TIMEOUT(document().selected(), -1, kWaitMs);
    QTest::keyClick(&page(), Qt::Key_Z, Qt::ControlModifier);
    QTRY_COMPARE_WITH_TIMEOUT(document().shown().size(), brushed, kWaitMs);
    QTest::keyClick(&page(), Qt::Key_Z, Qt::ControlModifier);
    QTRY_COMPARE_WITH_TIMEOUT(document().shown().size(), all, kWaitMs);
    QVERIFY(!window_->history().stack().canUndo());
    for (int i = 0; i < 4; ++i) {
      QTest::keyClick(&page(), Qt::Key_Z, Qt::ControlModifier | Qt::ShiftModifier);
      QTest::qWait(1);
    }
    QTRY_COMPARE_WITH_TIMEOUT(document().shown().size(), of_nsa, kWaitMs);
    QCOMPARE(document().pins().size(), 1U);
    // A chip takes its part away.
    QTest::mouseClick(page().filter().chips()[2], Qt::LeftButton);
    QCOMPARE(document().shown().size(), brushed);
  }

  void theKeysAloneBrushSelectAndMoveAxes() {
    ParallelPlot& plot = page().parallel();
    plot.setFocus();
    const int time = axis_of("time");
    for (int i = 0; i < time; ++i) {
      press(Qt::Key_Right);
    }
    QCOMPARE(plot.axisWithKeys(), time);
    QVERIFY(plot.accessibleDescription().contains("Median time"));
    press(Qt::Key_Down, Qt::ShiftModifier);
    press(Qt::Key_Down, Qt::ShiftModifier);
    QVERIFY2(document().filterText().startsWith("time<="), qPrintable(document().filterText()));
    press(Qt::Key_Up, Qt::ControlModifier);
    press(Qt::Key_Up, Qt::ControlModifier);
    QVERIFY(document().filterText().contains("time>="));
    press(Qt::Key_Delete);
    QVERIFY(document().filterText().isEmpty());
    const std::vector<int> before = plot.columns();
    press(Qt::Key_Left, Qt::ControlModifier);
    QCOMPARE(plot.columns()[static_cast<std::size_t>(time) - 1], column_index("time"));
    press(Qt::Key_Z, Qt::ControlModifier);
    QTRY_COMPARE_WITH_TIMEOUT(plot.columns(), before, kWaitMs);
    page().facets().setFocus();
    press(Qt::Key_Down);
    press(Qt::Key_Space);
    QVERIFY(document().filterText().startsWith("system="));
    press(Qt::Key_Space);
    QVERIFY(document().filterText().isEmpty());
    press(Qt::Key_Space, Qt::ControlModifier);
    QVERIFY(document().filterText().startsWith("system!="));
    press(Qt::Key_F, Qt::ControlModifier);
    QTRY_VERIFY_WITH_TIMEOUT(page().filter().line().hasFocus(), kWaitMs);
  }

  void aTitleIsDraggedAndAxesAreChosen() {
    ParallelPlot& plot = page().parallel();
    const int count = static_cast<int>(plot.columns().size());
    const int first = plot.columns()[0];
    drag(plot, plot.titleRect(0).center(), plot.titleRect(2).center());
    QCOMPARE(plot.columns()[2], first);
    QMenu* menu = page().axes().menu();
    for (QAction* action : menu->actions()) {
      if (action->text() == QLatin1String("Regime")) {
        action->trigger();
        break;
      }
    }
    QCOMPARE(static_cast<int>(plot.columns().size()), count + 1);
    QCOMPARE(plot.columns().back(), column_index("regime"));
    (void)window_->grab();
    plot.setColumns({});
    (void)window_->grab();  // says that there are none
    plot.setColumns({column_index("L"), column_index("time")});
    (void)window_->grab();
  }

  void whatIsPointedAtIsSeenInAllViews() {
    const int point = document().shown()[document().shown().size() / 3];
    const QPointF place = page().plot().scatter().placeOf(point);
    QVERIFY(!place.isNull());
    QTest::mouseMove(&page().plot().scatter(), place.toPoint());
    QTRY_VERIFY_WITH_TIMEOUT(document().hovered() >= 0, kWaitMs);
    const QImage with = page().parallel().grab().toImage();
    document().hover(-1);
    QVERIFY(with != page().parallel().grab().toImage());
    window_->showPage("points");
    QTableView& table = window_->pointsPage().table();
    const QModelIndex cell = table.model()->index(0, 2);
    table.scrollToTop();
    QTest::mouseMove(table.viewport(), table.visualRect(cell).center());
    QTRY_COMPARE_WITH_TIMEOUT(document().hovered(), window_->pointsPage().points().pointAt(0),
                              kWaitMs);
  }

  // What an axis writes into the filter is what it then shows as its brush.
  void aBrushIsReadBackFromTheFilter() {
    const SnapshotPtr held = document().snapshot();
    const Snapshot& snapshot = *held;
    for (const char* key : {"time", "L", "N", "rho", "dram", "system", "workload", "regime"}) {
      const ParallelAxis axis(snapshot, column_index(key));
      const QString filter = axis.brushed("source=measured", {0.30, 0.70});
      const std::vector<ParallelAxis::Brush> brushes =
          axis.brushesOf(snapshot, PointFilter::parse(filter));
      QVERIFY2(!brushes.empty(), key);
      const double slot = axis.isText() ? 1.0 / static_cast<double>(axis.names().size()) : 0.02;
      QVERIFY2(std::fabs(brushes.front().low - 0.30) <= slot &&
                   std::fabs(brushes.back().high - 0.70) <= slot,
               qPrintable(filter));
      QVERIFY(filter.startsWith("source=measured "));
      QCOMPARE(axis.brushed(filter, {}), QString("source=measured"));
    }
    QCOMPARE(with_texts("L>4K system!=dense", "system", {"NSA"}, {"NSA", "dense"}),
             QString("L>4K system=NSA"));
    QCOMPARE(with_texts("", "regime", {"a b", "c"}, {"a b", "c", "it's", "d"}),
             QString("regime!=\"it's\" regime!=d"));
    QCOMPARE(plain_terms_of("L ≥ 16K  Median time, µs < 50"), QStringList({"L>=16K", "time<50"}));
  }

  // Counts that follow each change are those of a count from the beginning.
  void countsFollowWhatIsShown() {
    const auto snapshot = many_points(5'000);
    const std::vector<int> columns = telling_columns(*snapshot);
    QCOMPARE(columns.size(), 8U);
    const auto scene = parallel_scene(snapshot, columns);
    PairCounts followed(columns.size());
    for (const char* text : {"", "time<40us", "system=NSA", "L>=16K N<=32", "nothing", ""}) {
      const PointFilter::Mask mask = PointFilter::parse(text).mask(*snapshot);
      followed.follow(scene->places, mask);
      PairCounts counted(columns.size());
      counted.follow(scene->places, mask);
      const int shown = static_cast<int>(indices_of(mask).size());
      for (std::size_t gap = 0; gap + 1 < columns.size(); ++gap) {
        const auto a = followed.between(gap), b = counted.between(gap);
        QVERIFY(std::equal(a.begin(), a.end(), b.begin()));
        QCOMPARE(std::accumulate(a.begin(), a.end(), 0), shown);
      }
    }
  }

  // A picture that follows each change is that of lines drawn from the beginning.
  void bandsFollowWhatIsShown() {
    const auto snapshot = many_points(5'000);
    const std::vector<int> columns = telling_columns(*snapshot);
    const auto scene = parallel_scene(snapshot, columns);
    const QSize size(701, 243);
    const std::size_t gap_count = columns.size() - 1;
    LineDensity followed(gap_count, 1.0F / kBins, size);
    PairCounts before(columns.size()), counts(columns.size());
    for (const char* text : {"", "time<40us", "system=NSA", "nothing", "L>=16K N<=32", ""}) {
      counts.follow(scene->places, PointFilter::parse(text).mask(*snapshot));
      std::vector<std::vector<Bundle>> changed(gap_count), all(gap_count);
      for (std::size_t gap = 0; gap < gap_count; ++gap) {
        changed[gap] = changed_bundles(before.between(gap), counts.between(gap));
        all[gap] = changed_bundles({}, counts.between(gap));
      }
      followed.add(changed);
      before = counts;
      LineDensity drawn(gap_count, 1.0F / kBins, size);
      drawn.add(all);
      QCOMPARE(followed.toned(Qt::blue), drawn.toned(Qt::blue));
      const bool shows_none = QString(text) == "nothing";
      const QImage image = followed.toned(Qt::blue);
      int marked = 0;
      for (int y = 0; y < image.height(); ++y) {
        for (int x = 0; x < image.width(); ++x) {
          marked += qAlpha(image.pixel(x, y)) > 0 ? 1 : 0;
        }
      }
      QCOMPARE(marked == 0, shows_none);
    }
  }

  void theFrontIsThatOfTheSlowWay() {
    const auto snapshot = many_points(2'000);
    std::vector<float> x, y;
    for (std::size_t at = 0; at < 2'000; ++at) {
      x.push_back(static_cast<float>(snapshot->values.column(column_index("N"))[at]));
      y.push_back(at % 9 == 0
                      ? std::nanf("")
                      : static_cast<float>(snapshot->values.column(column_index("time"))[at]));
    }
    const PointFilter::Mask mask = PointFilter::parse("L>=4K").mask(*snapshot);
    for (const float x_sign : {1.0F, -1.0F}) {
      for (const float y_sign : {1.0F, -1.0F}) {
        std::vector<std::int32_t> slow;
        for (std::size_t i = 0; i < x.size(); ++i) {
          bool beaten = mask[i] == 0 || std::isnan(y[i]);
          for (std::size_t j = 0; j < x.size() && !beaten; ++j) {
            const float dx = x_sign * (x[j] - x[i]), dy = y_sign * (y[j] - y[i]);
            beaten = mask[j] != 0 && dx >= 0.0F && dy >= 0.0F && (dx > 0.0F || dy > 0.0F || j < i);
          }
          if (!beaten) {
            slow.push_back(static_cast<std::int32_t>(i));
          }
        }
        std::vector<std::int32_t> front = pareto_front(x, y, mask, x_sign, y_sign);
        QVERIFY(std::is_sorted(front.begin(), front.end(), [&](std::int32_t a, std::int32_t b) {
          return x[static_cast<std::size_t>(a)] < x[static_cast<std::size_t>(b)];
        }));
        std::sort(front.begin(), front.end());
        QCOMPARE(front, slow);
      }
    }
    QVERIFY(pareto_front({}, {}, {}, 1.0F, 1.0F).empty());
  }

  void manyPointsAreDrawnWhereTheyAre() {
    const auto snapshot = many_points(30'000);
    document().accept(snapshot);
    QTRY_VERIFY_WITH_TIMEOUT(page().parallel().isReady() && page().facets().isReady(), kWaitMs);
    (void)window_->grab();
    QCOMPARE(page().plot().scatter().drawnCount(), 30'000);
    document().setFilter("system=dense");
    (void)window_->grab();
    QCOMPARE(page().plot().scatter().drawnCount(), static_cast<int>(document().shown().size()));
    const std::vector<float> x = {0.05F, 0.95F, 0.55F, std::nanf("")};
    const std::vector<float> y = {0.05F, 0.95F, 0.55F, 0.5F};
    const std::vector<std::uint8_t> mask = {1, 1, 0, 1}, category = {0, 1, 0, 0};
    const DensePicture picture = draw_dense({x, y, mask, category, {Qt::red, Qt::blue}, Qt::gray},
                                            {0.0, 0.0, 1.0, 1.0}, {10, 10});
    QCOMPARE(picture.counts, (std::vector<int>{1, 1}));
    QVERIFY(qRed(picture.image.pixel(0, 9)) > 100 && qBlue(picture.image.pixel(9, 0)) > 100);
    QCOMPARE(qAlpha(picture.image.pixel(5, 4)), 255);
    QCOMPARE(qAlpha(picture.image.pixel(2, 2)), 0);
  }

  void theTablesModelHoldsItsPromises() {
    const auto snapshot = many_points(3'000);
    Document document;
    PointTable table(document);
    const QAbstractItemModelTester tester(&table,
                                          QAbstractItemModelTester::FailureReportingMode::QtTest);
    document.accept(snapshot);
    table.sort(column_index("L"), Qt::AscendingOrder);
    table.sort(column_index("time"), Qt::DescendingOrder);
    const QPersistentModelIndex kept = table.index(7, 0);
    const int point = table.pointAt(7);
    table.sort(column_index("N"), Qt::AscendingOrder);
    QCOMPARE(table.pointAt(kept.row()), point);
    for (const char* filter : {"time<40us", "N>3", "nowhere", ""}) {
      document.setFilter(filter);
      QCOMPARE(table.rowCount(), static_cast<int>(document.shown().size()));
      for (int row = 1; row < table.rowCount(); ++row) {
        const auto& points = snapshot->overview.points;
        QVERIFY(points[static_cast<std::size_t>(table.pointAt(row - 1))].num_queries <=
                points[static_cast<std::size_t>(table.pointAt(row))].num_queries);
      }
    }
    QCOMPARE(table.rowOf(table.pointAt(11)), 11);
    document.accept(many_points(100));
    QCOMPARE(table.rowCount(), 100);
  }

  void anEmptyDatabaseSaysSo() {
    const QString path = folder_.filePath("empty.db");
    { db::Store::open(path.toStdString(), db::OpenMode::kCreateOrOpen); }
    QVERIFY(open(*window_, path));
    (void)window_->grab();
    QCOMPARE(page().facets().columnCount(), 0);
    press(Qt::Key_Down);
  }

  void thePageFitsSmallScreens() {
    for (const QSize size : {QSize(1024, 768), QSize(1280, 800)}) {
      window_->resize(size);
      QCoreApplication::processEvents();
      (void)window_->grab();
      QCOMPARE(window_->size(), size);
      QVERIFY(page().parallel().height() >= 200 && page().plot().scatter().height() >= 180);
      for (const QCheckBox* box : page().findChildren<QCheckBox*>()) {
        QVERIFY(box->width() >= box->sizeHint().width());
      }
    }
  }

  void thePageLooksAsItDid() {
    document().setFilter("workload=step time<2ms");
    const double ratio = window_->devicePixelRatioF();
    compare_with_golden(ratio > 1.0 ? "explore-2x" : "explore-light");
    window_->setDark(true);
    QCoreApplication::processEvents();
    compare_with_golden(ratio > 1.0 ? "explore-2x-dark" : "explore-dark");
  }
};

VERSIEVE_GUI_TEST(ExplorePageTest)
#include "explore_page_test.moc"
