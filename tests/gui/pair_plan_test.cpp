// The planner page on the shipped database: the pair that it holds is planned for as `versieve
// plan` does it, and the command that the app shows for an export writes the same bytes.
#include <QComboBox>
#include <QDoubleSpinBox>
#include <QFile>
#include <QLineEdit>
#include <QPushButton>
#include <QSpinBox>
#include <QTemporaryDir>
#include <QTest>
#include <QThreadPool>
#include <QToolButton>
#include <memory>
#include <set>

#include "engine/analyse/plan/hardware_file.h"
#include "engine/io/atomic_file.h"
#include "gui/pages/planner_page.h"
#include "gui/views/scope_knobs.h"
#include "gui/views/theme.h"
#include "tests/gui/run_command.h"
#include "tests/gui/test_main.h"
#include "tests/gui/window_case.h"
#include "tests/support/tiny_model.h"

using namespace versieve;
using namespace versieve::gui;

class PairPlanTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir folder_;
  std::unique_ptr<Window> window_;

  PlannerPage& page() { return window_->plannerPage(); }
  bool planned() { return page().planner().plan() && !page().planner().isBusy(); }

  // What the app exports, and what its command writes, are the same bytes.
  void exports_what_the_command_plans(const QString& name) {
    const QString exported = folder_.filePath(name + ".json");
    const QString commanded = folder_.filePath(name + "-command.json");
    QCOMPARE(page().planner().exportTo(exported), QString());
    const QString line = page().planner().commandLine(commanded);
    QVERIFY(line.startsWith("versieve plan --db "));
    QCOMPARE(run_command(line), QString());
    QVERIFY(bytes_of(exported).size() > 10'000);
    QVERIFY2(bytes_of(exported) == bytes_of(commanded), qPrintable(line));
  }

 private Q_SLOTS:
  void initTestCase() {
    theme::apply(*qApp);
    const QString path = folder_.filePath("h100.db");
    QVERIFY(copy_shipped("h100.db", folder_));
    window_ = std::make_unique<Window>();
    window_->show();
    QVERIFY(open(*window_, path));
    window_->showPage("planner");
    QTRY_VERIFY_WITH_TIMEOUT(planned(), 10 * kWaitMs);
  }

  void init() {
    window_->findChild<QPushButton*>("asMeasured")->click();
    QTRY_VERIFY_WITH_TIMEOUT(planned(), kWaitMs);
  }

  void cleanupTestCase() {
    window_.reset();
    job_pool().waitForDone();
  }

  void thePairOfTheDatabaseIsPlannedForByItsOwnEvidence() {
    const PlanPtr held = page().planner().plan();
    const Plan& plan = *held;
    QVERIFY(plan.chosen.sources && plan.chosen.sources->pair);
    QCOMPARE(plan.chosen.model, plan.chosen.sources->pair->name);
    QCOMPARE(plan.chosen.sources->times, EvidenceFrom::kOwn);
    QCOMPARE(plan.chosen.sources->acceptance, EvidenceFrom::kOwn);
    QComboBox& models = page().model();
    QCOMPARE(models.currentIndex(), 0);
    QVERIFY(plan.models.front().is_pair);
    QCOMPARE(models.itemText(0).toStdString(), plan.chosen.model);
    bool pairs_ended = false;
    for (const ModelChoice& choice : plan.models) {
      QVERIFY(!choice.is_pair || !pairs_ended);
      pairs_ended = pairs_ended || !choice.is_pair;
    }
    QVERIFY(models.findText("nsa-8b (geometry)") > 0);
    exports_what_the_command_plans("pair");
    const QList<QStringList> rows = page().grid().savedRows();
    QCOMPARE(rows.size(), qsizetype(plan.chosen.entries.size()) + 1);
    QCOMPARE(rows[1].size(), rows[0].size());
    QCOMPARE(rows[1][4].toStdString(), plan.chosen.entries[0].evaluation.strategy.text());
  }

  void limitsDraftsAndRatesAreTheCommandsToo() {
    page().maxLoss().setValue(0.06);
    QTRY_VERIFY_WITH_TIMEOUT(planned() && page().planner().plan()->chosen.max_loss, kWaitMs);
    page().draftVocab().setCurrentIndex(page().draftVocab().findData(8000));
    QTRY_VERIFY_WITH_TIMEOUT(planned() && page().planner().plan()->draft.vocab == 8000, kWaitMs);
    page().acceptance().pairs().setCurrentIndex(page().acceptance().pairs().count() - 1);
    QTRY_VERIFY_WITH_TIMEOUT(
        planned() && page().planner().plan()->chosen.acceptance_pair == "assumed 0.7", kWaitMs);
    exports_what_the_command_plans("turned");
  }

  void rangesBaselineSchedulesAndRequestsAreTheCommandsToo() {
    QTest::mouseClick(&page().more(), Qt::LeftButton);
    QVERIFY(page().scope().isVisible());
    const auto type = [](QLineEdit& line, const QString& text) {
      line.setFocus();
      line.selectAll();
      QTest::keyClicks(&line, text);
      QTest::keyClick(&line, Qt::Key_Return);
    };
    const Planner& planner = page().planner();
    type(page().scope().buckets(), "2048-4096, 4096-6144");
    QTRY_VERIFY_WITH_TIMEOUT(planned() && planner.plan()->chosen.buckets.front().low == 2048,
                             kWaitMs);
    type(page().scope().baseline(), "nsa/d6k8n64/bfs/c1/F*");
    type(page().scope().schedules(), "(FR)*");
    page().scope().requests().setValue(7);
    QTRY_VERIFY_WITH_TIMEOUT(planned() && planner.plan()->chosen.requests == 7, kWaitMs);
    const QString line = page().scope().command();
    QVERIFY2(line.contains("--buckets 2048-4096,4096-6144") &&
                 line.contains("--baseline 'nsa/d6k8n64/bfs/c1/F*'") &&
                 line.contains("--schedule '(FR)*'") && line.contains("--requests 7"),
             qPrintable(line));
    exports_what_the_command_plans("scope");
    // At a temperature that was measured, texts yield less.
    const auto tokens = [&] {
      return planner.plan()->chosen.entries.front().evaluation.throughput;
    };
    const double greedy = tokens();
    page().scope().temperature().setValue(0.6);
    QTRY_VERIFY_WITH_TIMEOUT(planned() && planner.plan()->chosen.temperature == 0.6, kWaitMs);
    QVERIFY(page().scope().command().contains("--temperature 0.6"));
    QVERIFY(tokens() < 0.95 * greedy);
    exports_what_the_command_plans("sampled");
    page().scope().temperature().setValue(0.0);
    QTRY_VERIFY_WITH_TIMEOUT(planned() && planner.plan()->chosen.temperature == 0.0, kWaitMs);
    // What cannot be planned is said, and the plan stays as it is.
    QSignalSpy said(&page(), &PlannerPage::said);
    type(page().scope().buckets(), "4096-2048");
    QCOMPARE(said.size(), 1);
    QCOMPARE(page().scope().buckets().text(), QString("2048-4096,4096-6144"));
    type(page().scope().schedules(), "FRF");
    QTRY_VERIFY_WITH_TIMEOUT(said.size() == 2, kWaitMs);
    QVERIFY(said.back()[0].toString().startsWith("the schedule 'FRF'"));
    QTRY_VERIFY_WITH_TIMEOUT(planned(), kWaitMs);
    QCOMPARE(page().scope().schedules().text(), QString("(FR)*"));
    QTest::mouseClick(&page().more(), Qt::LeftButton);
    QVERIFY(!page().scope().isVisible());
  }

  void aGeometryAndOneClassAreTheCommandsToo() {
    page().model().setCurrentIndex(page().model().findData("nsa-8b"));
    Q_EMIT page().model().activated(page().model().currentIndex());
    QTRY_VERIFY_WITH_TIMEOUT(planned() && page().planner().plan()->chosen.model == "nsa-8b",
                             kWaitMs);
    QCOMPARE(page().draftVocab().currentText(), QString("32000 tokens"));
    for (int i = 1; i < kPrecisionClassCount; ++i) {
      page().planner().setShown(static_cast<PrecisionClass>(i), false);
    }
    exports_what_the_command_plans("geometry");
    page().planner().setShown(PrecisionClass::kSparse, true);
    QVERIFY(page().planner().commandLine("a.json").contains("--class Strict,Sparse"));
    exports_what_the_command_plans("two-classes");
    page().maxLoss().setValue(0.06);
    QTRY_VERIFY_WITH_TIMEOUT(planned() && page().planner().plan()->chosen.max_loss, kWaitMs);
    QVERIFY(page().planner().commandLine("a.json").isEmpty());
    QVERIFY(page().planner().command("a.json").missing.contains("show all of them"));
    for (int i = 1; i < kPrecisionClassCount; ++i) {
      page().planner().setShown(static_cast<PrecisionClass>(i), true);
    }
  }

  void settingsOfReSaAndSpecAttnAreTheCommandsToo() {
    page().more().setChecked(true);
    const Planner& planner = page().planner();
    const auto type = [this](std::size_t option, const QString& text) {
      QLineEdit& line = page().scope().system(option);
      line.setFocus();
      line.selectAll();
      QTest::keyClicks(&line, text);
      QTest::keyClick(&line, Qt::Key_Return);
    };
    type(0, "32");
    type(1, "0.05, 0.1");
    type(2, "24");
    type(3, "0.95");
    QTRY_VERIFY_WITH_TIMEOUT(
        planned() && planner.plan()->chosen.systems.specattn_shares == std::vector<double>{0.95},
        kWaitMs);
    const QString line = page().scope().command();
    QVERIFY2(line.contains("--resa-block-size 32 --resa-ratio 0.05,0.1 --resa-rectify 24 "
                           "--specattn-mass 0.95"),
             qPrintable(line));
    std::set<std::string> attention;
    for (const PlanEntry& entry : planner.plan()->chosen.entries) {
      const std::string text = entry.evaluation.strategy.text();
      attention.insert(text.substr(0, text.find('/')));
    }
    QVERIFY(attention.count("resa:b32p0.05f24") == 1 && attention.count("specattn:p0.95") == 1);
    QVERIFY(attention.count("resa:b16p0.05f32") == 0 && attention.count("specattn:p0.97") == 0);
    exports_what_the_command_plans("systems");
    // A setting that no strategy has is said, and the plan stays as it is.
    QSignalSpy said(&page(), &PlannerPage::said);
    type(1, "2");
    QCOMPARE(said.size(), 1);
    QVERIFY(said.back()[0].toString().contains("ReSA p"));
    QCOMPARE(page().scope().system(1).text(), QString("0.05,0.1"));
    page().more().setChecked(false);
  }

  // A dense model of a folder with a draft model, with a draft head and without a draft.
  void denseTargetsOfFoldersAreTheCommandsToo() {
    const Planner& planner = page().planner();
    test::TinyModel dense;
    dense.target.attention = AttentionKind::kDense;
    dense.target.layers = 4;
    const auto path_of = [&](const char* name) { return folder_.filePath(name).toStdString(); };
    test::write_tiny_dense_pair(path_of("model"), dense, 3);
    test::write_tiny_pair(path_of("head"), dense);
    test::write_tiny_target(path_of("bare"), dense);
    for (const char* name : {"model", "head", "bare"}) {
      page().planner().setModel(path_of(name));
      QTRY_VERIFY_WITH_TIMEOUT(planned() && planner.plan()->basis->model == path_of(name), kWaitMs);
      QVERIFY(planner.plan()->isDense());
      QCOMPARE(page().model().currentData().toString().toStdString(), path_of(name));
      const QString draft = page().draftVocab().currentText();
      QVERIFY2(std::string(name) == "model"  ? draft == "all tokens, a model of its own"
               : std::string(name) == "bare" ? draft == "nothing: no draft"
                                             : draft.endsWith(" tokens"),
               qPrintable(draft));
      const QString line = planner.commandLine("plan.json");
      QVERIFY2(line.contains("--model " + folder_.filePath(name)), qPrintable(line));
      exports_what_the_command_plans(name);
      std::set<PrecisionClass> classes;
      for (const PlanEntry& entry : planner.plan()->chosen.entries) {
        classes.insert(entry.precision);
      }
      QVERIFY(classes.count(PrecisionClass::kStrict) == 1);
      QVERIFY(classes.count(PrecisionClass::kSparse) == 1);
      QVERIFY(classes.count(PrecisionClass::kSparseRectified) == 1);
      QVERIFY(classes.count(PrecisionClass::kReuseOnly) == 0);
    }
    page().bandwidth().setValue(20);
    QTRY_VERIFY_WITH_TIMEOUT(planned() && planner.plan()->isTurned(), kWaitMs);
    exports_what_the_command_plans("dense-bandwidth");
    // One that is no model is said, and the plan stays.
    QSignalSpy said(&page(), &PlannerPage::said);
    page().planner().setModel(folder_.path().toStdString());
    QTRY_VERIFY_WITH_TIMEOUT(said.size() == 1, kWaitMs);
    QVERIFY2(said.back()[0].toString().contains("config.json"),
             qPrintable(said.back()[0].toString()));
    QTRY_VERIFY_WITH_TIMEOUT(planned(), kWaitMs);
    QCOMPARE(planner.plan()->basis->model, path_of("bare"));
    page().planner().setModel({});
    QTRY_VERIFY_WITH_TIMEOUT(planned() && !planner.plan()->isDense(), kWaitMs);
  }

  void aTurnedBandwidthAndAMachineOfAFileAreTheCommandsToo() {
    page().bandwidth().setValue(20);
    QTRY_VERIFY_WITH_TIMEOUT(planned() && page().planner().plan()->isTurned(), kWaitMs);
    QVERIFY(page().planner().commandLine("a.json").contains("--bandwidth 2 "));
    exports_what_the_command_plans("bandwidth");
    HardwareSpec machine = hardware_by_key("h200-sxm");
    machine.key = "mine";
    machine.name = "a card of mine";
    const QString path = folder_.filePath("mine.json");
    engine::write_file_atomically(path.toStdString(), engine::hardware_json(machine));
    QCOMPARE(page().addMachine(path), QString());
    QTRY_VERIFY_WITH_TIMEOUT(planned() && page().planner().plan()->chosen.hardware == "mine",
                             kWaitMs);
    QVERIFY(page().planner().commandLine("a.json").contains("--hardware " + path));
    exports_what_the_command_plans("machine");
  }
};

VERSIEVE_GUI_TEST(PairPlanTest)
#include "pair_plan_test.moc"
