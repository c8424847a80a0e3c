// What does quality cost? The flow by mouse and keyboard on the shipped database: the front, a
// limit that is dragged and stepped, ranks that follow, and an export that the command repeats.
#include <QComboBox>
#include <QPushButton>
#include <QTemporaryDir>
#include <QTest>
#include <QThreadPool>
#include <memory>

#include "gui/models/plain_words.h"
#include "gui/pages/planner_page.h"
#include "gui/pages/quality/quality_page.h"
#include "gui/views/elided_text.h"
#include "gui/views/theme.h"
#include "tests/gui/database_case.h"
#include "tests/gui/run_command.h"
#include "tests/gui/test_main.h"
#include "tests/gui/ui_watch.h"

using namespace versieve;
using namespace versieve::gui;

class QualityPageTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir folder_;
  std::unique_ptr<Window> window_;

  QualityPage& page() { return window_->qualityPage(); }
  FrontPlot& plot() { return page().plot(); }
  Planner& planner() { return window_->plannerPage().planner(); }
  bool planned() { return planner().plan() && !planner().isBusy(); }
  const FrontPoint& point(int index) {
    return plot().front().points[static_cast<std::size_t>(index)];
  }
  int count() { return static_cast<int>(plot().front().points.size()); }
  // That of the losses of this place, slowest first.
  double loss(std::size_t place) { return plot().front().losses()[place]; }

 private Q_SLOTS:
  void initTestCase() {
    theme::apply(*qApp);
    window_ = window_on_shipped("h100.db", folder_);
    QVERIFY(window_ != nullptr);
    window_->showPage("quality");
    QTRY_VERIFY_WITH_TIMEOUT(planned(), 10 * kWaitMs);
  }

  void init() {
    planner().setMaxLoss(std::nullopt);
    QTRY_VERIFY_WITH_TIMEOUT(planned() && !plot().front().limit, kWaitMs);
  }

  void cleanupTestCase() {
    window_.reset();
    job_pool().waitForDone();
  }

  void theFrontIsWhatNothingMeasuredBeatsInBoth() {
    QVERIFY(count() > 20);
    int on_front = 0;
    for (int i = 0; i < count(); ++i) {
      bool beaten = false;
      for (int j = 0; j < count(); ++j) {
        const bool both = point(i).most_kl && point(j).most_kl && j != i;
        const double faster =
            point(j).entry->evaluation.throughput - point(i).entry->evaluation.throughput;
        beaten = beaten || (both && *point(j).most_kl <= *point(i).most_kl && faster >= 0.0 &&
                            (faster > 0.0 || *point(j).most_kl < *point(i).most_kl));
      }
      QCOMPARE(point(i).is_on_front, point(i).most_kl.has_value() && !beaten);
      on_front += point(i).is_on_front ? 1 : 0;
    }
    QVERIFY(on_front >= 2);  // losing nothing, and losing something to be faster
  }

  // Names of classes and marks are told where the pointer rests on them, as elsewhere.
  void theLegendIsToldOnHover() {
    const QString first = plot().legendHelpAt(plot().legendRect(0).center());
    QCOMPARE(first, class_in_words(PrecisionClass::kStrict));
    int items = 0;
    while (!plot().legendRect(items).isNull()) {
      QVERIFY(!plot().legendHelpAt(plot().legendRect(items).center()).isEmpty());
      ++items;
    }
    QVERIFY(items > 2);
    QVERIFY(plot().legendHelpAt(plot().legendRect(0).center() + QPointF(0, 17)).contains("filled"));
    QVERIFY(plot().legendHelpAt(plot().plotArea().center()).isEmpty());
  }

  void draggingTheLimitRanksAnewAndNeverHoldsTheWindow() {
    const QString without = cell(page().entries(), 0, 2);
    UiWatch watch;
    const QPointF grip(plot().limitX(), plot().plotArea().top() + 3);
    QTest::mousePress(&plot(), Qt::LeftButton, {}, grip.toPoint());
    const double to = plot().plotArea().left() + 0.55 * plot().plotArea().width();
    for (double x = grip.x(); x > to; x -= 12.0) {
      QTest::mouseMove(&plot(), QPointF(x, grip.y()).toPoint());
      QTest::qWait(5);
    }
    QTest::mouseRelease(&plot(), Qt::LeftButton, {}, QPointF(to, grip.y()).toPoint());
    QTRY_VERIFY_WITH_TIMEOUT(planned() && plot().front().limit, kWaitMs);
    const double held = watch.longestMs();
    qInfo("the UI thread's longest stretch while dragging: %.1f ms", held);
    QVERIFY2(held <= UiWatch::kMostMs, qPrintable(QString::number(held)));
    const double limit = *plot().front().limit;
    QCOMPARE(page().limit().value(), window_->plannerPage().maxLoss().value());
    QVERIFY(std::fabs(page().limit().value() - limit) < 1e-9);
    for (int row = 0; row < page().entries().rowCount(); ++row) {
      const PlanEntry& entry = *page().entries().entryAt(row);
      QVERIFY(!entry.baseline.empty() || entry.price.kl_nats.high <= limit);
    }
    bool any_beyond = false;
    for (int i = 0; i < count(); ++i) {
      any_beyond = any_beyond || !point(i).is_within;
    }
    QVERIFY(any_beyond);
    QVERIFY(cell(page().entries(), 0, 2) != without);
    QVERIFY(page().said().text().startsWith("Within "));
    keep_picture(*window_, "quality");
  }

  void keysStepFromOneTuplesLossToTheNext() {
    plot().setFocus();
    QTest::keyClick(&plot(), Qt::Key_Home);
    QTRY_VERIFY_WITH_TIMEOUT(planned() && plot().front().limit == 0.0, kWaitMs);
    for (int i = 0; i < count(); ++i) {
      QVERIFY(!point(i).is_within || !point(i).entry->baseline.empty() || point(i).most_kl == 0.0);
    }
    QTest::keyClick(&plot(), Qt::Key_Right);
    QTRY_VERIFY_WITH_TIMEOUT(planned() && plot().front().limit > 0.0, kWaitMs);
    QVERIFY(*plot().front().limit >= loss(0) && *plot().front().limit < loss(0) + 0.001);
    QTest::keyClick(&plot(), Qt::Key_Left);
    QTRY_VERIFY_WITH_TIMEOUT(planned() && plot().front().limit == 0.0, kWaitMs);
    QTest::keyClick(&plot(), Qt::Key_End);
    QTRY_VERIFY_WITH_TIMEOUT(planned() && !plot().front().limit, kWaitMs);
  }

  void aTupleIsSelectedByMouseAndOpensItsCell() {
    int lossy = -1;
    for (int i = 0; i < count(); ++i) {
      lossy = point(i).is_on_front && point(i).most_kl > 0.0 ? i : lossy;
    }
    QVERIFY(lossy >= 0);
    QTest::mouseClick(&plot(), Qt::LeftButton, {}, plot().placeOf(lossy).toPoint());
    QVERIFY(plot().selected() >= 0);
    QVERIFY(plot().accessibleDescription().contains("KL "));
    QTest::keyClick(&plot(), Qt::Key_Return);
    QVERIFY(window_->plannerPage().isVisible());
    window_->showPage("quality");
  }

  void whatIsExportedTheCommandRepeats() {
    page().limit().setValue(0.04);
    QTRY_VERIFY_WITH_TIMEOUT(planned() && plot().front().limit == 0.04, kWaitMs);
    const QString exported = folder_.filePath("quality.json");
    const QString commanded = folder_.filePath("command.json");
    QCOMPARE(planner().exportTo(exported), QString());
    const QString line = planner().commandLine(commanded);
    QVERIFY(line.contains("--max-loss 0.04"));
    QCOMPARE(run_command(line), QString());
    QVERIFY(bytes_of(exported).size() > 10'000);
    QVERIFY2(bytes_of(exported) == bytes_of(commanded), qPrintable(line));
  }
};

VERSIEVE_GUI_TEST(QualityPageTest)
#include "quality_page_test.moc"
