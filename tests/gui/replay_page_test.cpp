// The page of replays: what the engine played stands there, again for each plan, and what could not
// be played is said.
#include <QComboBox>
#include <QFile>
#include <QLabel>
#include <QTableView>
#include <QTemporaryDir>
#include <QTest>
#include <QTextBrowser>
#include <QThreadPool>
#include <memory>
#include <set>

#include "engine/measure/sweep/sweep.h"
#include "gui/models/numbers.h"
#include "gui/pages/planner_page.h"
#include "gui/pages/replay_page.h"
#include "gui/views/theme.h"
#include "tests/gui/test_main.h"
#include "tests/gui/ui_watch.h"
#include "tests/gui/window_case.h"

using namespace versieve;
using namespace versieve::gui;

namespace {

PointMeasurement walk_of(const Strategy& strategy, const PlanTable& table,
                         const ContextBucket& bucket, std::size_t number) {
  PointMeasurement point = test::made_up_acceptance(bucket.high, "code", strategy.draft.nodes);
  point.key.model = table.acceptance_pair;
  point.key.split = "test";
  point.key.strategy = strategy.text();
  const std::int64_t yield = strategy.draft.nodes > 100 ? 3 : 3 + static_cast<int>(number % 3);
  point.acceptance->walks = {{"a@0", std::vector<std::int64_t>(60, yield)}};
  return point;
}

// Of the strict cells of all ranges but the last, and of the reusing one of the first.
void record_walks(const QString& path, const PlanTable& table) {
  db::Store store = db::Store::open(path.toStdString(), db::OpenMode::kCreateOrOpen);
  const std::int64_t run = store.begin_run(test::sample_run("walks"));
  std::set<std::string> recorded;
  for (std::size_t bucket = 0; bucket + 1 < table.buckets.size(); ++bucket) {
    for (const PrecisionClass precision : {PrecisionClass::kStrict, PrecisionClass::kReuseOnly}) {
      if (precision == PrecisionClass::kReuseOnly && bucket > 0) {
        continue;
      }
      const engine::Cell cell =
          engine::cell_of(table, static_cast<std::int64_t>(bucket), precision);
      for (const engine::Choice& choice : cell.needed()) {
        const std::string key = std::to_string(bucket) + engine::walk_key(choice.strategy);
        if (choice.strategy.draft.speculates() && recorded.insert(key).second) {
          store.add_point(run,
                          walk_of(choice.strategy, table, table.buckets[bucket], recorded.size()));
        }
      }
    }
  }
  store.finish_run(run, RunStatus::kComplete);
}

}  // namespace

class ReplayPageTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir folder_;
  QString campaign_;
  std::unique_ptr<Window> window_;
  std::unique_ptr<UiWatch> watch_;

  bool settled() {
    Replayer& replayer = window_->replayPage().replayer();
    return QTest::qWaitFor(
        [&replayer] {
          return !replayer.isBusy() && (replayer.replayed() || !replayer.sentence().isEmpty());
        },
        kWaitMs);
  }

 private Q_SLOTS:
  void initTestCase() {
    theme::apply(*qApp);
    campaign_ = folder_.filePath("campaign.db");
    write_synthetic_campaign(campaign_, false);
    window_ = std::make_unique<Window>();
    window_->show();
  }

  void init() { watch_ = std::make_unique<UiWatch>(); }

  // Nothing of what was done held the window.
  void cleanup() {
    const double held = watch_->longestMs();
    qInfo("longest stretch of the UI thread %.1f ms", held);
    QVERIFY2(held <= UiWatch::kMostMs, qPrintable(QString::number(held)));
    watch_.reset();
  }

  void cleanupTestCase() {
    window_.reset();
    job_pool().waitForDone();
  }

  void withoutWalksThePageSaysHowTheyAreRecorded() {
    QVERIFY(open(*window_, campaign_));
    window_->showPage("replay");
    QVERIFY(settled());
    const QLabel* message = window_->findChild<QLabel*>("replayMessage");
    QVERIFY(message->isVisible());
    QVERIFY2(message->text().contains("Record what is missing"), qPrintable(message->text()));
    const QString sweep = folder_.filePath("walks.json");
    QCOMPARE(window_->replayPage().replayer().writeMissingWalks(sweep), QString());
    QFile file(sweep);
    QVERIFY(file.open(QIODevice::ReadOnly));
    const std::string text = file.readAll().toStdString();
    QVERIFY(!engine::sweep_from_json(text, "walks.json", Backend::kCpu).points.empty());
    QVERIFY(window_->replayPage()
                .replayer()
                .writeMissingWalks("/nowhere/walks.json")
                .contains("/nowhere/walks.json"));
    record_walks(campaign_, window_->plannerPage().planner().plan()->chosen);
  }

  void theCellsThatWerePlayedStandThereAsTheEngineSaysThem() {
    QVERIFY(open(*window_, campaign_));
    window_->showPage("replay");
    QVERIFY(settled());
    ReplayPage& page = window_->replayPage();
    const Replayed& replayed = *page.replayer().replayed();
    const engine::Replay again = engine::replay(replayed.plan->chosen, *replayed.walks,
                                                {.guard = replayed.plan->chosen.guard});
    QCOMPARE(again.rows.size(), std::size_t{4});
    int played = 0, gaps = 0;
    for (int row = 0; row < page.rows().rowCount(); ++row) {
      const ReplayTable::Line line = page.rows().lineAt(row);
      if (line.played == nullptr) {
        QVERIFY(cell(page.rows(), row, ReplayTable::gainColumn()).contains("no walk of"));
        QCOMPARE(cell(page.rows(), row, 5), QString(QChar(kAbsent)));
        ++gaps;
        continue;
      }
      const engine::ReplayRow& expected = again.rows[static_cast<std::size_t>(played++)];
      QCOMPARE(line.played->static_best, expected.static_best);
      QCOMPARE(line.played->best_r.throughput, expected.best_r.throughput);
      QCOMPARE(cell(page.rows(), row, 5), fixed(expected.base, 0));
      QVERIFY(cell(page.rows(), row, 6).endsWith(gain_text(expected.static_best, expected.base)));
    }
    QCOMPARE(played, 4);
    QVERIFY(gaps >= 3);  // strict at the longest contexts, reusing at all but the shortest
    QVERIFY(whole_classes_text(replayed).contains("Sparse"));
    QVERIFY(replay_row_html(replayed, again.rows.front()).contains(" of it"));
    QVERIFY(replay_summary(replayed).contains("(the first in 4 of them)"));
    engine::ReplayRow behind = again.rows.front();
    behind.rank = 2;
    behind.passed_over = {behind.choices.front()};
    const QString told = replay_row_html(replayed, behind);
    QVERIFY(told.contains("passed over") && told.contains("rank 2"));
    QVERIFY(window_->grab().save(folder_.filePath("replay.png")));
    watch_->begin();  // the test itself replayed
  }

  void theSelectedCellIsToldInFullAndOpensInThePlanner() {
    ReplayPage& page = window_->replayPage();
    QVERIFY(settled());
    const QTextBrowser* details = page.findChild<QTextBrowser*>();
    for (int row = 0; row < page.rows().rowCount(); ++row) {
      page.table().selectRow(row);
      const bool is_played = page.rows().lineAt(row).played != nullptr;
      QVERIFY(details->toPlainText().contains(is_played ? "may move to" : "Not played"));
    }
    const auto [bucket, precision] = page.rows().cellAt(2);
    Q_EMIT page.table().activated(page.rows().index(2, 0));
    QVERIFY(window_->plannerPage().isVisible());
    QCOMPARE(window_->plannerPage().grid().bucket(), static_cast<int>(bucket));
    QCOMPARE(window_->plannerPage().grid().selectedClasses(), std::vector{precision});
    window_->showPage("replay");
  }

  void eachTurnOfTheKnobIsPlayedAgain() {
    ReplayPage& page = window_->replayPage();
    QVERIFY(settled());
    const ReplayedPtr before = page.replayer().replayed();
    window_->plannerPage().setBandwidth(8.0);
    QVERIFY(settled());
    const PlanPtr& plan = window_->plannerPage().planner().plan();
    QVERIFY(plan->chosen.hardware != before->plan->chosen.hardware);
    const ReplayedPtr& after = page.replayer().replayed();
    QCOMPARE(after->plan, plan);
    QCOMPARE(after->walks, before->walks);  // not read again
    window_->plannerPage().setBandwidth(4.92);
    QVERIFY(settled());
  }

  void otherTextsAreOtherRequests() {
    ReplayPage& page = window_->replayPage();
    page.texts().setCurrentIndex(page.texts().findData("prose"));
    QVERIFY(settled());
    QVERIFY(page.replayer().replayed()->replay.rows.empty());
    QVERIFY(window_->findChild<QLabel*>("replayMessage")->text().contains("Nothing can be played"));
    page.texts().setCurrentIndex(page.texts().findData("code"));
    QVERIFY(settled());
    QCOMPARE(page.replayer().replayed()->replay.rows.size(), std::size_t{4});
    page.texts().setCurrentIndex(0);
    QVERIFY(settled());
  }

  void aDatabaseThatCannotBePlannedForSaysWhy() {
    const QString path = folder_.filePath("imported.db");
    test::write_imported(path.toStdString());
    QVERIFY(open(*window_, path));
    QVERIFY(settled());
    const QString text = window_->findChild<QLabel*>("replayMessage")->text();
    QVERIFY2(text.contains("no timed point") && text.contains("1 imported"), qPrintable(text));
    QVERIFY(!text.contains("Record"));
  }
};

VERSIEVE_GUI_TEST(ReplayPageTest)
#include "replay_page_test.moc"
