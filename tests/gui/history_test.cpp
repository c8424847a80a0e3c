// Everything that is set can be taken back and set again, and a window can be left and found as it
// was: by a session in a file, or by the last one.
#include <QCheckBox>
#include <QComboBox>
#include <QFile>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QMenu>
#include <QSlider>
#include <QTabWidget>
#include <QTableView>
#include <QTemporaryDir>
#include <QTest>
#include <QThreadPool>
#include <QToolButton>
#include <initializer_list>
#include <utility>

#include "gui/models/point_column.h"
#include "gui/models/preferences.h"
#include "gui/models/session.h"
#include "gui/pages/explore/explore_page.h"
#include "gui/pages/planner_page.h"
#include "gui/pages/points_page.h"
#include "gui/views/table_columns.h"
#include "gui/views/theme.h"
#include "model/words/error.h"
#include "tests/gui/database_case.h"
#include "tests/gui/test_main.h"

using namespace versieve;
using namespace versieve::gui;

class HistoryTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir folder_;
  QString sweep_;

  void show(Window& window, const QString& page) {
    window.show();
    window.showPage(page);
    window.activateWindow();
    QVERIFY(QTest::qWaitForWindowActive(&window));
  }
  void undo(Window& window) {
    window.activateWindow();
    QVERIFY(QTest::qWaitForWindowActive(&window));
    QTest::keyClick(&window, Qt::Key_Z, Qt::ControlModifier);
    QTest::qWait(1);
  }
  void redo(Window& window) {
    window.activateWindow();
    QVERIFY(QTest::qWaitForWindowActive(&window));
    QTest::keyClick(&window, Qt::Key_Z, Qt::ControlModifier | Qt::ShiftModifier);
    QTest::qWait(1);
  }
  // By the keyboard, as a user does.
  void turn(QWidget& widget, Qt::Key key) {
    widget.setFocus();
    QTest::keyClick(&widget, key);
    QTest::qWait(1);
  }

 private Q_SLOTS:
  void initTestCase() {
    theme::apply(*qApp);
    sweep_ = made_up_sweep_in(folder_);
  }
  void cleanupTestCase() { job_pool().waitForDone(); }

  void whatIsTypedIsOneStepAndTheLinesOwnUndoIsNotInTheWay() {
    Window window;
    show(window, "points");
    QVERIFY(open(window, sweep_));
    QLineEdit& line = window.pointsPage().filter().line();
    line.setFocus();
    QTest::keyClicks(&line, "N=64");
    QTest::qWait(1);
    QCOMPARE(window.history().stack().count(), 1);
    QCOMPARE(window.history().stack().undoText(), QString("filter"));
    undo(window);
    QCOMPARE(window.document().filterText(), QString());
    QCOMPARE(line.text(), QString());
    redo(window);
    QCOMPARE(line.text(), QString("N=64"));
    QVERIFY(!window.history().stack().canRedo());
  }

  void choicesSwitchesAndColumnsComeBack() {
    Window window;
    show(window, "explore");
    QVERIFY(open(window, sweep_));
    QComboBox* x = window.findChild<QComboBox*>("exploreX");
    QCheckBox* log = window.findChild<QCheckBox*>("exploreXLog");
    turn(*x, Qt::Key_Down);
    const int chosen = x->currentIndex();
    turn(*log, Qt::Key_Space);
    QVERIFY(!log->isChecked());
    undo(window);
    QVERIFY(log->isChecked());
    undo(window);
    QCOMPARE(x->currentIndex(), chosen - 1);
    QCOMPARE(window.explorePage().plot().scatter().xColumn(), x->currentData().toInt());
    redo(window);
    QCOMPARE(x->currentIndex(), chosen);
    // A column of the table, by the header's menu and the keyboard.
    window.findChild<QAction*>("points.columns")->trigger();
    QTableView& table = window.pointsPage().table();
    QMenu* menu = table.findChild<QMenu*>("columnMenu");
    QVERIFY(menu != nullptr && menu->isVisible());
    QTest::keyClick(menu, Qt::Key_Down);
    QTest::keyClick(menu, Qt::Key_Return);
    QTest::qWait(1);
    QVERIFY(table.isColumnHidden(0));
    undo(window);
    QVERIFY(!table.isColumnHidden(0));
    redo(window);
    QVERIFY(table.isColumnHidden(0));
  }

  void theBandwidthOfThePlannerIsTakenBackToo() {
    Window window;
    const QString path = folder_.filePath("campaign.db");
    write_synthetic_campaign(path, true);
    show(window, "planner");
    QVERIFY(open(window, path));
    Planner& planner = window.plannerPage().planner();
    QTRY_VERIFY_WITH_TIMEOUT(planner.plan() && !planner.isBusy(), kWaitMs);
    QSlider* bandwidth = &window.plannerPage().bandwidth();
    const int measured = bandwidth->value();
    turn(*bandwidth, Qt::Key_Right);
    QVERIFY(bandwidth->value() != measured);
    QTRY_VERIFY_WITH_TIMEOUT(!planner.isBusy(), kWaitMs);
    undo(window);
    QCOMPARE(bandwidth->value(), measured);
    QTRY_VERIFY_WITH_TIMEOUT(!planner.isBusy(), kWaitMs);
    QVERIFY(!window.history().stack().canUndo());
    // The measured machine again, not one of its figures of which nothing was measured.
    QVERIFY(!planner.bandwidth() && !planner.plan()->isTurned());
  }

  // The command that plans alike says all that a plan hangs on.
  void whatThePlannerPlansIsTakenBackWhole() {
    Window window;
    const QString path = folder_.filePath("whole.db");
    write_synthetic_campaign(path, true);
    show(window, "planner");
    QVERIFY(open(window, path));
    PlannerPage& page = window.plannerPage();
    Planner& planner = page.planner();
    const auto planned = [&] { return planner.plan() && !planner.isBusy(); };
    QTRY_VERIFY_WITH_TIMEOUT(planned(), kWaitMs);
    QTest::qWait(50);
    const QString before = planner.commandLine("plan.json");
    const PlanTable whole = planner.plan()->chosen;
    int turned = 0;
    for (const auto& [widget, key] : std::initializer_list<std::pair<QWidget*, Qt::Key>>{
             {&page.bandwidth(), Qt::Key_Right},
             {&page.typedBandwidth(), Qt::Key_Up},
             {&page.maxLoss(), Qt::Key_Up},
             {&page.hardware(), Qt::Key_Down},
             {&page.draftVocab(), Qt::Key_Down},
             {&page.classButton(PrecisionClass::kStrict), Qt::Key_Space}}) {
      if (!widget->isEnabled()) {
        continue;
      }
      turn(*widget, key);
      QTRY_VERIFY_WITH_TIMEOUT(planned(), kWaitMs);
      if (!window.history().stack().canUndo()) {
        continue;  // of one choice
      }
      turned += 1;
      QVERIFY2(planner.commandLine("plan.json") != before, qPrintable(widget->accessibleName()));
      undo(window);
      QTRY_VERIFY_WITH_TIMEOUT(planned(), kWaitMs);
      QCOMPARE(planner.commandLine("plan.json"), before);
      QCOMPARE(planner.plan()->chosen.hardware, whole.hardware);
      QCOMPARE(planner.plan()->chosen.provenance_note, whole.provenance_note);
      QVERIFY(planner.plan()->chosen.entries.front().evaluation.throughput ==
              whole.entries.front().evaluation.throughput);
    }
    QVERIFY2(turned >= 5, qPrintable(QString::number(turned)));
  }

  void anotherDatabaseHasNothingToTakeBack() {
    Window window;
    show(window, "points");
    QVERIFY(open(window, sweep_));
    QTest::keyClicks(&window.pointsPage().filter().line(), "N=64");
    QTest::qWait(1);
    QVERIFY(window.history().stack().canUndo());
    QVERIFY(open(window, sweep_));  // read again
    QVERIFY(window.history().stack().canUndo());
    const QString other = folder_.filePath("other.db");
    QVERIFY(QFile::copy(sweep_, other));
    QVERIFY(open(window, other));
    QVERIFY(!window.history().stack().canUndo());
  }

  void aSessionBringsTheWindowBack() {
    const QString path = folder_.filePath("mine.vsession");
    std::vector<int> axes = {column_index("time"), column_index("L"), column_index("N")};
    {
      Window window;
      show(window, "explore");
      QVERIFY(open(window, sweep_));
      window.document().setFilter("N>=16 source=measured");
      window.document().select(7);
      window.document().setBaseline(4);
      window.document().setPins({9, 3});
      window.explorePage().parallel().setColumns(axes);
      window.explorePage().plot().chooseX(column_index("N"));
      window.pointsPage().table().setColumnHidden(2, true);
      window.pointsPage().table().sortByColumn(column_index("time"), Qt::DescendingOrder);
      window.saveSession(path);
    }
    Window window;
    show(window, "runs");
    window.openPath(path);
    QTRY_VERIFY_WITH_TIMEOUT(window.document().snapshot(), kWaitMs);
    QCOMPARE(window.document().filterText(), QString("N>=16 source=measured"));
    QCOMPARE(window.document().selected(), 7);
    QCOMPARE(window.document().baseline(), 4);
    QCOMPARE(window.document().pins(), (std::vector<int>{9, 3}));
    QCOMPARE(window.explorePage().parallel().columns(), axes);
    QCOMPARE(window.explorePage().plot().scatter().xColumn(), column_index("N"));
    QVERIFY(window.pointsPage().table().isColumnHidden(2));
    QCOMPARE(window.pointsPage().table().horizontalHeader()->sortIndicatorSection(),
             column_index("time"));
    QCOMPARE(window.findChild<QTabWidget*>()->currentIndex(),
             static_cast<int>(Window::pageNames().indexOf("explore")));
    QVERIFY(!window.history().stack().canUndo());
    // A database that moved with its session is found beside it.
    QTemporaryDir elsewhere;
    QVERIFY(QFile::copy(path, elsewhere.filePath("mine.vsession")));
    QVERIFY(QFile::rename(sweep_, elsewhere.filePath("sweep.db")));
    QCOMPARE(read_session(elsewhere.filePath("mine.vsession")).database,
             elsewhere.filePath("sweep.db"));
    QVERIFY(QFile::rename(elsewhere.filePath("sweep.db"), sweep_));
  }

  void theNextWindowBeginsWithTheLastSession() {
    Preferences preferences(folder_.filePath("kept.ini"));
    {
      Window window;
      window.keepIn(preferences);
      window.openLastSession();  // there is none
      show(window, "points");
      QVERIFY(open(window, sweep_));
      window.document().setFilter("N=16");
      window.close();
    }
    Window window;
    window.keepIn(preferences);
    window.openLastSession();
    window.show();
    QTRY_VERIFY_WITH_TIMEOUT(window.document().snapshot(), kWaitMs);
    QCOMPARE(window.document().filterText(), QString("N=16"));
    QCOMPARE(window.findChild<QTabWidget*>()->currentIndex(), 1);
  }

  void aBrokenSessionIsASentenceAndAnEmptyStart() {
    const auto write = [this](const QString& name, const QByteArray& text) {
      QFile file(folder_.filePath(name));
      return file.open(QIODevice::WriteOnly) && file.write(text) == text.size();
    };
    QVERIFY(write("last.vsession", "{\"format\": \"versieve-ses"));
    Preferences preferences(folder_.filePath("broken.ini"));
    Window window;
    window.keepIn(preferences);
    window.openLastSession();
    window.show();
    QVERIFY(window.findChild<QLabel*>("startText")->text().contains("is broken") ||
            window.findChild<QLabel*>("startTitle")->text().contains("is broken"));
    QVERIFY(!window.document().snapshot());
    // One that is opened by hand takes nothing from what is shown.
    QVERIFY(open(window, sweep_));
    QVERIFY(write("no.vsession", "[1, 2]"));
    window.openPath(folder_.filePath("no.vsession"));
    QVERIFY(window.findChild<QLabel*>("bannerText")->text().contains("is broken"));
    QVERIFY(window.document().snapshot());
    QVERIFY(write("newer.vsession",
                  "{\"format\": \"versieve-session\", \"version\": 99, \"values\": {}}"));
    QVERIFY_EXCEPTION_THROWN(read_session(folder_.filePath("newer.vsession")), Error);
    QVERIFY_EXCEPTION_THROWN(read_session(folder_.filePath("absent.vsession")), Error);
    QVERIFY_EXCEPTION_THROWN(window.saveSession("/proc/no/place.vsession"), Error);
    // Values of another version, or by another hand, are taken where they fit.
    QVERIFY(
        write("odd.vsession",
              "{\"format\": \"versieve-session\", \"version\": 1, \"database\": \"\", \"page\": "
              "\"nowhere\", \"values\": {\"points.filter\": \"N=4\", \"points.columns\": 3, "
              "\"points.selected\": \"x\", \"points.pins\": [1e9, -4], \"explore.axes\": "
              "[\"no\", \"L\"], \"explore.exploreX\": \"none\", \"gone\": 1}}"));
    window.openPath(folder_.filePath("odd.vsession"));
    (void)window.grab();
    QCOMPARE(window.document().filterText(), QString("N=4"));
    QVERIFY(window.document().pins().empty());
  }

  void aSessionWhoseDatabaseIsGoneSaysSo() {
    const QString path = folder_.filePath("lost.vsession");
    write_session(path, {folder_.filePath("never.db"), "points", {}});
    Window window;
    window.show();
    window.openPath(path);
    const QLabel* text = window.findChild<QLabel*>("startText");
    const QLabel* title = window.findChild<QLabel*>("startTitle");
    QTRY_VERIFY_WITH_TIMEOUT((text->text() + title->text()).contains("never.db"), kWaitMs);
  }
};

VERSIEVE_GUI_TEST(HistoryTest)
#include "history_test.moc"
