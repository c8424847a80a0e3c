// Why is this step so slow? The flow by mouse and keyboard on the shipped database: a step of the
// trained pair and another beside it, told launch by launch in every picture.
#include <QComboBox>
#include <QLabel>
#include <QTabWidget>
#include <QTemporaryDir>
#include <QTest>
#include <QThreadPool>
#include <cmath>
#include <memory>
#include <numeric>

#include "gui/pages/step/step_page.h"
#include "gui/views/elided_text.h"
#include "gui/views/theme.h"
#include "tests/gui/database_case.h"
#include "tests/gui/test_main.h"
#include "tests/gui/ui_watch.h"

using namespace versieve;
using namespace versieve::gui;

class StepPageTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir folder_;
  std::unique_ptr<Window> window_;

  StepPage& page() { return window_->stepPage(); }
  const StepView& view() { return *page().reader().view(); }
  bool shows(int first, int second) {
    return page().reader().view() && !page().reader().isBusy() &&
           view().first->key.strategy == strategy(first) &&
           (second < 0 ? !view().second : view().second.has_value());
  }
  std::string strategy(int point) {
    const SnapshotPtr held = window_->document().snapshot();
    const Snapshot& snapshot = *held;
    return snapshot.word(snapshot.overview.points[static_cast<std::size_t>(point)].strategy)
        .toStdString();
  }
  // A step of the trained pair whose text holds this.
  int step_of(const char* part) {
    for (const int point : page().reader().steps()) {
      if (page().reader().title(point).contains("smollm2-nsa") &&
          QString::fromStdString(strategy(point)).contains(part)) {
        return point;
      }
    }
    return -1;
  }

 private Q_SLOTS:
  void initTestCase() {
    theme::apply(*qApp);
    window_ = window_on_shipped("h100.db", folder_);
    QVERIFY(window_ != nullptr);
  }

  void cleanupTestCase() {
    window_.reset();
    job_pool().waitForDone();
  }

  // Of the geometries of eight billion weights the names of launches alone are stored.
  void theFirstStepOfferedHasSomethingToSay() {
    window_->showPage("step");
    QTRY_VERIFY_WITH_TIMEOUT(page().reader().view(), kWaitMs);
    QVERIFY(page().first().itemText(0).endsWith("smollm2-nsa"));
    QVERIFY(view().first->launches_us() > 0.0 && view().first->floor_bytes() > 0.0);
    const MeasuredStep bare{.key = {}, .us = 5.0, .low_us = {}, .high_us = {}, .launches = {{}}};
    QVERIFY(step_text(bare, {}).endsWith("of its launches the names alone are stored."));
  }

  void aStepIsToldByItsLaunchesBytesAndRoofs() {
    UiWatch watch;
    window_->showPage("step");
    const int tree = step_of("d6k6n32");
    const int plain = step_of("nsa/ar");
    QVERIFY(tree >= 0 && plain >= 0);
    page().first().setCurrentIndex(page().first().findData(tree));
    QTRY_VERIFY_WITH_TIMEOUT(shows(tree, -1), kWaitMs);
    page().second().setCurrentIndex(page().second().findData(plain));
    QTRY_VERIFY_WITH_TIMEOUT(shows(tree, plain), kWaitMs);
    const double held = watch.longestMs();
    qInfo("the UI thread's longest stretch: %.1f ms", held);
    QVERIFY2(held <= UiWatch::kMostMs, qPrintable(QString::number(held)));
    const StepViewPtr kept = page().reader().view();
    const MeasuredStep& step = *kept->first;
    QVERIFY(step.us && step.launches.size() >= 5 && !step.is_counted_time);
    QVERIFY(step.launches_us() > 0.0 && step.launches_us() < 2.0 * *step.us);
    QVERIFY(view().roofs.dram && view().roofs.tensor && view().roofs.l2);
    QVERIFY(*view().roofs.dram > 1e12 && *view().roofs.dram < 3.4e12);
    for (const StepLaunch& launch : step.launches) {
      const double terms = std::accumulate(launch.term_bytes.begin(), launch.term_bytes.end(), 0.0);
      QVERIFY(std::fabs(terms - launch.floor_bytes) <= 1e-6 * launch.floor_bytes + 1e-9);
      if (launch.us && launch.dram_bytes) {  // no launch is faster than what was measured of DRAM
        QVERIFY(1e6 * *launch.dram_bytes / *launch.us < 3.4e12);
      }
    }
    int on_roofline = 0;
    for (int i = 0; i < static_cast<int>(step.launches.size()); ++i) {
      on_roofline += page().roofline().placeOf(i).isNull() ? 0 : 1;
    }
    QVERIFY(on_roofline >= 3);
    QVERIFY(view().sharing.of.startsWith("smollm2-nsa"));
    QVERIFY(page().said().text().contains("between them"));
  }

  void allPicturesTellTheSameLaunch() {
    const int last = static_cast<int>(view().first->launches.size()) - 1;
    QTest::mouseClick(&page().timeline(), Qt::LeftButton, {},
                      page().timeline().barOf(0, last).center().toPoint());
    const int told = page().timeline().told();
    QCOMPARE(page().terms().told(), told);
    QCOMPARE(page().roofline().told(), told);
    page().roofline().setFocus();
    for (int i = 0; i <= last; ++i) {
      QTest::keyClick(&page().roofline(), Qt::Key_Left);
    }
    QCOMPARE(page().timeline().told(), 0);
    QVERIFY(page().told().text().startsWith(view().first->launches[0].name));
    QVERIFY(page().terms().accessibleDescription().startsWith(view().first->launches[0].name));
    // Bars lie one behind another, as long as their share of the longer step.
    const QRectF first = page().timeline().barOf(0, 0);
    QVERIFY(std::fabs(first.right() - page().timeline().barOf(0, 1).left()) < 0.01);
  }

  // These were measured before traces were kept.
  void aStepWithoutATraceKeepsItsPictureAndSaysHowOneIsHad() {
    QVERIFY(!view().first_trace && page().timeline().isVisible() && !page().trace().isVisible());
    QVERIFY(page().missing().isVisible());
    QVERIFY(page().missing().text().contains(
        "versieve profile --db h100.db --sweep pair --model FOLDER"));
    QVERIFY(page().missing().text().contains("h100-traces.db"));
    QVERIFY(!page().aligned().isEnabled());
    page().parts().setCurrentIndex(1);
    QCOMPARE(page().phases().rows(), 0);
    page().parts().setCurrentIndex(0);
  }

  void thePointThatIsSelectedElsewhereIsShown() {
    const int plain = step_of("nsa/ar");
    window_->document().select(plain);
    QTRY_VERIFY_WITH_TIMEOUT(page().first().currentData().toInt() == plain, kWaitMs);
    QTRY_VERIFY_WITH_TIMEOUT(view().first->key.strategy == "nsa/ar", kWaitMs);
  }

  void aDatabaseWithoutStepsSaysHowToMeasureSome() {
    const QString path = folder_.filePath("sweep.db");
    test::write_made_up_sweep(path.toStdString());
    Window window;
    window.show();
    QVERIFY(open(window, path));
    window.showPage("step");
    QVERIFY(window.stepPage().reader().steps().empty());
    QVERIFY(!window.stepPage().reader().view());
    QVERIFY(window.stepPage().reader().sentence().contains("versieve profile"));
  }
};

VERSIEVE_GUI_TEST(StepPageTest)
#include "step_page_test.moc"
