// What a plan is after, by the window: bounds between tokens and to the first one, and tokens a
// joule; shown where they matter, refused in a sentence, undone, kept in a session, and exported as
// the command writes it.
#include <QAction>
#include <QComboBox>
#include <QDir>
#include <QLineEdit>
#include <QPushButton>
#include <QTemporaryDir>
#include <QTest>
#include <QTextBrowser>
#include <QToolButton>
#include <algorithm>
#include <cmath>
#include <memory>

#include "gui/models/scope_json.h"
#include "gui/pages/planner_page.h"
#include "gui/views/number_knob.h"
#include "gui/views/objective_knobs.h"
#include "gui/views/scope_knobs.h"
#include "gui/views/theme.h"
#include "model/plan/concurrency.h"
#include "tests/gui/run_command.h"
#include "tests/gui/test_main.h"
#include "tests/gui/window_case.h"

using namespace versieve;
using namespace versieve::gui;

class ObjectiveTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir folder_;
  std::unique_ptr<Window> window_;

  PlannerPage& page() { return window_->plannerPage(); }
  Planner& planner() { return page().planner(); }
  ObjectiveKnobs& knobs() { return page().scope().objective(); }
  bool planned() { return planner().plan() && !planner().isBusy(); }
  const PlanTable& table() { return planner().plan()->chosen; }
  static QString prompts() { return VERSIEVE_SOURCE_DIR "/db/measured/h100-prefill.json"; }
  static void type(QLineEdit& line, const QString& text) {
    line.setFocus();
    line.selectAll();
    QTest::keyClick(&line, Qt::Key_Delete);
    QTest::keyClicks(&line, text);
    QTest::keyClick(&line, Qt::Key_Return);
  }
  void type_bound(NumberKnob& knob, double ms) {
    type(*knob.findChild<QLineEdit*>(), QString::number(ms));
  }
  void act(const char* command) { window_->findChild<QAction*>(command)->trigger(); }
  QString details() { return page().findChild<QTextBrowser*>("strategyDetails")->toPlainText(); }

  void exports_what_the_command_plans(const QString& name, const QString& words) {
    const QString exported = folder_.filePath(name + ".json");
    const QString commanded = folder_.filePath(name + "-command.json");
    QCOMPARE(planner().exportTo(exported), QString());
    const QString line = planner().commandLine(commanded);
    QVERIFY2(line.contains(words), qPrintable(line));
    QCOMPARE(run_command(line), QString());
    QVERIFY(bytes_of(exported).size() > 1'000);
    QVERIFY2(bytes_of(exported) == bytes_of(commanded), qPrintable(line));
  }
  // A geometry whose prompts were measured, one range, one and eight requests.
  void plan_for_a_server(const QString& database) {
    if (window_->document().snapshot()->path != database) {
      QVERIFY(open(*window_, database));
    }
    window_->showPage("planner");
    QTRY_VERIFY_WITH_TIMEOUT(planned(), kWaitMs);
    planner().setModel("nsa-1b");
    QTRY_VERIFY_WITH_TIMEOUT(planned() && table().model == "nsa-1b", kWaitMs);
    planner().setScope({.buckets = "4096-8192", .schedules = {"(FR)*"}, .concurrency = "1,8"});
    QTRY_VERIFY_WITH_TIMEOUT(planned() && table().batched.size() == 1, kWaitMs);
    for (int i = 1; i < kPrecisionClassCount; ++i) {
      planner().setShown(static_cast<PrecisionClass>(i), false);
    }
  }

 private Q_SLOTS:
  void initTestCase() {
    theme::apply(*qApp);
    QVERIFY(copy_shipped("h100.db", folder_));
    QVERIFY(QDir::setCurrent(folder_.path()));  // names in pictures are short, then
    window_ = std::make_unique<Window>();
    window_->resize(1280, 800);
    window_->show();
    QVERIFY(QTest::qWaitForWindowExposed(window_.get()));
    QVERIFY(open(*window_, "h100.db"));
    window_->showPage("planner");
    QTRY_VERIFY_WITH_TIMEOUT(planned(), kWaitMs);
  }

  void cleanupTestCase() {
    window_.reset();
    job_pool().waitForDone();
  }

  void boundsStandWhereTheyMatter() {
    QVERIFY(!knobs().isVisible());
    type(page().scope().concurrency(), "1,8");
    QTRY_VERIFY_WITH_TIMEOUT(planned() && knobs().isVisible(), kWaitMs);
    QVERIFY(!knobs().bound().isVisible());
    type(page().scope().concurrency(), "");
    QTRY_VERIFY_WITH_TIMEOUT(planned() && !knobs().isVisible(), kWaitMs);
    page().more().setChecked(true);
    QVERIFY(knobs().isVisible());
    page().more().setChecked(false);
    QVERIFY(!knobs().isVisible());
    // By the palette's command, from another page.
    window_->showPage("points");
    act("plan.latency");
    QVERIFY(page().isVisible() && knobs().isVisible() && knobs().bound().isVisible());
    QVERIFY2(!knobs().first().isEnabled(), "a bound to a first token needs prompts");
    act("plan.tokens");
    QVERIFY(!knobs().isVisible());
    QVERIFY(planner().scope() == PlanScope());
  }

  void aScopeGoesThroughASession() {
    const PlanScope scope{.concurrency = "1,8",
                          .objective = Objective::kEnergy,
                          .itl_ms = 12.5,
                          .ttft_ms = 300.0,
                          .prefill = "/somewhere/prefill.json"};
    QVERIFY(scope_of(scope_json(scope)) == scope);
    QVERIFY(scope_of(scope_json({})) == PlanScope());
  }

  void aBoundToTheFirstTokenIsTheCommandsToo() {
    plan_for_a_server("h100.db");
    const std::size_t all = table().batched[0].entries.size();
    knobs().setPrompts(prompts());
    QCOMPARE(knobs().aim(), ObjectiveKnobs::kLatency);
    QTRY_VERIFY_WITH_TIMEOUT(planned() && table().aims.prompts, kWaitMs);
    // Whose prompts these are: of that machine, newer than the database's points, in other pieces
    // than a batch reads.
    QVERIFY(!table().aims.prompts->revision.empty());
    const std::string warning = table().aims.prompts->warning;
    QVERIFY2(warning.find("--prefill holds no forwards of 512 tokens") == 0, warning.c_str());
    QVERIFY2(warning.find(';') == warning.rfind(';'), warning.c_str());  // and nothing else
    QVERIFY2(details().contains("first token"), qPrintable(details()));
    // What some of eight requests keep and others do not.
    const std::vector<const PlanEntry*> ranked =
        entries_of(table().batched[0], 0, {PrecisionClass::kStrict});
    std::vector<double> waits;
    for (const PlanEntry* entry : ranked) {
      waits.push_back(first_token(*table().aims.prompts, entry->evaluation, 8, 8192).interval.high);
    }
    std::sort(waits.begin(), waits.end());
    QVERIFY(waits.front() < waits.back());
    const double bound = std::ceil(10.0 * waits[waits.size() / 2]) / 10.0;
    type_bound(knobs().first(), bound);
    QTRY_VERIFY_WITH_TIMEOUT(planned() && table().aims.ttft_ms == bound, kWaitMs);
    QVERIFY(table().batched[0].entries.size() < all);
    for (const PlanEntry* entry : entries_of(table().batched[0], 0, {PrecisionClass::kStrict})) {
      QVERIFY(first_token(*table().aims.prompts, entry->evaluation, 8, 8192).interval.high <=
              bound);
    }
    exports_what_the_command_plans("first-token",
                                   "--concurrency 1,8 --objective latency --ttft-ms");
    keep_picture(*window_, "objective");
    type_bound(knobs().bound(), 1000.0);
    QTRY_VERIFY_WITH_TIMEOUT(planned() && table().aims.itl_ms == 1000.0, kWaitMs);
    exports_what_the_command_plans("both", "--objective latency --itl-ms 1000 --ttft-ms");
    // Undone step by step, and done again.
    act("edit.undo");
    QTRY_VERIFY_WITH_TIMEOUT(planned() && !table().aims.itl_ms, kWaitMs);
    QVERIFY(table().aims.ttft_ms == bound && knobs().bound().value() == 0.0);
    act("edit.redo");
    QTRY_VERIFY_WITH_TIMEOUT(planned() && table().aims.itl_ms == 1000.0, kWaitMs);
    // Less than any prompt takes is no bound: it is said, and the plan stays.
    QSignalSpy said(&page(), &PlannerPage::said);
    type_bound(knobs().first(), 1.0);
    QTRY_COMPARE_WITH_TIMEOUT(said.size(), 1, kWaitMs);
    QVERIFY2(said[0][0].toString().contains("from 10 to"), qPrintable(said[0][0].toString()));
    QVERIFY(planned() && table().aims.ttft_ms == bound && knobs().first().value() == bound);
  }

  // Prompts are of one machine: another one is refused, and the plan stays.
  void anotherMachineIsRefusedWithPrompts() {
    type_bound(knobs().first(), 0.0);
    QTRY_VERIFY_WITH_TIMEOUT(planned() && !table().aims.ttft_ms && table().aims.prompts, kWaitMs);
    QSignalSpy said(&page(), &PlannerPage::said);
    planner().setBandwidth(4.0);
    QTRY_VERIFY_WITH_TIMEOUT(!said.empty() && planned(), kWaitMs);
    QVERIFY2(said.back()[0].toString().contains("--prefill holds prompts read on"),
             qPrintable(said.back()[0].toString()));
    QVERIFY(!planner().bandwidth() && !planner().plan()->isTurned());
  }

  // A file of prompts that goes is said when it is read again, and the plan stays.
  void promptsThatVanishAreSaidAndThePlanStays() {
    const QString copy = folder_.filePath("prompts.json");
    QVERIFY(QFile::copy(prompts(), copy));
    knobs().setPrompts(copy);
    QTRY_VERIFY_WITH_TIMEOUT(planned() && planner().scope().prefill == copy.toStdString(), kWaitMs);
    QVERIFY(QFile::remove(copy));
    QSignalSpy said(&page(), &PlannerPage::said);
    PlanScope scope = planner().scope();
    scope.concurrency = "1,4";
    planner().setScope(scope);
    QTRY_VERIFY_WITH_TIMEOUT(!said.empty() && planned(), kWaitMs);
    QTest::qWait(300);
    QCOMPARE(said.size(), 1);
    QVERIFY2(said[0][0].toString().contains("prompts.json"), qPrintable(said[0][0].toString()));
    QCOMPARE(planner().scope().concurrency, std::string("1,8"));
    QVERIFY(table().aims.prompts);
    window_->findChild<QPushButton*>("asMeasured")->click();
    QTRY_VERIFY_WITH_TIMEOUT(planned() && planner().scope() == PlanScope(), kWaitMs);
  }

  void joulesWantSampledPower() {
    QVERIFY(copy_shipped("h200.db", folder_));
    plan_for_a_server("h200.db");
    act("plan.tokens");
    QTRY_VERIFY_WITH_TIMEOUT(planned() && !table().aims.ttft_ms, kWaitMs);
    QSignalSpy said(&page(), &PlannerPage::said);
    act("plan.energy");
    QTRY_VERIFY_WITH_TIMEOUT(said.size() == 1 && planned(), kWaitMs);
    QVERIFY2(said.back()[0].toString().contains("no power was sampled"),
             qPrintable(said.back()[0].toString()));
    QCOMPARE(knobs().aim(), ObjectiveKnobs::kTokens);
    QVERIFY(planner().scope().objective == Objective::kTokens);
  }

  void tokensAJouleAreTheCommandsToo() {
    plan_for_a_server("h100.db");
    act("plan.energy");
    QTRY_VERIFY_WITH_TIMEOUT(planned() && table().aims.objective == Objective::kEnergy, kWaitMs);
    const std::vector<const PlanEntry*> ranked =
        entries_of(table().batched[0], 0, {PrecisionClass::kStrict});
    QVERIFY(ranked.size() > 1);
    for (std::size_t i = 1; i < ranked.size(); ++i) {
      QVERIFY(yield_of(Objective::kEnergy, table().energy, ranked[i - 1]->evaluation) >=
              yield_of(Objective::kEnergy, table().energy, ranked[i]->evaluation));
    }
    QVERIFY2(details().contains("tokens a joule"), qPrintable(details()));
    exports_what_the_command_plans("energy", "--concurrency 1,8 --objective energy");
  }
};

VERSIEVE_GUI_TEST(ObjectiveTest)
#include "objective_test.moc"
