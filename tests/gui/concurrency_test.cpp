// Plans of several requests at once, by mouse and keyboard: typed, shown by contexts and by
// requests, where drafts stop paying, exported as the command writes it, undone, kept in a session.
#include <QComboBox>
#include <QDir>
#include <QFile>
#include <QLineEdit>
#include <QMenu>
#include <QPushButton>
#include <QTabWidget>
#include <QTableView>
#include <QTemporaryDir>
#include <QTest>
#include <QTextBrowser>
#include <QThreadPool>
#include <QToolButton>
#include <memory>

#include "gui/models/batch_text.h"
#include "gui/pages/planner_page.h"
#include "gui/views/number_knob.h"
#include "gui/views/objective_knobs.h"
#include "gui/views/scope_knobs.h"
#include "gui/views/switch_plot.h"
#include "gui/views/theme.h"
#include "tests/gui/run_command.h"
#include "tests/gui/test_main.h"
#include "tests/gui/ui_watch.h"
#include "tests/gui/window_case.h"

using namespace versieve;
using namespace versieve::gui;

class ConcurrencyTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir folder_;
  std::unique_ptr<Window> window_;

  PlannerPage& page() { return window_->plannerPage(); }
  const Planner& planner() { return page().planner(); }
  bool planned() { return planner().plan() && !planner().isBusy(); }
  bool has_levels(int levels) {
    return planned() && level_count(planner().plan()->chosen) == levels;
  }
  static void type(QLineEdit& line, const QString& text) {
    line.setFocus();
    line.selectAll();
    QTest::keyClicks(&line, text);
    QTest::keyClick(&line, Qt::Key_Return);
  }
  QTabWidget& tabs() {
    return *qobject_cast<QTabWidget*>(
        page().findChild<QTextBrowser*>("strategyDetails")->parentWidget()->parentWidget());
  }
  QString details() { return page().findChild<QTextBrowser*>("strategyDetails")->toPlainText(); }

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
    QTRY_VERIFY_WITH_TIMEOUT(planned(), 10 * kWaitMs);
  }

  void cleanupTestCase() {
    window_.reset();
    QThreadPool::globalInstance()->waitForDone();
  }

  void whatIsNoNumberOfRequestsIsSaidAndChangesNothing() {
    QSignalSpy said(&page(), &PlannerPage::said);
    for (const char* wrong : {"4,2", "0", "1,512", "many"}) {
      type(page().scope().concurrency(), wrong);
      QVERIFY(!said.isEmpty());
      QVERIFY(said.back()[0].toString().startsWith("--concurrency takes"));
      QCOMPARE(page().scope().concurrency().text(), QString());
      said.clear();
    }
    QVERIFY(!page().slice().isVisible() && tabs().count() == 1);
  }

  void requestsAtOnceAreAnAxisOfTheGrid() {
    UiWatch watch;
    type(page().scope().concurrency(), "4, 16, 64");
    QTRY_VERIFY_WITH_TIMEOUT(has_levels(4), kWaitMs);
    QCOMPARE(page().scope().concurrency().text(), QString("1,4,16,64"));
    QVERIFY(page().scope().command().contains("--concurrency 1,4,16,64"));
    const PlanPtr kept = planner().plan();
    const PlanTable& table = kept->chosen;
    QVERIFY(page().slice().isVisible());
    QCOMPARE(page().slice().count(), 4 + static_cast<int>(table.buckets.size()));
    QTest::qWait(20);
    // All contexts of 64 requests.
    page().slice().setFocus();
    page().slice().setCurrentIndex(3);
    QTest::qWait(20);
    page().showCell(0, PrecisionClass::kStrict);  // which goes back to one request
    QCOMPARE(page().slice().currentIndex(), 0);
    QTest::qWait(20);
    page().slice().setCurrentIndex(3);
    QCOMPARE(page().grid().place(), (PlanPlace{3, 0}));
    QTest::qWait(20);
    const PlanEntry* first = page().entries().entryAt(0);
    QCOMPARE(first, best_of(table.batched[2], 0, PrecisionClass::kStrict));
    // Of the shown cell: break-even, loss, what a request sees, how many fit.
    const Speculation s = speculation_of(first->evaluation, *plain_of(table.batched[2], 0));
    const PlanEntries& entries = page().entries();
    QStringList row;
    for (int column = 0; column < entries.columnCount(); ++column) {
      row << entries.headerData(column, Qt::Horizontal, Qt::DisplayRole).toString() + "=" +
                 entries.index(0, column).data().toString();
    }
    QVERIFY2(row.contains("Even at, tokens=" + QString::number(s.break_even, 'f', 2)),
             qPrintable(row.join(' ')));
    QVERIFY(row.contains("p loses=" + probability_text(s.loses)));
    QVERIFY(details().contains("breaks even") && details().contains("64 requests"));
    QVERIFY(details().contains(QString::fromStdString(text_of(table.memory[0], 4096))));
    QVERIFY(details().contains("Launches of a step of 64 requests"));
    QVERIFY(page().grid().helpAt(page().grid().cellRect(0, 1).center()).contains("even at"));
    QTest::qWait(20);
    // All numbers of requests of the second range, walked by the keys.
    page().slice().setCurrentIndex(4 + 1);
    QCOMPARE(page().grid().place(), (PlanPlace{3, 1}));
    page().grid().setFocus();
    for (int level = 3; level > 0; --level) {
      QTest::qWait(20);
      QTest::keyClick(&page().grid(), Qt::Key_Left);
      QCOMPARE(page().grid().place(), (PlanPlace{level - 1, 1}));
      QCOMPARE(page().entries().entryAt(0),
               best_of(table_of(table, level - 1), 1, PrecisionClass::kStrict));
    }
    QTest::qWait(20);
    int marked = 0;
    for (const PlanTable* of : by_concurrency(table)) {
      marked += is_operating_point(table, *of, *best_of(*of, 1, PrecisionClass::kStrict));
    }
    QCOMPARE(marked, 1);
    QVERIFY(page().grid().savedRows().size() > 4 * 12);
    const double held = watch.longestMs();
    QVERIFY2(held <= UiWatch::kMostMs, qPrintable(QString::number(held)));
    keep_picture(*window_, "requests");
  }

  void whereDraftsStopPayingIsDrawn() {
    QCOMPARE(tabs().count(), 2);
    tabs().setCurrentIndex(1);
    SwitchPlot& plot = page().switches();
    QVERIFY(plot.isVisible());
    const PlanPtr held = planner().plan();
    const PlanTable& table = held->chosen;
    QVERIFY(!table.switches.empty());
    const SwitchPoint found = table.switches.front();
    const auto show_only = [this](PrecisionClass shown) {
      for (int i = 0; i < kPrecisionClassCount; ++i) {
        QToolButton& button = page().classButton(static_cast<PrecisionClass>(i));
        if (button.isChecked() != (static_cast<PrecisionClass>(i) == shown)) {
          button.click();
        }
      }
    };
    show_only(found.precision);
    QTest::qWait(20);
    const int row = static_cast<int>(found.bucket);
    const double at = plot.placeOf(static_cast<double>(found.requests));
    QVERIFY(at > plot.placeOf(1.0) && at < plot.placeOf(64.0));
    const QString help = plot.helpAt(plot.rowRect(row).center().toPoint());
    QVERIFY2(help.contains(switch_text(table, found)), qPrintable(help));
    QVERIFY(plot.accessibleDescription().contains(switch_text(table, found)));
    // What is left of the switch is drawn in another colour than what is right of it.
    const QImage picture = plot.grab().toImage();
    const qreal scale = picture.devicePixelRatio();
    const int y = static_cast<int>((plot.rowRect(row).top() + 8) * scale);
    QVERIFY(picture.pixelColor(static_cast<int>((at - 5) * scale), y) !=
            picture.pixelColor(static_cast<int>((at + 5) * scale), y));
    QCOMPARE(plot.savedRows().size(), qsizetype(table.switches.size()) + 1);
    keep_picture(*window_, "switches");
    show_only(PrecisionClass::kStrict);
    tabs().setCurrentIndex(0);
  }

  // A dragged knob plans all of them.
  void aTurnedBandwidthPlansEveryNumberOfRequests() {
    const PlanPtr before = planner().plan();
    page().setBandwidth(8.0);
    QTRY_VERIFY_WITH_TIMEOUT(planned() && planner().plan()->isTurned(), kWaitMs);
    const PlanPtr held = planner().plan();
    const PlanTable& table = held->chosen;
    QCOMPARE(level_count(table), 4);
    QVERIFY(best_of(table.batched[2], 0, PrecisionClass::kStrict)->evaluation.throughput >
            best_of(before->chosen.batched[2], 0, PrecisionClass::kStrict)->evaluation.throughput);
  }

  void theFieldIsUndoneAndKeptInASession() {
    const QString path = folder_.filePath("many.vsession");
    window_->saveSession(path);
    window_->findChild<QPushButton*>("asMeasured")->click();
    QTRY_VERIFY_WITH_TIMEOUT(has_levels(1), kWaitMs);
    QVERIFY(tabs().count() == 1 && !page().slice().isVisible());
    type(page().scope().concurrency(), "1,8");
    QTRY_VERIFY_WITH_TIMEOUT(has_levels(2), kWaitMs);
    QTest::keyClick(window_.get(), Qt::Key_Z, Qt::ControlModifier);
    QTRY_VERIFY_WITH_TIMEOUT(has_levels(1), kWaitMs);
    QCOMPARE(page().scope().concurrency().text(), QString());
    QTest::keyClick(window_.get(), Qt::Key_Z, Qt::ControlModifier | Qt::ShiftModifier);
    QTRY_VERIFY_WITH_TIMEOUT(has_levels(2), kWaitMs);
    window_->openPath(path);
    QTRY_VERIFY_WITH_TIMEOUT(has_levels(4), kWaitMs);
    QTRY_COMPARE_WITH_TIMEOUT(page().slice().currentText(), QString("4K – 8K by requests"),
                              kWaitMs);
    QCOMPARE(page().scope().concurrency().text(), QString("1,4,16,64"));
  }

  // Points of a geometry reach 256K; a pair has its positions.
  void rangesAsFarAsThePointsReachAreOffered() {
    window_->findChild<QPushButton*>("asMeasured")->click();
    QTRY_VERIFY_WITH_TIMEOUT(has_levels(1), kWaitMs);
    page().more().setChecked(true);
    QVERIFY(planner().longerContexts().empty() && !page().scope().longer().isVisible());
    page().model().setCurrentIndex(page().model().findData("nsa-1b"));
    Q_EMIT page().model().activated(page().model().currentIndex());
    QTRY_VERIFY_WITH_TIMEOUT(planned() && planner().plan()->chosen.model == "nsa-1b", kWaitMs);
    const std::vector<std::int64_t> longer = planner().longerContexts();
    QVERIFY(longer.size() >= 3 && longer.front() == 32768);
    QVERIFY(page().scope().longer().isVisible());
    const QList<QAction*> ranges = page().scope().longer().menu()->actions();
    QCOMPARE(ranges.size(), static_cast<qsizetype>(longer.size()));
    ranges.back()->trigger();
    QTRY_VERIFY_WITH_TIMEOUT(
        planned() && planner().plan()->chosen.buckets.back().high == longer.back(), kWaitMs);
    const int columns = 4 + static_cast<int>(longer.size());
    QCOMPARE(static_cast<int>(planner().plan()->chosen.buckets.size()), columns);
    // Cells stay as wide as their texts need; the last one is moved into sight by its key.
    PlanGrid& grid = page().grid();
    QVERIFY(grid.cellRect(0, 0).width() >= 120);
    grid.select(0, 1);
    for (int key = 1; key < columns; ++key) {
      QTest::keyClick(&grid, Qt::Key_Right);
    }
    QCOMPARE(grid.place(), (PlanPlace{0, columns - 1}));
    QVERIFY(grid.visibleRegion().contains(grid.cellRect(columns - 1, 1).center()));
    QVERIFY(page().entries().rowCount() > 1);
    page().model().setCurrentIndex(0);
    Q_EMIT page().model().activated(0);
    page().more().setChecked(false);
    QTRY_VERIFY_WITH_TIMEOUT(planned() && planner().plan()->chosen.model != "nsa-1b", kWaitMs);
  }

  void whatIsExportedIsWhatTheCommandWrites() {
    window_->findChild<QPushButton*>("asMeasured")->click();
    QTRY_VERIFY_WITH_TIMEOUT(has_levels(1), kWaitMs);
    page().more().setChecked(true);
    type(page().scope().buckets(), "4096-8192");
    type(page().scope().concurrency(), "1,16");
    QTRY_VERIFY_WITH_TIMEOUT(has_levels(2), kWaitMs);
    const PlanPtr held = planner().plan();
    const PlanTable& all = held->chosen;
    const std::size_t listed = all.batched[0].entries.size();
    const PlanEntry& middle = *entries_of(all.batched[0], 0, {PrecisionClass::kStrict})[5];
    const double bound =
        std::ceil(100.0 * inter_token_interval_ms(middle.evaluation, 16).high) / 100.0;
    page().scope().objective().choose(ObjectiveKnobs::kLatency);
    type(*page().scope().objective().bound().findChild<QLineEdit*>(), QString::number(bound));
    QTRY_VERIFY_WITH_TIMEOUT(planned() && planner().plan()->chosen.aims.itl_ms == bound, kWaitMs);
    QVERIFY(planner().plan()->chosen.batched[0].entries.size() < listed);
    const QString exported = folder_.filePath("many.json");
    const QString commanded = folder_.filePath("many-command.json");
    QCOMPARE(page().planner().exportTo(exported), QString());
    const QString line = planner().commandLine(commanded);
    QVERIFY2(line.contains("--concurrency 1,16 --objective latency --itl-ms"), qPrintable(line));
    QCOMPARE(run_command(line), QString());
    QVERIFY(bytes_of(exported).size() > 10'000);
    QVERIFY2(bytes_of(exported) == bytes_of(commanded), qPrintable(line));
    page().more().setChecked(false);
  }

  // An answer and no table, in the app as by the command.
  void aBoundThatNothingKeepsIsExportedByNeither() {
    PlanScope scope = planner().scope();
    scope.itl_ms = 0.001;
    page().planner().setScope(scope);
    QTRY_VERIFY_WITH_TIMEOUT(planned() && planner().plan()->chosen.aims.itl_ms == 0.001, kWaitMs);
    QVERIFY(planner().plan()->chosen.entries.empty());
    const QString exported = folder_.filePath("none.json");
    const QString commanded = folder_.filePath("none-command.json");
    const QString why = planner().exportTo(exported);
    QVERIFY2(why.startsWith("no tuple keeps 0.001 ms between tokens"), qPrintable(why));
    QCOMPARE(run_command(planner().commandLine(commanded)).trimmed(), "versieve: " + why);
    QVERIFY(!QFile::exists(exported) && !QFile::exists(commanded));
  }

  // More requests than drafts have memory for: plain decoding with reused layers is left of them.
  void whatDoesNotFitIsLeftOutAsTheCommandDoes() {
    window_->findChild<QPushButton*>("asMeasured")->click();
    QTRY_VERIFY_WITH_TIMEOUT(has_levels(1), kWaitMs);
    page().planner().setScope({.buckets = "0-8192", .concurrency = "256"});
    QTRY_VERIFY_WITH_TIMEOUT(has_levels(2), kWaitMs);
    const PlanPtr held = planner().plan();
    const std::vector<const PlanEntry*> reuse =
        entries_of(held->chosen.batched[0], 0, {PrecisionClass::kReuseOnly});
    QVERIFY(reuse.size() > 1 && !reuse.front()->evaluation.strategy.draft.speculates());
    const QString exported = folder_.filePath("full.json");
    const QString commanded = folder_.filePath("full-command.json");
    QCOMPARE(planner().exportTo(exported), QString());
    QCOMPARE(run_command(planner().commandLine(commanded)), QString());
    QVERIFY(bytes_of(exported) == bytes_of(commanded));
  }

  // Two of seven requests of that geometry lie within a thousandth, and what is like the one that
  // is not listed is listed.
  void closeRivalsAreListedAsTheCommandDoes() {
    Planner& turned = page().planner();
    turned.setModel("demo");
    QTRY_VERIFY_WITH_TIMEOUT(planned() && planner().plan()->chosen.model == "demo", kWaitMs);
    for (int i = 1; i < kPrecisionClassCount; ++i) {
      turned.setShown(static_cast<PrecisionClass>(i), false);
    }
    turned.setScope({.buckets = "0-8192", .concurrency = "1,7"});
    QTRY_VERIFY_WITH_TIMEOUT(has_levels(2), kWaitMs);
    turned.setBandwidth(2.0);
    QTRY_VERIFY_WITH_TIMEOUT(planned() && planner().plan()->isTurned(), kWaitMs);
    const QString exported = folder_.filePath("rivals.json");
    const QString commanded = folder_.filePath("rivals-command.json");
    QCOMPARE(planner().exportTo(exported), QString());
    QCOMPARE(run_command(planner().commandLine(commanded)), QString());
    QVERIFY(bytes_of(exported) == bytes_of(commanded));
  }

  // All numbers are seen that are planned for.
  void theFieldIsAsWideAsItsNumbers() {
    QLineEdit& field = page().scope().concurrency();
    const int usual = field.width();
    page().planner().setScope({.buckets = "4096-8192", .concurrency = "1,2,4,8,16,32,64,128"});
    QTRY_VERIFY_WITH_TIMEOUT(has_levels(8), kWaitMs);
    QCOMPARE(field.text(), QString("1,2,4,8,16,32,64,128"));
    QTRY_VERIFY_WITH_TIMEOUT(field.width() > usual, kWaitMs);
    QVERIFY(field.width() > field.fontMetrics().horizontalAdvance(field.text()));
    QCOMPARE(field.cursorPosition(), 0);
  }
};

VERSIEVE_GUI_TEST(ConcurrencyTest)
#include "concurrency_test.moc"
