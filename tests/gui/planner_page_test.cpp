// The planner page without a display: what is planned must be shown, told, and planned again as
// knobs turn; and the report of its fit.
#include <QApplication>
#include <QComboBox>
#include <QDialogButtonBox>
#include <QDir>
#include <QDoubleSpinBox>
#include <QElapsedTimer>
#include <QFile>
#include <QFileDialog>
#include <QFileInfo>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QSignalSpy>
#include <QSlider>
#include <QStatusBar>
#include <QTableView>
#include <QTemporaryDir>
#include <QTest>
#include <QTextBrowser>
#include <QThreadPool>
#include <QTimer>
#include <QToolButton>
#include <algorithm>
#include <ctime>
#include <map>
#include <memory>
#include <set>

#include "engine/analyse/fit/fit_report.h"
#include "engine/analyse/plan/hardware_file.h"
#include "engine/analyse/plan/table_file.h"
#include "engine/io/atomic_file.h"
#include "gui/models/numbers.h"
#include "gui/models/plain_words.h"
#include "gui/pages/planner_page.h"
#include "gui/pages/validation_page.h"
#include "gui/views/save_dialog.h"
#include "gui/views/theme.h"
#include "model/plan/concurrency.h"
#include "tests/gui/planner_case.h"
#include "tests/gui/test_main.h"
#include "tests/gui/ui_watch.h"
#include "tests/gui/window_case.h"
#include "tests/support/sanitized.h"

using namespace versieve;
using namespace versieve::gui;

class PlannerPageTest : public QObject, private PlannerCase {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() { begin(); }
  void init() { beginOne(); }
  void cleanupTestCase() { end(); }

  // Whatever stands short is told in words where the pointer rests on it.
  void textsOfStrategiesAndClassesAreToldOnHover() {
    PlannerPage& page = window_->plannerPage();
    const QString approximate = class_in_words(PrecisionClass::kApproxOnly);
    QVERIFY(approximate.startsWith("Approx-only: ") && approximate.contains("Lost against"));
    QCOMPARE(page.classButton(PrecisionClass::kApproxOnly).toolTip(), approximate);
    const auto title = [&](int row) {
      return page.grid().helpAt({20, page.grid().cellRect(0, row).center().y()});
    };
    QCOMPARE(title(1 + static_cast<int>(PrecisionClass::kApproxOnly)), approximate);
    QVERIFY(title(0).contains("fastest"));
    QVERIFY(page.grid().helpAt({20, 2}).isEmpty());
    page.showCell(0, PrecisionClass::kApproxOnly);
    const PlanEntries& entries = page.entries();
    for (int row = 0; row < entries.rowCount(); ++row) {
      QCOMPARE(entries.index(row, 1).data(Qt::ToolTipRole).toString(), approximate);
      const QString told = entries.index(row, 2).data(Qt::ToolTipRole).toString();
      QVERIFY2(told.contains("native sparse attention"), qPrintable(told));
    }
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
    QTest::mouseClick(&page.grid(), Qt::LeftButton, {}, page.grid().cellRect(2, 0).center());
    const std::vector<PrecisionClass> compared = page.grid().selectedClasses();
    QCOMPARE(compared.size(), std::size_t{6});  // the draft's own text is not the best of anything
    QCOMPARE(std::count(compared.begin(), compared.end(), PrecisionClass::kApproxSampling), 0);
    QTest::mouseClick(&page.grid(), Qt::LeftButton, {}, page.grid().cellRect(2, 1).center());
    QCOMPARE(page.grid().bucket(), 2);
    QCOMPARE(page.grid().selectedClasses(), std::vector{PrecisionClass::kStrict});
    QCOMPARE(page.entries().rowCount(), 12);
    const double before = best_of(own->chosen, 2, PrecisionClass::kStrict)->evaluation.throughput;

    page.bandwidth().setValue(10);  // 1 TB/s
    QTRY_VERIFY_WITH_TIMEOUT(page.planner().plan() != own && !page.planner().isBusy(), kWaitMs);
    const PlanPtr slower = page.planner().plan();
    QCOMPARE(slower->fit, own->fit);  // not fitted again
    QVERIFY(best_of(slower->chosen, 2, PrecisionClass::kStrict)->evaluation.throughput < before);
    QVERIFY(slower->chosen.scaled);
    QVERIFY(window.grab().save(folder_.filePath("planner.png")));
  }

  void aFitIsKeptForTheNextWindow() {
    const QString path = folder_.filePath("kept.db");
    write_synthetic_campaign(path, false);
    double cpu_s = 0.0;  // what opening the page took, whatever else the machine does
    const auto planned = [&](int& parts) {
      Window window;
      window.show();
      const Planner& planner = window.plannerPage().planner();
      [&] { QVERIFY(open(window, path)); }();
      QElapsedTimer watch;
      watch.start();
      const std::clock_t before = std::clock();
      window.showPage("planner");
      [&] { QTRY_VERIFY_WITH_TIMEOUT(planner.plan() != nullptr, kWaitMs); }();
      window.grab();
      cpu_s = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
      qInfo("the planner is there after %lld ms, of them %.0f ms of computing",
            static_cast<long long>(watch.elapsed()), 1e3 * cpu_s);
      parts = static_cast<int>(planner.waitText().count('%'));
      return planner.plan();
    };
    int of_first = 0, of_second = 0;
    const PlanPtr first = planned(of_first);
    QVERIFY(QFileInfo::exists(path + ".fit"));
    const PlanPtr second = planned(of_second);
    QCOMPARE(of_first, 1);   // a fit reported itself
    QCOMPARE(of_second, 0);  // nothing was fitted
    QVERIFY2(cpu_s < test::kSanitized * 8.0,
             "planned and shown: 0.9 s of computing alone, 2.9 beside much other work");
    QVERIFY(first && second);
    QCOMPARE(engine::fit_tables_html(*second->fit), engine::fit_tables_html(*first->fit));
    QCOMPARE(engine::plan_table_json(second->own), engine::plan_table_json(first->own));

    QFile broken(path + ".fit");
    QVERIFY(broken.open(QIODevice::WriteOnly) && broken.write("nothing that was kept") > 0);
    broken.close();
    const PlanPtr third = planned(of_first);
    QCOMPARE(of_first, 1);
    QVERIFY(third);
  }

  void aFitCanBeEndedAndBegunAgain() {
    const QString path = folder_.filePath("ended.db");
    write_synthetic_campaign(path, false);
    Window window;
    window.show();
    QVERIFY(open(window, path));
    window.showPage("planner");
    PlannerPage& page = window.plannerPage();
    QPushButton* const end = page.findChild<QPushButton*>("endFit");
    QVERIFY(end && end->isVisible());
    QCOMPARE(end->text(), QString("Cancel"));
    end->click();
    QTRY_VERIFY_WITH_TIMEOUT(!page.planner().isBusy(), kWaitMs);
    QVERIFY(!page.planner().plan());
    QVERIFY(page.planner().sentence().contains("ended"));
    QVERIFY(!QFileInfo::exists(path + ".fit"));
    QVERIFY(end->isVisible());
    QCOMPARE(end->text(), QString("Fit again"));
    end->click();
    QTRY_VERIFY_WITH_TIMEOUT(page.planner().plan() != nullptr, kWaitMs);
  }

  // "8,5" became 8.00 and "99" 9.00, without a word.
  void aNumberThatCannotBeTakenIsSaidAndChangesNothing() {
    window_->showPage("planner");
    PlannerPage& page = window_->plannerPage();
    NumberKnob& knob = page.typedBandwidth();
    const auto type = [&knob](const char* text) {
      knob.setFocus();
      knob.selectAll();
      QTest::keyClicks(&knob, text);
      QTest::keyClick(&knob, Qt::Key_Return);
    };
    const double own = knob.value();
    type("999");
    QCOMPARE(knob.value(), own);
    QVERIFY2(window_->statusBar()->currentMessage().contains("the memory bandwidth is from"),
             qPrintable(window_->statusBar()->currentMessage()));
    QVERIFY(window_->statusBar()->currentMessage().contains("999"));
    type("fast");
    QCOMPARE(knob.value(), own);
    QVERIFY(window_->statusBar()->currentMessage().contains("is no number"));
    type("4,5");
    QCOMPARE(knob.value(), 4.5);
    QTRY_VERIFY_WITH_TIMEOUT(!page.planner().isBusy(), kWaitMs);
    QCOMPARE(page.planner().plan()->chosen.hardware, std::string("h200-sxm at 4.5 TB/s"));
    page.maxLoss().setFocus();
    page.maxLoss().selectAll();
    QTest::keyClicks(&page.maxLoss(), "7");
    QTest::keyClick(&page.maxLoss(), Qt::Key_Return);
    QCOMPARE(page.maxLoss().text(), QString("any"));
    window_->findChild<QPushButton*>("asMeasured")->click();
    QTRY_VERIFY_WITH_TIMEOUT(!page.planner().isBusy(), kWaitMs);
  }

  // Ranks whose intervals overlap looked decided.
  void tiesAreMarked() {
    window_->showPage("planner");
    PlannerPage& page = window_->plannerPage();
    page.grid().select(1, 0);
    int ties = 0;
    for (int row = 1; row < page.entries().rowCount(); ++row) {
      const bool tied = overlaps(*page.entries().entryAt(0), *page.entries().entryAt(row));
      ties += tied ? 1 : 0;
      QCOMPARE(cell(page.entries(), row, 0).contains(QString::fromUtf8("≈")), tied);
    }
    QVERIFY(ties > 0);
    QVERIFY(!cell(page.entries(), 0, 0).contains(QString::fromUtf8("≈")));
  }

  void aKnobThatMovesNothingSaysWhy() {
    window_->showPage("planner");
    PlannerPage& page = window_->plannerPage();
    const auto planned = [&] { return page.planner().plan() && !page.planner().isBusy(); };
    page.acceptance().pairs().setCurrentIndex(page.acceptance().pairs().count() - 1);
    QTRY_VERIFY_WITH_TIMEOUT(
        planned() && page.planner().plan()->chosen.acceptance_origin == AcceptanceOrigin::kAssumed,
        kWaitMs);
    const PlanPtr held = page.planner().plan();
    const Plan& plan = *held;
    int told = 0;
    for (const PlanEntry& entry : plan.chosen.entries) {
      const QString why = unmoved_text(plan, entry);
      if (entry.baseline == "autoregressive" && entry.precision == PrecisionClass::kStrict) {
        QVERIFY2(why.contains("yields one token"),
                 qPrintable(why + entry_html(plan, entry) + QString::number(plan.isTurned())));
        QVERIFY(entry_html(plan, entry).contains("leave it as it was"));
        ++told;
      } else if (entry.evaluation.strategy.text() == "nsa/d8k8n128/bfs/c1/F*") {
        QCOMPARE(why, QString());
      }
    }
    QVERIFY(told > 0);
    QCOMPARE(nothing_moved_text(plan, plan), QString());  // no knob was turned between them
    window_->findChild<QPushButton*>("asMeasured")->click();
    QTRY_VERIFY_WITH_TIMEOUT(planned() && !page.planner().plan()->isTurned(), kWaitMs);
    const PlanPtr before = page.planner().plan();
    Plan limited = *before;
    limited.chosen.max_loss = 1.5;
    QVERIFY(nothing_moved_text(*before, limited).contains("no ranked entry loses so much"));
  }

  void anAssumedNumberHasNoIntervalOfWidthZero() {
    Plan plan = *window_->plannerPage().planner().plan();
    PlanEntry entry = plan.chosen.entries.front();
    entry.evaluation.strategy = Strategy::parse("nsa/d8k1n9/bfs/c1/F*/sampling=sigmoid");
    entry.evaluation.expected_accepted = 9.0;
    entry.evaluation.accepted_interval = {9.0, 9.0};
    QVERIFY(entry_html(plan, entry).contains("9.00  (assumed: no interval)"));
    entry.evaluation.strategy = Strategy::parse("nsa/ar");
    QVERIFY(entry_html(plan, entry).contains("9.00  (exactly)"));
    entry.evaluation.accepted_interval = {8.0, 10.0};
    QVERIFY(entry_html(plan, entry).contains("90 %: 8.00"));
  }

  void whatAContextRangeChangesIsToldByItsParts() {
    const PlanPtr held = window_->plannerPage().planner().plan();
    const PlanTable& table = held->chosen;
    for (const PlanEntry& entry : table.entries) {
      if (entry.baseline == "autoregressive" && entry.precision == PrecisionClass::kStrict) {
        const QString html = before_html(table, entry);
        QCOMPARE(html.isEmpty(), entry.bucket == 0);
        QVERIFY(entry.bucket == 0 || html.contains("tokens a step × 1.000"));
      }
    }
  }

  // "not met" stood on the validation page alone.
  void goalsThatTheFitMissesStandInThePlanner() {
    const QLabel* label = window_->findChild<QLabel*>("missedGoals");
    engine::FitReport report;
    QCOMPARE(missed_goals_text(report).contains("Goals missed"), false);
    report.latency.points = 10;
    report.latency.median_ape = 0.9;
    report.latency.p90_ape = 0.99;
    QVERIFY2(missed_goals_text(report).contains("latency, held out"),
             qPrintable(missed_goals_text(report)));
    const QString missed = missed_goals_text(*window_->plannerPage().planner().plan()->fit);
    QCOMPARE(label->text().isEmpty(), missed.isEmpty());
  }

  void aPlanBeginsAtThePriorThatWasNamed() {
    FittedModel known = window_->plannerPage().planner().plan()->fit->model;
    QVERIFY(!known.systems.empty());
    known.runs = {"another-machine"};  // both databases here name theirs alike
    Window window;
    window.plannerPage().planner().setPrior(std::make_shared<const FittedModel>(known),
                                            "known.json");
    window.show();
    QVERIFY(open(window, campaign_));  // which has no points of other systems
    window.showPage("planner");
    const Planner& planner = window.plannerPage().planner();
    QTRY_VERIFY_WITH_TIMEOUT(planner.plan() != nullptr, kWaitMs);
    QVERIFY(planner.plan()->chosen.provenance_note.find("which corrects a fit to") !=
            std::string::npos);
    QCOMPARE(planner.plan()->fit->model.systems.size(), known.systems.size());
  }

  void theValidationPageShowsTheReportOfThePlannersFit() {
    Window window;
    window.show();
    QVERIFY(open(window, campaign_));
    window.showPage("validation");
    ValidationPage& page = window.validationPage();
    QTRY_VERIFY_WITH_TIMEOUT(!page.plots().empty(), kWaitMs);
    const PlanPtr held = window.plannerPage().planner().plan();
    const engine::FitReport& fit = *held->fit;
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
    HardwareSpec mine = hardware_by_key("l40s");
    mine.key = "mine";
    mine.name = "a card of my own";
    const QString path = folder_.filePath("mine.json");
    engine::write_file_atomically(path.toStdString(), engine::hardware_json(mine));
    const QString broken = folder_.filePath("broken.json");
    engine::write_file_atomically(broken.toStdString(), "{}");
    const QString in_bytes = folder_.filePath("in_bytes.json");
    engine::write_file_atomically(in_bytes.toStdString(),
                                  R"({"key": "b", "name": "B", "like": "l40s", "fields": {"l2":
        {"value": 62914560, "source": "device query"}}})");
    Window window;
    window.show();
    QVERIFY(open(window, campaign_));
    window.showPage("planner");
    PlannerPage& page = window.plannerPage();
    QTRY_VERIFY_WITH_TIMEOUT(page.planner().plan() != nullptr, kWaitMs);
    const std::string before = page.planner().plan()->chosen.hardware;
    QVERIFY(!page.addMachine(broken).isEmpty());
    QVERIFY(page.addMachine(in_bytes).contains("were 60 MiB meant, written in bytes?"));
    QVERIFY(!page.addMachine(folder_.filePath("absent.json")).isEmpty());
    QCOMPARE(page.planner().plan()->chosen.hardware, before);
    QCOMPARE(page.addMachine(path), QString());
    QTRY_VERIFY_WITH_TIMEOUT(
        !page.planner().isBusy() && page.planner().plan()->chosen.hardware == "mine", kWaitMs);
    QCOMPARE(page.planner().machine()->name, mine.name);
    QCOMPARE(page.typedBandwidth().value(), 0.86);  // less than the slider's least
  }
};

VERSIEVE_GUI_TEST(PlannerPageTest)
#include "planner_page_test.moc"
