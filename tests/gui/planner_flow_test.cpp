// Which tuple for my GPU? By mouse and keyboard, from the shipped database to a file that is read
// back, while nothing holds the window for longer than a moment; and the same range ranked on
// three machines side by side.
#include <QAbstractItemView>
#include <QAction>
#include <QComboBox>
#include <QDir>
#include <QElapsedTimer>
#include <QFile>
#include <QFileDialog>
#include <QPushButton>
#include <QTableView>
#include <QTemporaryDir>
#include <QTest>
#include <QTextBrowser>
#include <QThreadPool>
#include <QTimer>
#include <QToolButton>
#include <memory>
#include <set>

#include "engine/analyse/plan/table_file.h"
#include "gui/models/numbers.h"
#include "gui/pages/planner_page.h"
#include "gui/views/theme.h"
#include "tests/gui/test_main.h"
#include "tests/gui/ui_watch.h"
#include "tests/gui/window_case.h"

using namespace versieve;
using namespace versieve::gui;

class PlannerFlowTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir folder_;
  std::unique_ptr<Window> window_;

  PlannerPage& page() { return window_->plannerPage(); }
  Planner& planner() { return page().planner(); }
  MachineRanks& ranks() { return page().machineRanks(); }
  bool planned() { return planner().plan() && !planner().isBusy(); }
  bool compared(int machines) {
    return planned() && !ranks().isBusy() && ranks().machineCount() == machines;
  }
  static void choose(QComboBox& box, const QString& key) {
    const int index = box.findText(QString::fromStdString(hardware_by_key(key.toStdString()).name));
    QVERIFY(index > 0);
    box.setFocus();
    box.setCurrentIndex(index);
  }

  // What a hand needs, by the keystroke-level model (Card, Moran, Newell 1980).
  struct Hand {
    static constexpr double kThink = 1.35, kPoint = 1.1, kClick = 0.2, kHome = 0.4, kKey = 0.28;
    double seconds = 0.0;
    int steps = 0;

    void click(QWidget& widget, const QPoint& at) {
      seconds += kThink + kPoint + kClick;
      steps += 1;
      QTest::mouseClick(&widget, Qt::LeftButton, {}, at);
    }
    void click(QWidget& widget) { click(widget, widget.rect().center()); }
    void typed(const QString& text) {  // and Enter
      seconds += kThink + kHome + kKey * static_cast<double>(text.size() + 1);
      steps += 1;
    }
  };

 private Q_SLOTS:
  void initTestCase() {
    theme::apply(*qApp);
    QVERIFY(copy_shipped("h100.db", folder_));
    QVERIFY(QDir::setCurrent(folder_.path()));  // names in pictures are short, then
  }

  void init() {
    window_ = std::make_unique<Window>();
    window_->resize(1280, 860);
    window_->show();
    QVERIFY(QTest::qWaitForWindowExposed(window_.get()));
  }

  void cleanup() {
    window_.reset();
    job_pool().waitForDone();
  }

  // Every widget of every page was styled anew, 150 ms together.
  void aChangeOfColoursHoldsNothingUp() {
    QVERIFY(open(*window_, "h100.db"));
    QAction* const dark = window_->findChild<QAction*>("view.dark");
    QAction* const contrast = window_->findChild<QAction*>("view.contrast");
    QVERIFY(dark != nullptr && contrast != nullptr);
    double longest = 0.0;
    for (const QString& name : Window::pageNames()) {
      QVERIFY(window_->showPage(name));
      QTRY_VERIFY_WITH_TIMEOUT(!planner().isBusy() && job_pool().activeThreadCount() == 0,
                               10 * kWaitMs);
      QTest::qWait(50);
      UiWatch watch;
      for (QAction* turned : {dark, contrast, dark, contrast}) {
        turned->trigger();
        QTest::qWait(30);
      }
      qInfo("%s: longest stretch of a change of colours %.1f ms", qPrintable(name),
            watch.longestMs());
      longest = std::max(longest, watch.longestMs());
    }
    QVERIFY2(longest <= UiWatch::kMostMs, qPrintable(QString::number(longest)));
  }

  void whichTupleForMyGpu() {
    UiWatch watch;
    QVERIFY(open(*window_, "h100.db"));
    QTest::qWait(20);  // a person turns to the page after it is there
    QVERIFY(window_->showPage("planner"));
    QTRY_VERIFY_WITH_TIMEOUT(planned(), 10 * kWaitMs);
    page().maxLoss().setFocus();
    QTest::keyClick(&page().maxLoss(), Qt::Key_Up);
    QTRY_VERIFY_WITH_TIMEOUT(planned() && planner().plan()->chosen.max_loss, kWaitMs);
    for (int key = 0; key < 4; ++key) {
      QTest::keyClick(&page().bandwidth(), Qt::Key_Right);
      QTest::qWait(20);
    }
    QTRY_VERIFY_WITH_TIMEOUT(planned() && planner().plan()->isTurned(), kWaitMs);
    for (const Qt::Key key : {Qt::Key_Down, Qt::Key_Right}) {  // one after the other, as people do
      QTest::keyClick(&page().grid(), key);
      QTest::qWait(20);
    }
    QTableView* table = page().findChild<QTableView*>("entries");
    QTest::mouseClick(table->viewport(), Qt::LeftButton, {},
                      table->visualRect(table->model()->index(1, 2)).center());
    QTest::qWait(50);
    const QString told = page().findChild<QTextBrowser*>("strategyDetails")->toPlainText();
    QVERIFY2(told.contains("this one yields") && told.contains("the 90 % intervals"),
             qPrintable(told));
    keep_picture(*window_, "planner");
    watch.begin();
    choose(page().beside(0), "h200-sxm");
    QTest::qWait(20);
    QTRY_VERIFY_WITH_TIMEOUT(compared(2), kWaitMs);
    QAction* const dark = window_->findChild<QAction*>("view.dark");
    for (int turn = 0; turn < 2; ++turn) {
      dark->trigger();
      QTest::qWait(100);
    }
    const double held = watch.longestMs();
    qInfo("longest stretch of the UI thread in the planner's flow %.1f ms", held);
    QVERIFY2(held <= UiWatch::kMostMs, qPrintable(QString::number(held)));
    const QString path = folder_.filePath("mine.json");
    QTimer::singleShot(0, this, [&path] {
      QFileDialog* dialog = qobject_cast<QFileDialog*>(QApplication::activeModalWidget());
      QVERIFY(dialog != nullptr);
      dialog->selectFile(path);
      QMetaObject::invokeMethod(dialog, "accept");
    });
    QTest::mouseClick(window_->findChild<QPushButton*>("export"), Qt::LeftButton);
    QTRY_VERIFY_WITH_TIMEOUT(QFile::exists(path), kWaitMs);
    const PlanTable back = engine::read_plan_table(path.toStdString());
    const PlanPtr kept = planner().plan();
    const PlanTable& shown = kept->chosen;
    QCOMPARE(back.hardware, shown.hardware);
    QCOMPARE(back.entries.front().evaluation.strategy.text(),
             shown.entries.front().evaluation.strategy.text());
  }

  // From the last line of `./run`, which names the command and whose fit is kept: nothing is read
  // first but what the controls say.
  void aNewcomerHasATableOfAnotherMachineInTwoMinutes() {
    constexpr double kStart = 10.0, kLook = 20.0;  // copying the line; looking the page over
    QElapsedTimer clock;
    clock.start();
    Hand hand;
    QVERIFY(open(*window_, "h100.db"));
    QVERIFY(window_->showPage("planner"));  // as main does where a fit is kept
    QTRY_VERIFY_WITH_TIMEOUT(planned(), 10 * kWaitMs);
    QComboBox& machines = page().hardware();
    hand.click(machines);
    QTRY_VERIFY_WITH_TIMEOUT(machines.view()->isVisible(), kWaitMs);
    const int mine = machines.findText(QString::fromStdString(hardware_by_key("rtx4090").name));
    QVERIFY(mine > 0);
    const QModelIndex item = machines.model()->index(mine, 0);
    machines.view()->scrollTo(item);
    // A popup takes no click within that interval of its opening.
    QTest::qWait(2 * QApplication::doubleClickInterval());
    hand.click(*machines.view()->viewport(), machines.view()->visualRect(item).center());
    QTRY_VERIFY_WITH_TIMEOUT(planned() && planner().plan()->chosen.hardware == "rtx4090", kWaitMs);
    const QString path = folder_.filePath("my-machine.json");
    QTimer::singleShot(0, this, [&] {
      QFileDialog* dialog = qobject_cast<QFileDialog*>(QApplication::activeModalWidget());
      QVERIFY(dialog != nullptr);
      dialog->selectFile(path);
      hand.typed("my-machine");
      QMetaObject::invokeMethod(dialog, "accept");
    });
    hand.click(*window_->findChild<QPushButton*>("export"));
    QTRY_VERIFY_WITH_TIMEOUT(QFile::exists(path), kWaitMs);
    QCOMPARE(engine::read_plan_table(path.toStdString()).hardware, std::string("rtx4090"));
    const double waited = 1e-3 * static_cast<double>(clock.elapsed());
    const double seconds = kStart + kLook + hand.seconds + waited;
    qInfo("%d steps, %.0f s by hand, %.1f s by the program, %.0f s in all", hand.steps,
          kStart + kLook + hand.seconds, waited, seconds);
    QVERIFY(hand.steps <= 4);
    QVERIFY(seconds < 120.0);
  }

  void threeMachinesAreRankedInOneTable() {
    watch_models(*window_);
    QVERIFY(open(*window_, "h100.db"));
    QVERIFY(window_->showPage("planner"));
    QTRY_VERIFY_WITH_TIMEOUT(planned(), 10 * kWaitMs);
    QTableView* one = page().findChild<QTableView*>("entries");
    QTableView* several = page().findChild<QTableView*>("machineRanks");
    QVERIFY(one->isVisible() && !several->isVisible());
    choose(page().beside(0), "b200");
    choose(page().beside(1), "l40s");
    QTRY_VERIFY_WITH_TIMEOUT(compared(3), kWaitMs);
    QVERIFY(!one->isVisible() && several->isVisible());
    QCOMPARE(ranks().columnCount(), 2 + 3 * 3);
    QCOMPARE(ranks().tableOf(1).hardware, std::string("b200"));
    QVERIFY(ranks().headerData(2 + 6, Qt::Horizontal, Qt::DisplayRole).toString().contains("l40s"));
    // Every entry of each machine has its row, with its own rank and number there.
    for (int machine = 0; machine < 3; ++machine) {
      const std::vector<const PlanEntry*> entries = entries_of(
          ranks().tableOf(machine), page().grid().bucket(), page().grid().selectedClasses());
      std::set<int> ranked;
      for (int row = 0; row < ranks().rowCount(); ++row) {
        if (const PlanEntry* entry = ranks().entryAt(row, machine)) {
          QCOMPARE(QString::fromStdString(entry->evaluation.strategy.text()),
                   ranks().strategyAt(row));
          ranked.insert(ranks().rankText(row, machine).section(' ', 0, 0).toInt());
        } else {
          QCOMPARE(ranks().rankText(row, machine), QString(QChar(kAbsent)));
        }
      }
      QCOMPARE(ranked.size(), entries.size());
      QCOMPARE(*ranked.rbegin(), static_cast<int>(entries.size()));
    }
    // A machine of its own is planned as the planner plans it, and is no longer beside itself.
    const std::string fastest = ranks().tableOf(1).entries.front().evaluation.strategy.text();
    choose(page().hardware(), "b200");
    QTRY_VERIFY_WITH_TIMEOUT(planned() && planner().plan()->chosen.hardware == "b200", kWaitMs);
    QTRY_VERIFY_WITH_TIMEOUT(compared(2), kWaitMs);
    QCOMPARE(planner().plan()->chosen.entries.front().evaluation.strategy.text(), fastest);
    QCOMPARE(page().beside(0).currentIndex(), 0);
    const int own = page().beside(1).findText(page().hardware().currentText());
    QVERIFY(!(page().beside(1).model()->index(own, 0).flags() & Qt::ItemIsEnabled));
    QCOMPARE(ranks().tableOf(1).hardware, std::string("l40s"));
    // The keys walk the table, and what is walked to is told.
    several->setFocus();
    QTest::keyClick(several, Qt::Key_Down);
    QTest::keyClick(several, Qt::Key_Down);
    QVERIFY(page()
                .findChild<QTextBrowser*>("strategyDetails")
                ->toPlainText()
                .contains(ranks().strategyAt(several->currentIndex().row())));
    keep_picture(*window_, "machines");
    window_->findChild<QPushButton*>("asMeasured")->click();
    QVERIFY(one->isVisible() && !several->isVisible());
    QCOMPARE(ranks().rowCount(), 0);
  }
};

VERSIEVE_GUI_TEST(PlannerFlowTest)
#include "planner_flow_test.moc"
