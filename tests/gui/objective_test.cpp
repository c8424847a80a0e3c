// What a plan is after, by the window: kept in a session, and refused in a sentence where nothing
// was measured for it.
#include <QAction>
#include <QTemporaryDir>
#include <QTest>
#include <memory>

#include "gui/models/scope_json.h"
#include "gui/pages/planner_page.h"
#include "gui/views/objective_knobs.h"
#include "gui/views/scope_knobs.h"
#include "gui/views/theme.h"
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
  void act(const char* command) { window_->findChild<QAction*>(command)->trigger(); }

 private Q_SLOTS:
  void initTestCase() {
    theme::apply(*qApp);
    QVERIFY(copy_shipped("h100.db", folder_));
    window_ = std::make_unique<Window>();
    window_->resize(1280, 800);
    window_->show();
    QVERIFY(QTest::qWaitForWindowExposed(window_.get()));
    QVERIFY(open(*window_, folder_.filePath("h100.db")));
    window_->showPage("planner");
    QTRY_VERIFY_WITH_TIMEOUT(planned(), kWaitMs);
  }

  void cleanupTestCase() {
    window_.reset();
    job_pool().waitForDone();
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

  void joulesWantSampledPower() {
    QSignalSpy said(&page(), &PlannerPage::said);
    act("plan.energy");
    QTRY_VERIFY_WITH_TIMEOUT(said.size() == 1 && planned(), kWaitMs);
    QVERIFY2(said.back()[0].toString().contains("no power was sampled"),
             qPrintable(said.back()[0].toString()));
    QCOMPARE(knobs().aim(), ObjectiveKnobs::kTokens);
    QVERIFY(planner().scope().objective == Objective::kTokens);
  }
};

VERSIEVE_GUI_TEST(ObjectiveTest)
#include "objective_test.moc"
