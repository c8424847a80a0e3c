// The planner page's ranking: classes with rows or reasons, whose tokens and which draft they count
// on, what choices lose, and what is exported of them.
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

class PlannerRankingTest : public QObject, private PlannerCase {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() { begin(); }
  void init() { beginOne(); }
  void cleanupTestCase() { end(); }

  void everyClassHasRowsOrAReasonInEveryBucket() {
    Window window;
    window.show();
    for (const QString& path : {campaign_, systems_}) {
      QVERIFY(open(window, path));
      window.showPage("planner");
      PlannerPage& page = window.plannerPage();
      QTRY_VERIFY_WITH_TIMEOUT(!page.planner().isBusy() && page.planner().plan(), kWaitMs);
      const PlanPtr held = page.planner().plan();
      const PlanTable& chosen = held->chosen;
      for (std::int64_t bucket = 0; bucket < 4; ++bucket) {
        for (const PrecisionClass precision : chosen.classes) {
          const bool has_points = path == systems_ ? precision != PrecisionClass::kApproxSampling
                                                   : precision < PrecisionClass::kSparseRectified;
          QCOMPARE(best_of(chosen, bucket, precision) != nullptr, has_points);
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
        entry.rank = throughput == 10.0 ? 3 : ((throughput == 30.0) == strict ? 2 : 1);
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
    const ClassChoice sparse = class_choice(table, 0, PrecisionClass::kSparse);
    QCOMPARE(sparse.best->evaluation.throughput, 20.0);
    QCOMPARE(sparse.ahead->baseline, std::string("fixed"));
    QVERIFY(best_of(table, 0, PrecisionClass::kReuseOnly) == nullptr);
  }

  void theRankingOfAllShownClassesIsOneList() {
    window_->showPage("planner");
    PlannerPage& page = window_->plannerPage();
    page.grid().select(1, 0);
    const std::vector<const PlanEntry*> all =
        entries_of(page.planner().plan()->chosen, 1, page.planner().shownClasses());
    QCOMPARE(page.entries().rowCount(), static_cast<int>(all.size()));
    std::set<PrecisionClass> classes;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const int row = static_cast<int>(i);
      const bool is_baseline = !all[i]->baseline.empty();
      classes.insert(all[i]->precision);
      QCOMPARE(rank_of(page, row), QString::number(i + 1));
      QCOMPARE(cell(page.entries(), row, 2).endsWith("baseline"), is_baseline);
      QVERIFY(i == 0 || all[i]->evaluation.throughput <= all[i - 1]->evaluation.throughput);
    }
    QVERIFY(classes.size() >= 5);
    QVERIFY(window_->grab().save(folder_.filePath("all_classes.png")));

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
    (void)window_->grab();
  }

  void theShownClassesAreExported() {
    Window empty;
    QVERIFY(!empty.plannerPage().planner().exportTo(folder_.filePath("early.json")).isEmpty());
    window_->showPage("planner");
    Planner& planner = window_->plannerPage().planner();
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
    QVERIFY(planner.exportTo(folder_.filePath("plan.vllm.yaml")).contains("Sparse+Rectify"));
    planner.setShown(PrecisionClass::kStrict, true);
    for (const char* name : {"plan.sglang.yaml", "plan.vllm.yaml", "plan.trtllm.yaml"}) {
      QCOMPARE(planner.exportTo(folder_.filePath(name)), QString());
      QFile file(folder_.filePath(name));
      QVERIFY(file.open(QIODevice::ReadOnly));
      QVERIFY(file.readAll().contains("speculative"));
    }
    QVERIFY(planner.exportTo(folder_.filePath("plan.other.yaml")).contains("other"));
    QVERIFY(planner.exportTo(folder_.filePath("plan.xls")).contains(".csv"));
    QVERIFY(!QFile::exists(folder_.filePath("plan.xls")));
    QVERIFY(planner.exportTo("/nowhere/plan.csv").contains("/nowhere/plan.csv"));
  }

  // Only tenths could be chosen, and which strategy had moved was nowhere to be read.
  void aTypedBandwidthIsPlannedForAndTheRankingSaysWhatMoved() {
    window_->showPage("planner");
    PlannerPage& page = window_->plannerPage();
    page.grid().select(1, 0);
    for (int row = 0; row < page.entries().rowCount(); ++row) {
      QCOMPARE(rank_of(page, row), QString::number(row + 1));
    }
    const PlanTable own = page.planner().plan()->own;
    page.typedBandwidth().setFocus();
    page.typedBandwidth().selectAll();
    QTest::keyClicks(&page.typedBandwidth(), "1.25");
    QVERIFY(!page.planner().isBusy());  // not before the number is whole
    QTest::keyClick(&page.typedBandwidth(), Qt::Key_Return);
    QTRY_VERIFY_WITH_TIMEOUT(!page.planner().isBusy(), kWaitMs);
    QCOMPARE(page.planner().plan()->chosen.hardware, std::string("h200-sxm at 1.25 TB/s"));
    QCOMPARE(page.bandwidth().value(), 13);
    const std::vector<const PlanEntry*> before = entries_of(own, 1, page.grid().selectedClasses());
    int moved = 0;
    for (int row = 0; row < page.entries().rowCount(); ++row) {
      const auto was = std::find_if(before.begin(), before.end(), [&](const PlanEntry* e) {
        return e->evaluation.strategy == page.entries().entryAt(row)->evaluation.strategy;
      });
      const int place = static_cast<int>(was - before.begin());
      moved += place == row ? 0 : 1;
      QCOMPARE(rank_of(page, row), was == before.end() ? QString("%1 (new)").arg(row + 1)
                                   : place == row
                                       ? QString::number(row + 1)
                                       : QString("%1 (was %2)").arg(row + 1).arg(place + 1));
    }
    QVERIFY(moved > 0);
    window_->findChild<QPushButton*>("asMeasured")->click();
    QTRY_VERIFY_WITH_TIMEOUT(!page.planner().isBusy(), kWaitMs);
    QCOMPARE(page.planner().plan()->chosen.hardware, std::string("h200-sxm"));
    QCOMPARE(page.bandwidth().value(), 49);
  }

  void theTokensOfAnotherPairAndOfAnAssumedRateArePlannedWith() {
    const QString path = folder_.filePath("pairs.db");
    QVERIFY(QFile::copy(campaign_, path));
    store_imported_chain(path);
    Window window;
    window.show();
    QVERIFY(open(window, path));
    window.showPage("planner");
    PlannerPage& page = window.plannerPage();
    const auto planned = [&] { return page.planner().plan() && !page.planner().isBusy(); };
    QTRY_VERIFY_WITH_TIMEOUT(planned(), kWaitMs);
    QComboBox& pairs = page.acceptance().pairs();
    QCOMPARE(pairs.count(), 3);
    QCOMPARE(pairs.itemText(0), QString("demo-nsa (measured)"));
    QCOMPARE(pairs.itemText(1), QString("pair-7b (imported)"));
    QVERIFY(!page.acceptance().rate().isVisible());
    const auto fixed_us = [&] {
      return page.planner().plan()->chosen.baselines[1].evaluation.expected_accepted;
    };
    const double own = fixed_us();
    pairs.setCurrentIndex(1);
    QTRY_VERIFY_WITH_TIMEOUT(planned() && fixed_us() < 0.8 * own, kWaitMs);
    QCOMPARE(page.planner().plan()->chosen.acceptance_pair, std::string("pair-7b"));
    QCOMPARE(page.planner().plan()->own.acceptance_pair, std::string("demo-nsa"));
    QVERIFY(cell(page.entries(), 0, 0).contains("(") ||
            cell(page.entries(), 1, 0).contains("("));  // "1 (was 4)": something moved
    pairs.setCurrentIndex(2);
    QVERIFY(page.acceptance().rate().isVisible());
    page.acceptance().rate().setValue(30);
    QTRY_VERIFY_WITH_TIMEOUT(
        planned() && page.planner().plan()->chosen.acceptance_pair == "assumed 0.3", kWaitMs);
    const double poor = fixed_us();
    page.acceptance().rate().setValue(90);
    QTRY_VERIFY_WITH_TIMEOUT(planned() && fixed_us() > 1.5 * poor, kWaitMs);
    window.findChild<QPushButton*>("asMeasured")->click();
    QTRY_VERIFY_WITH_TIMEOUT(planned() && !page.planner().plan()->isTurned(), kWaitMs);
    QCOMPARE(pairs.currentIndex(), 0);
    QCOMPARE(fixed_us(), own);
    QVERIFY(!page.acceptance().rate().isVisible());
  }

  void whatAChoiceLosesIsShownAndLimited() {
    const QString path = folder_.filePath("priced.db");
    QVERIFY(QFile::copy(campaign_, path));
    store_losses(path);
    Window window;
    window.show();
    QVERIFY(open(window, path));
    window.showPage("planner");
    PlannerPage& page = window.plannerPage();
    const auto planned = [&] { return page.planner().plan() && !page.planner().isBusy(); };
    QTRY_VERIFY_WITH_TIMEOUT(planned(), kWaitMs);
    QCOMPARE(page.entries().headerData(kLossColumn, Qt::Horizontal, Qt::DisplayRole).toString(),
             QString("Loss"));
    std::map<std::string, QString> texts = losses_shown(page);
    QCOMPARE(texts.at("(FRRR)*"), QString("KL 0.20 nats, 80 % same (of measured-pair)"));
    int row = 0;
    while (page.entries().entryAt(row)->evaluation.strategy.schedule != "(FRRR)*") {
      ++row;
    }
    page.findChild<QTableView*>("entries")->selectRow(row);
    const QString details = page.findChild<QTextBrowser*>()->toPlainText();
    QVERIFY2(details.contains("KL 0.2000 (95 %: 0.1800 – 0.2200) nats a token"),
             qPrintable(details));
    QVERIFY(details.contains("borrowed from measured-pair (sha256 aaaaaaaaaaaa)"));

    page.maxLoss().setValue(0.05);
    QTRY_VERIFY_WITH_TIMEOUT(planned() && page.planner().plan()->chosen.max_loss == 0.05, kWaitMs);
    texts = losses_shown(page);
    QCOMPARE(texts.count("(FRRR)*"), std::size_t{0});
    QCOMPARE(texts.count("(FRR)*"), std::size_t{0});  // nobody measured it
    QCOMPARE(texts.at("(FR)*"), QString("KL 0.01 nats, 99.0 % same (of measured-pair)"));
    QVERIFY(page.planner().plan()->isTurned());
    const QString out = folder_.filePath("limited.json");
    QCOMPARE(page.planner().exportTo(out), QString());
    QVERIFY(engine::read_plan_table(out.toStdString()).max_loss == 0.05);
    window.findChild<QPushButton*>("asMeasured")->click();
    QTRY_VERIFY_WITH_TIMEOUT(planned() && !page.planner().plan()->isTurned(), kWaitMs);
    QCOMPARE(page.maxLoss().text(), QString("any"));
    QVERIFY(losses_shown(page).contains("(FRRR)*"));
  }

  void aDraftOfFewerTokensIsPlannedWithAndLookedInto() {
    Window window;
    window.show();
    QVERIFY(open(window, campaign_));
    window.showPage("planner");
    PlannerPage& page = window.plannerPage();
    const auto planned = [&] { return page.planner().plan() && !page.planner().isBusy(); };
    QTRY_VERIFY_WITH_TIMEOUT(planned(), kWaitMs);
    const auto best = [&] { return page.planner().plan()->chosen.entries.front().evaluation; };
    const auto draft_us = [&] {  // the launches of one and the same tree
      const PlanPtr held = page.planner().plan();
      const Plan& plan = *held;
      PlanEntry entry = plan.own.entries.front();
      entry.evaluation.strategy = Strategy::parse("nsa/d6k8n64/bfs/c1/F*");
      return launches_html(plan, entry);
    };
    const double usual = best().throughput;
    const QString usual_launches = draft_us();
    QVERIFY(page.draftVocab().isVisible());
    QVERIFY(page.planner().plan()->chosen.provenance_note.find("32000 of 128256") !=
            std::string::npos);
    page.draftVocab().setCurrentIndex(page.draftVocab().findData(128256));
    QTRY_VERIFY_WITH_TIMEOUT(planned() && page.planner().plan()->isTurned(), kWaitMs);
    QVERIFY(1.05 * best().throughput < usual);
    QVERIFY(draft_us() != usual_launches);
    page.draftVocab().setCurrentIndex(page.draftVocab().findData(16000));
    QTRY_VERIFY_WITH_TIMEOUT(planned() && best().throughput > usual, kWaitMs);
    const QString path = folder_.filePath("fewer.json");
    QCOMPARE(page.planner().exportTo(path), QString());
    QVERIFY(engine::read_plan_table(path.toStdString()).provenance_note.find("16000") !=
            std::string::npos);
    window.findChild<QPushButton*>("asMeasured")->click();
    QTRY_VERIFY_WITH_TIMEOUT(planned() && !page.planner().plan()->isTurned(), kWaitMs);
    QCOMPARE(page.draftVocab().currentIndex(), 0);
    QCOMPARE(best().throughput, usual);
    QCOMPARE(draft_us(), usual_launches);
  }

  void aDatabaseWithoutAMeasuredPairIsPlannedWithWhatItHas() {
    const QString path = folder_.filePath("unpaired.db");
    {
      db::Store store = db::Store::open(path.toStdString(), db::OpenMode::kCreateOrOpen);
      const std::int64_t run = store.begin_run(test::sample_run("unpaired-run"));
      for (const PointMeasurement& point :
           synthetic::step_points({}, hardware_by_key("h200-sxm"))) {
        store.add_point(run, point);
      }
      store.finish_run(run, RunStatus::kComplete);
    }
    Window window;
    window.show();
    QVERIFY(open(window, path));
    window.showPage("planner");
    Planner& planner = window.plannerPage().planner();
    QTRY_VERIFY_WITH_TIMEOUT(planner.plan() && !planner.isBusy(), kWaitMs);
    QCOMPARE(planner.plan()->chosen.acceptance_pair, std::string("assumed 0.7"));
    QCOMPARE(window.plannerPage().acceptance().pairs().itemText(0),
             QString("assumed 0.7 (assumed)"));
    store_imported_chain(path);
    QVERIFY(open(window, path));
    QTRY_VERIFY_WITH_TIMEOUT(planner.plan() && !planner.isBusy(), kWaitMs);
    QCOMPARE(planner.plan()->chosen.acceptance_pair, std::string("pair-7b"));
    QCOMPARE(planner.plan()->chosen.acceptance_origin, AcceptanceOrigin::kImported);
  }

  void aStepIsLookedIntoLaunchByLaunchOnTheMachineOfTheKnobs() {
    const PlanPtr own = window_->plannerPage().planner().plan();
    const PlanEntry& first = *best_of(own->chosen, 1, PrecisionClass::kStrict);
    const QString html = launches_html(*own, first);
    QVERIFY(html.contains("at context 6144, as predicted"));
    QVERIFY(html.contains("linear, matrices"));
    QVERIFY(html.contains(", refresh"));
    QVERIFY(html.contains("× others"));
    Plan slower = *own;
    slower.machine.fields[static_cast<std::size_t>(HardwareField::kRawBandwidthGbps)].value = 1000;
    slower.machine.key += " slower";
    QVERIFY(launches_html(slower, first) != html);
    // The page shows it under the entry that is selected.
    window_->plannerPage().grid().select(1, 1);
    const QString shown = window_->plannerPage().findChild<QTextBrowser*>()->toPlainText();
    QVERIFY(shown.contains("Launches of a step at context 6144"));
    QVERIFY(shown.contains("bound by"));
  }

  void whatBeatsTheBaselineIsSaidWithAProbability() {
    QCOMPARE(probability_text(0.999), QString("> 0.99"));
    QCOMPARE(probability_text(0.0), QString("< 0.01"));
    QCOMPARE(probability_text(0.874), QString("0.87"));
    window_->showPage("planner");
    PlannerPage& page = window_->plannerPage();
    int column = 0;
    while (page.entries().headerData(column, Qt::Horizontal, Qt::DisplayRole) != "p better") {
      QVERIFY(++column < page.entries().columnCount());
    }
    for (int row = 0; row < page.entries().rowCount(); ++row) {
      const PlanEntry& entry = *page.entries().entryAt(row);
      QCOMPARE(cell(page.entries(), row, column), entry.baseline == "fixed"
                                                      ? QString(QChar(kAbsent))
                                                      : probability_text(entry.beats_baseline));
    }
  }

  // "plan" with the form vLLM was an error; with "plan.json" left standing it became JSON.
  void aNameWithoutEndingGetsThatOfTheChosenForm() {
    QCOMPARE(ending_of("vLLM, longest contexts (*.vllm.yaml)"), QString("vllm.yaml"));
    PlannerPage& page = window_->plannerPage();
    QSignalSpy written(&page, &PlannerPage::written);
    const QString folder = folder_.filePath("exports");
    QVERIFY(QDir().mkpath(folder));
    QTimer::singleShot(0, &page, [&folder] {
      QFileDialog* dialog = qobject_cast<QFileDialog*>(QApplication::activeModalWidget());
      QVERIFY(dialog != nullptr);
      dialog->setDirectory(folder);
      for (const QString& filter : dialog->nameFilters()) {
        if (filter.contains("vllm")) {
          dialog->selectNameFilter(filter);
          Q_EMIT dialog->filterSelected(filter);
        }
      }
      dialog->findChild<QLineEdit*>("fileNameEdit")->setText("mine");
      dialog->findChild<QDialogButtonBox*>()->button(QDialogButtonBox::Save)->click();
    });
    window_->findChild<QPushButton*>("export")->click();
    QCOMPARE(written.size(), 1);
    QCOMPARE(written.first().first().toString(), folder + "/mine.vllm.yaml");
    QVERIFY(QFile::exists(folder + "/mine.vllm.yaml"));
    QVERIFY(window_->statusBar()->currentMessage().contains("mine.vllm.yaml"));
  }

  void anExportReplacesAFileAndLeavesOthersAlone() {
    Planner& planner = window_->plannerPage().planner();
    const QString path = folder_.filePath("twice.csv");
    engine::write_file_atomically(path.toStdString(), "old");
    QCOMPARE(planner.exportTo(path), QString());
    QFile file(path);
    QVERIFY(file.open(QIODevice::ReadOnly) && file.readAll().size() > 1000);
    QVERIFY(planner.exportTo(folder_.path() + "/missing/plan.csv").contains("missing/plan.csv"));
    QVERIFY(QDir().mkpath(folder_.filePath("folder.csv")));
    QVERIFY(!planner.exportTo(folder_.filePath("folder.csv")).isEmpty());
    QVERIFY(QFileInfo(folder_.filePath("folder.csv")).isDir());
  }

  void aDraggedKnobShowsPlansAsItGoesAndEndsWhereItWasLeft() {
    window_->showPage("planner");
    PlannerPage& page = window_->plannerPage();
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

  void theValidationPageHasARowASystem() {
    window_->showPage("validation");
    ValidationPage& page = window_->validationPage();
    QTRY_VERIFY_WITH_TIMEOUT(!page.plots().empty(), kWaitMs);
    const PlanPtr held = window_->plannerPage().planner().plan();
    const engine::FitReport& fit = *held->fit;
    QVERIFY(fit.systems.size() >= 5);
    QCOMPARE(page.systems().rowCount(), static_cast<int>(fit.systems.size()) + 1);
    QVERIFY(window_->grab().save(folder_.filePath("systems.png")));
  }
};

VERSIEVE_GUI_TEST(PlannerRankingTest)
#include "planner_ranking_test.moc"
