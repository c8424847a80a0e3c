// The sensitivity page without a display: bars and map must say what the planner says of the same
// machines.
#include <QApplication>
#include <QComboBox>
#include <QDir>
#include <QElapsedTimer>
#include <QLabel>
#include <QPushButton>
#include <QSlider>
#include <QTemporaryDir>
#include <QTest>
#include <QThreadPool>
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <set>

#include "gui/pages/planner_page.h"
#include "gui/pages/sensitivity/sensitivity_page.h"
#include "gui/views/theme.h"
#include "model/plan/concurrency.h"
#include "model/plan/tuple_pricer.h"
#include "tests/gui/test_main.h"
#include "tests/gui/ui_watch.h"
#include "tests/gui/window_case.h"

using namespace versieve;
using namespace versieve::gui;

class SensitivityPageTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir folder_;
  std::unique_ptr<Window> window_;

  SensitivityPage& page() { return window_->sensitivityPage(); }
  // Nothing of what was done held the window.
  static void check(UiWatch& watch) {
    const double held = watch.longestMs();
    qInfo("longest stretch of the UI thread %.1f ms", held);
    QVERIFY2(held <= UiWatch::kMostMs, qPrintable(QString::number(held)));
  }
  bool answered() { return page().model().answer() && !page().model().isBusy(); }

 private Q_SLOTS:
  void initTestCase() {
    theme::apply(*qApp);
    const QString path = folder_.filePath("campaign.db");
    write_synthetic_campaign(path, false);
    window_ = std::make_unique<Window>();
    window_->resize(1280, 800);
    window_->show();
    UiWatch watch;
    QVERIFY(open(*window_, path));
    QElapsedTimer clock;
    window_->showPage("planner");
    QTRY_VERIFY_WITH_TIMEOUT(window_->plannerPage().planner().plan() != nullptr, kWaitMs);
    clock.start();
    window_->showPage("sensitivity");
    QTRY_VERIFY_WITH_TIMEOUT(answered(), kWaitMs);
    qInfo("bars and a map of %d machines in %lld ms", kMapSide * kMapSide,
          static_cast<long long>(clock.elapsed()));
    check(watch);
  }

  void cleanupTestCase() {
    window_.reset();
    job_pool().waitForDone();
  }

  void eachKnobTurnsWhatItNamesAndNothingIsTakenForMeasured() {
    HardwareSpec machine = hardware_by_key("h100-sxm");
    machine.measured = {{.name = "read_rate"}};
    std::set<std::string> keys = {machine.key};
    for (int i = 0; i < kKnobCount; ++i) {
      const Knob knob = static_cast<Knob>(i);
      const HardwareSpec twice = turned(machine, knob, 2.0);
      QCOMPARE(value_of(knob, twice), 2.0 * value_of(knob, machine));
      QVERIFY(twice.measured.empty());
      QVERIFY(twice.key != machine.key);
    }
    const HardwareSpec more = turned(machine, Knob::kSms, 2.0);
    QCOMPARE(value_of(Knob::kTensorRate, more), 2.0 * value_of(Knob::kTensorRate, machine));
    QCOMPARE(value_of(Knob::kBandwidth, more), value_of(Knob::kBandwidth, machine));
    QCOMPARE(knob_text(Knob::kBandwidth, 2.4), QString("2.40 TB/s"));
    QCOMPARE(knob_text(Knob::kSms, 132.0), QString("132"));
  }

  void theBarsAreThePlannersWinnersAtTheirEnds() {
    const SensitivityPtr answer = page().model().answer();
    const Sensitivity& s = *answer;
    QCOMPARE(s.tornado.size(), static_cast<std::size_t>(kKnobCount));
    double wider = INFINITY;
    for (const TornadoRow& row : s.tornado) {
      const double width = std::fabs(std::log(row.high.rate / row.low.rate));
      QVERIFY(width <= wider);
      wider = width;
      // Less of a gap is more.
      const bool is_gap = row.knob == Knob::kLaunchGap;
      QVERIFY((is_gap ? row.high.rate : row.low.rate) <=
              1.0001 * (is_gap ? row.low.rate : row.high.rate));
      QVERIFY(row.low_value < row.high_value);
    }
    // The planner itself, on the machine at a bar's end: its best of the four classes.
    const Plan& plan = *s.question.plan;
    for (const TornadoRow& row : s.tornado) {
      const HardwareSpec machine =
          turned(turned(plan.machine, Knob::kBandwidth, 1.0), row.knob, kTornadoReach);
      const PlanTable table = plan.basis->replanner->plan_on(machine);
      const std::vector<const PlanEntry*> best =
          entries_of(table, 0,
                     {PrecisionClass::kStrict, PrecisionClass::kReuseOnly,
                      PrecisionClass::kApproxOnly, PrecisionClass::kApproxReuse});
      QCOMPARE(s.strategies[static_cast<std::size_t>(row.high.strategy)].text(),
               best.front()->evaluation.strategy.text());
      QVERIFY(std::fabs(row.high.rate / best.front()->evaluation.throughput - 1.0) < 1e-9);
    }
  }

  void theMapHasTheMachineInItsMiddleAndBordersBetweenWinners() {
    page().x().setCurrentIndex(page().x().findData(static_cast<int>(Knob::kBandwidth)));
    page().y().setCurrentIndex(page().y().findData(static_cast<int>(Knob::kSms)));
    QTRY_VERIFY_WITH_TIMEOUT(answered(), kWaitMs);
    const SensitivityPtr answer = page().model().answer();
    const Sensitivity& s = *answer;
    const int middle = kMapSide / 2;
    QCOMPARE(s.at(middle, middle).strategy, s.own.strategy);
    QVERIFY(std::fabs(s.at(middle, middle).rate / s.own.rate - 1.0) < 1e-9);
    QVERIFY(std::fabs(s.x[middle] / value_of(Knob::kBandwidth, s.question.plan->machine) - 1.0) <
            1e-9);
    int changes = 0;
    for (int column = 1; column < kMapSide; ++column) {
      QVERIFY(s.x[column] > s.x[column - 1]);
      changes += s.at(column, middle).strategy != s.at(column - 1, middle).strategy ? 1 : 0;
    }
    int along_x = 0;
    for (const WinnerBorder& border : s.borders) {
      const std::vector<double>& values = border.knob == Knob::kBandwidth ? s.x : s.y;
      along_x += border.knob == Knob::kBandwidth ? 1 : 0;
      QVERIFY(border.below != border.above);
      QVERIFY(border.value > values.front() && border.value < values.back());
      QVERIFY(page().borders().text().contains(knob_text(border.knob, border.value)));
    }
    QCOMPARE(along_x, changes);
    QVERIFY(page().map().machinesShown().contains("h200-sxm"));
    QVERIFY(!page().map().machinesShown().contains("no-such-machine"));
  }

  void theMapIsReadByKeysAndByThePointer() {
    window_->activateWindow();
    UiWatch watch;
    WinnerMap& map = page().map();
    map.setFocus();
    const SensitivityPtr answer = page().model().answer();
    const Sensitivity& s = *answer;
    QTest::mouseMove(&map, map.cellRect(3, 20).center().toPoint());
    QTest::mouseClick(&map, Qt::LeftButton, {}, map.cellRect(3, 20).center().toPoint());
    QCOMPARE(map.column(), 3);
    QCOMPARE(map.row(), 20);
    QTest::keyClick(&map, Qt::Key_Right);
    QTest::keyClick(&map, Qt::Key_Down);
    QCOMPARE(map.column(), 4);
    QCOMPARE(map.row(), 19);
    QCOMPARE(map.accessibleDescription(), cell_text(s, 4, 19));
    for (int i = 0; i < kMapSide + 3; ++i) {
      QTest::keyClick(&map, Qt::Key_Left);
    }
    QCOMPARE(map.column(), 0);
    QTest::qWait(20);
    check(watch);
    const QImage picture = map.grab().toImage();
    const QPoint inside = map.cellRect(10, 10).center().toPoint();
    QCOMPARE(picture.pixelColor(inside), theme::category(s.at(10, 10).strategy));
    QVERIFY(window_->grab().save(folder_.filePath("sensitivity.png")));
  }

  void requestsAtOnceAreAnAxisOfTheMap() {
    page().x().setCurrentIndex(page().x().findData(static_cast<int>(Knob::kRequests)));
    page().y().setCurrentIndex(page().y().findData(static_cast<int>(Knob::kBandwidth)));
    QTRY_VERIFY_WITH_TIMEOUT(answered() && page().model().answer()->question.x == Knob::kRequests,
                             kWaitMs);
    const SensitivityPtr answer = page().model().answer();
    const Sensitivity& s = *answer;
    QCOMPARE(s.x.front(), 1.0);
    QCOMPARE(s.x.back(), 256.0);
    const int middle = kMapSide / 2;
    QCOMPARE(page().map().column(), 0);  // this machine serves one
    QCOMPARE(s.at(0, middle).strategy, s.own.strategy);
    QVERIFY(std::fabs(s.at(0, middle).rate / s.own.rate - 1.0) < 1e-9);
    QVERIFY(s.at(middle, middle).rate > 2.0 * s.own.rate);
    // The planner itself says the same of 16 at once.
    const Plan& plan = *s.question.plan;
    QCOMPARE(s.x[middle], 16.0);
    PlanOptions options;
    options.buckets = plan.chosen.buckets;
    options.concurrency = {1, 16};
    const PlanTable table = versieve::plan(
        plan.basis->fit, turned(plan.machine, Knob::kBandwidth, 1.0), plan.target(), options);
    const std::vector<const PlanEntry*> best =
        entries_of(table.batched[0], 0,
                   {PrecisionClass::kStrict, PrecisionClass::kReuseOnly,
                    PrecisionClass::kApproxOnly, PrecisionClass::kApproxReuse});
    QVERIFY(s.at(middle, middle).rate >= 0.99 * best.front()->evaluation.throughput);
    QVERIFY(s.at(middle, middle).rate <= 1.0001 * best.front()->evaluation.throughput);
    bool changes = false;
    for (const WinnerBorder& border : s.borders) {
      changes = changes || border.knob == Knob::kRequests;
    }
    QVERIFY2(changes, "many requests leave no room for large trees");
    QVERIFY(page().map().machinesShown().contains("h200-sxm"));
    // Contexts are an axis too; the page's own range is one of its rows.
    page().y().setCurrentIndex(page().y().findData(static_cast<int>(Knob::kContext)));
    QTRY_VERIFY_WITH_TIMEOUT(answered() && page().model().answer()->question.y == Knob::kContext,
                             kWaitMs);
    const SensitivityPtr contexts = page().model().answer();
    QVERIFY(contexts->y.front() <= 1024.0 && contexts->y.back() > 12'000.0);
    QVERIFY(std::is_sorted(contexts->y.begin(), contexts->y.end()));
    QVERIFY(cell_text(*contexts, 0, kMapSide - 1).contains("tokens"));
    // Beyond the memory there is no winner, and the cell says so.
    Plan small = plan;
    small.machine.fields[static_cast<std::size_t>(HardwareField::kMemoryMib)].value = 8192;
    SensitivityQuestion question = s.question;
    question.plan = std::make_shared<const Plan>(small);
    const SensitivityPtr little = find_sensitivity(question);
    QCOMPARE(little->at(kMapSide - 1, middle).strategy, -1);
    QVERIFY(cell_text(*little, kMapSide - 1, middle).contains("do not fit into memory"));
    QVERIFY(little->at(0, middle).strategy >= 0);
  }

  // The plan's bound between tokens is held to on every machine, as the planner does; where nothing
  // keeps it that is said, and the map stays.
  void aBoundBetweenTokensIsHeldTo() {
    page().x().setCurrentIndex(page().x().findData(static_cast<int>(Knob::kBandwidth)));
    page().y().setCurrentIndex(page().y().findData(static_cast<int>(Knob::kSms)));
    QTRY_VERIFY_WITH_TIMEOUT(answered() && page().model().answer()->question.y == Knob::kSms,
                             kWaitMs);
    Planner& planner = window_->plannerPage().planner();
    const std::vector<PrecisionClass> classes = {
        PrecisionClass::kStrict, PrecisionClass::kReuseOnly, PrecisionClass::kApproxOnly,
        PrecisionClass::kApproxReuse};
    // The first keeps it, and hardly, on this machine as if nothing had been timed there.
    const PlanPtr unbounded = planner.plan();
    const PlanTable untimed =
        unbounded->basis->replanner->plan_on(turned(unbounded->machine, Knob::kBandwidth, 1.0));
    const PlanEntry& first = *entries_of(untimed, 0, classes).front();
    const double bound = 1.02 * inter_token_interval_ms(first.evaluation, 1).high;
    PlanScope scope = planner.scope();
    scope.itl_ms = bound;
    planner.setScope(scope);
    QTRY_VERIFY_WITH_TIMEOUT(
        answered() && !planner.isBusy() &&
            page().model().answer()->question.plan->chosen.aims.itl_ms == bound,
        kWaitMs);
    const SensitivityPtr answer = page().model().answer();
    const Sensitivity& s = *answer;
    const PlanPtr plan = s.question.plan;
    QVERIFY(s.own.strategy >= 0);
    int without = 0;
    const int middle = kMapSide / 2;
    for (const int column : {0, 20, middle, kMapSide - 1}) {
      for (const int row : {5, middle}) {
        const Situation at = placed(placed(s.situation, Knob::kSms, row / (kMapSide - 1.0)),
                                    Knob::kBandwidth, column / (kMapSide - 1.0));
        const PlanTable table = plan->basis->replanner->plan_on(at.machine);
        const std::vector<const PlanEntry*> kept = entries_of(table, 0, classes);
        const Winner& winner = s.at(column, row);
        without += kept.empty() ? 1 : 0;
        QCOMPARE(winner.strategy < 0, kept.empty());
        QVERIFY(kept.empty() ||
                std::fabs(winner.rate / kept.front()->evaluation.throughput - 1.0) < 1e-9);
      }
    }
    QVERIFY2(without > 0 && without < 8, "some machines keep it and some do not");
    QVERIFY2(cell_text(s, 0, middle).contains("ms between tokens"),
             qPrintable(cell_text(s, 0, middle)));
    QVERIFY(page().borders().text().contains("nothing keeps"));
    QVERIFY(page().tornado().accessibleDescription().contains("nothing keeps"));
    // On a turned machine that keeps it nowhere the sliders are still there.
    page().slider(Knob::kBandwidth).setValue(page().slider(Knob::kBandwidth).minimum());
    QTRY_VERIFY_WITH_TIMEOUT(answered() && page().model().answer()->question.isTurned(), kWaitMs);
    QCOMPARE(page().model().answer()->own.strategy, -1);
    QVERIFY(page().slider(Knob::kBandwidth).isVisible());
    QVERIFY2(page().told().text().startsWith("Turned: nothing keeps"),
             qPrintable(page().told().text()));
    (void)window_->grab();
    window_->findChild<QPushButton*>("asPlanned")->click();
    // Measured steps keep this one, predicted ones with their wider intervals do not.
    const PlanEntry& timed = *entries_of(unbounded->chosen, 0, classes).front();
    scope.itl_ms = 1.001 * inter_token_interval_ms(timed.evaluation, 1).high;
    planner.setScope(scope);
    QTRY_VERIFY_WITH_TIMEOUT(!planner.isBusy() && !page().model().isBusy() &&
                                 page().model().sentence().contains("between tokens"),
                             kWaitMs);
    planner.setScope({});
    QTRY_VERIFY_WITH_TIMEOUT(answered() && !planner.isBusy() &&
                                 !page().model().answer()->question.plan->chosen.aims.itl_ms,
                             kWaitMs);
  }

  // Sliders turn the machine around which bars and map are; the launch gap and L2's rate too.
  void slidersTurnTheMachine() {
    page().y().setCurrentIndex(page().y().findData(static_cast<int>(Knob::kSms)));
    page().x().setCurrentIndex(page().x().findData(static_cast<int>(Knob::kBandwidth)));
    QTRY_VERIFY_WITH_TIMEOUT(answered() && page().model().answer()->question.y == Knob::kSms,
                             kWaitMs);
    QVERIFY(page().told().text().isEmpty());
    const double before = page().model().answer()->own.rate;
    page().slider(Knob::kBandwidth).setFocus();
    for (int key = 0; key < 20; ++key) {
      QTest::keyClick(&page().slider(Knob::kBandwidth), Qt::Key_Left);
    }
    QTRY_VERIFY_WITH_TIMEOUT(answered() && page().model().answer()->question.isTurned(), kWaitMs);
    QTRY_VERIFY_WITH_TIMEOUT(answered() && page().model().answer()->question.factors ==
                                               (std::array{0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0}),
                             kWaitMs);
    const SensitivityPtr halved = page().model().answer();
    QVERIFY(halved->own.rate < before);
    QVERIFY(std::fabs(halved->unturned.rate / before - 1.0) < 1e-9);
    QVERIFY2(page().told().text().contains("of the planner's machine"),
             qPrintable(page().told().text()));
    // As the planner's own knob has it.
    const Plan& plan = *halved->question.plan;
    QVERIFY(std::fabs(value_of(Knob::kBandwidth, halved->situation) -
                      0.5 * value_of(Knob::kBandwidth, plan.machine)) < 1e-9);
    page().slider(Knob::kLaunchGap).setValue(40);
    QTRY_VERIFY_WITH_TIMEOUT(
        answered() && page().model().answer()->situation.machine.scale.graph_gap == 4.0, kWaitMs);
    QVERIFY(page().model().answer()->own.rate < halved->own.rate);
    window_->findChild<QPushButton*>("asPlanned")->click();
    QTRY_VERIFY_WITH_TIMEOUT(answered() && !page().model().answer()->question.isTurned(), kWaitMs);
    QVERIFY(page().told().text().isEmpty());
  }

  // Of the shipped measurements, where it is asked for.
  void thePictureOfTheManual() {
    if (qEnvironmentVariableIsEmpty("VERSIEVE_PICTURES")) {
      return;
    }
    Window window;
    window.resize(1280, 800);
    window.show();
    QVERIFY(copy_shipped("h100.db", folder_));
    QVERIFY(QDir::setCurrent(folder_.path()));  // names in pictures are short, then
    QVERIFY(open(window, "h100.db"));
    window.showPage("sensitivity");
    SensitivityPage& page = window.sensitivityPage();
    page.x().setCurrentIndex(page.x().findData(static_cast<int>(Knob::kRequests)));
    page.y().setCurrentIndex(page.y().findData(static_cast<int>(Knob::kBandwidth)));
    QTRY_VERIFY_WITH_TIMEOUT(page.model().answer() && !page.model().isBusy(), 10 * kWaitMs);
    QTest::qWait(200);
    keep_picture(window, "sensitivity");
  }

  void classRangeAndThePlannersKnobsAreAskedFor() {
    page().x().setCurrentIndex(page().x().findData(static_cast<int>(Knob::kBandwidth)));
    UiWatch watch;
    page().precision().setCurrentIndex(
        page().precision().findData(static_cast<int>(PrecisionClass::kStrict)));
    page().bucket().setCurrentIndex(1);
    QTRY_VERIFY_WITH_TIMEOUT(answered() && page().model().answer()->question.bucket == 1, kWaitMs);
    for (const Strategy& strategy : page().model().answer()->strategies) {
      QCOMPARE(strategy.precision(), PrecisionClass::kStrict);
    }
    const double before = page().model().answer()->own.rate;
    window_->plannerPage().bandwidth().setValue(20);  // 2 TB/s
    QTRY_VERIFY_WITH_TIMEOUT(answered() && page().model().answer()->own.rate < before, kWaitMs);
    const SensitivityPtr answer = page().model().answer();
    const Sensitivity& s = *answer;
    QVERIFY(std::fabs(s.x[kMapSide / 2] - 2.0) < 1e-9);
    check(watch);
  }
};

VERSIEVE_GUI_TEST(SensitivityPageTest)
#include "sensitivity_page_test.moc"
