// Measure from here: jobs that say how far they are, a cancel that keeps committed points, points
// that appear as they are stored, and a sweep of somebody else's that is watched by its file.
#include <QComboBox>
#include <QDir>
#include <QLabel>
#include <QLineEdit>
#include <QPlainTextEdit>
#include <QProgressBar>
#include <QPushButton>
#include <QTableView>
#include <QTemporaryDir>
#include <QTest>
#include <QThreadPool>
#include <memory>

#include "gui/models/point_column.h"
#include "gui/pages/measure/measure_page.h"
#include "gui/pages/points_page.h"
#include "gui/views/theme.h"
#include "tests/gui/test_main.h"
#include "tests/gui/ui_watch.h"
#include "tests/gui/window_case.h"

using namespace versieve;
using namespace versieve::gui;

class MeasurePageTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir folder_;
  std::unique_ptr<Window> window_;
  std::unique_ptr<UiWatch> watch_;

  MeasurePage& page() { return window_->measurePage(); }

  // In the command's place: says progress twice and waits to be ended, as a sweep does.
  QString slow_program() {
    const QString path = folder_.filePath("slow");
    QFile file(path);
    if (file.open(QIODevice::WriteOnly)) {
      file.write(
          "#!/bin/sh\n"
          "trap 'echo stopped after 2 points >&2; exit 1' TERM\n"
          "printf '\\r1/9 points, 0:01 passed, about 0:08 left   ' >&2\n"
          "printf '\\r2/9 points, 0:02 passed, about 0:07 left, 1 failed   ' >&2\n"
          "while :; do sleep 0.05; done\n");
    }
    file.close();
    file.setPermissions(QFile::ReadOwner | QFile::WriteOwner | QFile::ExeOwner);
    return path;
  }

  // The first row's cell under the title that begins so.
  static QModelIndex header_with(const QTableView& table, const QString& title) {
    const QAbstractItemModel& model = *table.model();
    for (int column = 0; column < model.columnCount(); ++column) {
      if (model.headerData(column, Qt::Horizontal).toString().startsWith(title)) {
        return model.index(0, column);
      }
    }
    return {};
  }

 private Q_SLOTS:
  void initTestCase() {
    theme::apply(*qApp);
    QVERIFY(QDir::setCurrent(folder_.path()));  // names in pictures are short, then
  }

  void init() {
    window_ = std::make_unique<Window>();
    window_->resize(1024, 768);
    window_->show();
    page().run().setProgram(VERSIEVE_BINARY_DIR "/bin/versieve");
    QVERIFY(window_->showPage("measure"));
    QVERIFY(page().isVisible());  // without a database too
    watch_ = std::make_unique<UiWatch>();
  }

  // Nothing of what was done held the window.
  void cleanup() {
    const double held = watch_->longestMs();
    qInfo("longest stretch of the UI thread %.1f ms", held);
    QVERIFY2(held <= UiWatch::kMostMs, qPrintable(QString::number(held)));
    watch_.reset();
    window_.reset();
    job_pool().waitForDone();
  }

  // Who has measured nothing yet begins here, not at a file.
  void theStartPageLeadsHere() {
    Window window;
    window.show();
    QPushButton* measure = window.findChild<QPushButton*>("startMeasure");
    QVERIFY(measure != nullptr && measure->isVisible());
    QTest::mouseClick(measure, Qt::LeftButton);
    QVERIFY(window.measurePage().isVisible());
  }

  void progressIsReadAsTheCommandSaysIt() {
    const auto at = sweep_progress("120/400 points, 0:12 passed, about 3:07 left, 2 failed   ");
    QVERIFY(at);
    QCOMPARE(at->done, 120);
    QCOMPARE(at->total, 400);
    QCOMPARE(at->left, QString("3:07"));
    QCOMPARE(at->failed, 2);
    QVERIFY(!sweep_progress("120 points stored in a.db"));
  }

  void doctorSaysWhatThisMachineHas() {
    QVERIFY(!page().database().isVisible());
    QTest::keyClick(&page().startButton(), Qt::Key_Space);
    QVERIFY(page().run().isRunning());
    QTRY_VERIFY_WITH_TIMEOUT(!page().run().isRunning(), kWaitMs);
    QVERIFY(page().said().toPlainText().contains("SQLite"));
  }

  void aSweepsPointsAppearAndStayWhenItIsStartedAgain() {
    QFile sweep(folder_.filePath("small.json"));
    QVERIFY(sweep.open(QIODevice::WriteOnly));
    sweep.write(R"({"name": "small", "grids": [
        {"workload": "attention", "model": "nsa-1b", "context_len": 4096, "draft": "d5k4n16",
         "group": "c8e", "layer": ["refresh", "reuse"], "overlap": 0.8}]})");
    sweep.close();
    page().job().setCurrentIndex(1);
    QVERIFY(!page().startButton().isEnabled());
    QVERIFY(page().startButton().toolTip().contains("which database"));
    page().addSweep(sweep.fileName());
    page().machine().setCurrentIndex(
        page().machine().findData(QStringList{"--backend", "sim", "--hardware", "h100-sxm"}));
    QVERIFY(page().machine().currentIndex() > 0);
    QTest::keyClicks(&page().database(), folder_.filePath("made.db"));
    QTest::mouseClick(&page().startButton(), Qt::LeftButton);
    QTRY_VERIFY_WITH_TIMEOUT(!page().run().isRunning(), kWaitMs);
    QVERIFY2(page().run().succeeded(), qPrintable(page().run().said()));
    QTRY_VERIFY_WITH_TIMEOUT(window_->document().snapshot(), kWaitMs);
    QTRY_COMPARE_WITH_TIMEOUT(window_->pointsPage().points().rowCount(), 2, kWaitMs);
    QTest::mouseClick(&page().startButton(), Qt::LeftButton);
    QTRY_VERIFY_WITH_TIMEOUT(!page().run().isRunning(), kWaitMs);
    QVERIFY(page().run().commandLine().endsWith("--resume"));
    // Its own page shows them, too, newest first: of the two layers the one measured last.
    QVERIFY(page().stored().isVisible());
    QTRY_COMPARE_WITH_TIMEOUT(page().stored().model()->rowCount(), 2, kWaitMs);
    const SnapshotPtr held = window_->document().snapshot();
    const Snapshot& snapshot = *held;
    const QModelIndex time = header_with(page().stored(), "Median time");
    QVERIFY(time.isValid());
    QCOMPARE(time.data().toString(),
             point_columns()[static_cast<std::size_t>(column_index("time"))].text(
                 snapshot, snapshot.overview.points.back()));
    window_->document().setFilter("L<1");  // hides nothing of what was measured
    QTRY_COMPARE_WITH_TIMEOUT(window_->pointsPage().points().rowCount(), 0, kWaitMs);
    QCOMPARE(page().stored().model()->rowCount(), 2);
    window_->document().setFilter({});
    QTRY_COMPARE_WITH_TIMEOUT(window_->pointsPage().points().rowCount(), 2, kWaitMs);
  }

  void aJobSaysHowFarItIsAndACancelKeepsWhatWasStored() {
    page().run().setProgram(slow_program());
    page().run().start({"profile"});
    QTRY_COMPARE_WITH_TIMEOUT(page().bar().value(), 2, kWaitMs);
    QCOMPARE(page().bar().maximum(), 9);
    QCOMPARE(page().told().text(),
             QString("2 of 9 points, 0:02 passed, about 0:07 left, 1 failed"));
    QVERIFY(!page().startButton().isEnabled());
    QTest::mouseClick(&page().cancelButton(), Qt::LeftButton);
    QTRY_VERIFY_WITH_TIMEOUT(!page().run().isRunning(), kWaitMs);
    QVERIFY(page().told().text().startsWith("Cancelled after 2 of 9 points, which are kept"));
    QVERIFY(page().said().toPlainText().contains("stopped after 2 points"));
    QVERIFY(page().startButton().isEnabled());
  }

  // With the real command: a sweep of many points is cancelled in its midst. What it had stored
  // stays, the file is whole, and starting again measures the others alone.
  void aCancelledSweepKeepsItsPointsAndGoesOn() {
    QFile sweep("many.json");
    QVERIFY(sweep.open(QIODevice::WriteOnly));
    sweep.write(R"({"name": "many", "grids": [
        {"workload": "attention", "model": "nsa-1b",
         "context_len": [4096, 8192, 12288, 16384, 20480, 24576], "draft": ["d5k4n16", "d5k4n32"],
         "group": ["c1", "c8e"], "layer": ["refresh", "reuse"], "overlap": [0.5, 0.8]}]})");
    sweep.close();
    constexpr int kAll = 6 * 2 * 2 * 2 * 2;
    const QString path = "cancelled.db";
    page().job().setCurrentIndex(1);
    page().addSweep(sweep.fileName());
    page().machine().setCurrentIndex(
        page().machine().findData(QStringList{"--backend", "sim", "--hardware", "h100-sxm"}));
    QTest::keyClicks(&page().database(), path);
    QTest::mouseClick(&page().startButton(), Qt::LeftButton);
    QTRY_VERIFY_WITH_TIMEOUT(page().bar().value() >= 2 || !page().run().isRunning(), kWaitMs);
    QVERIFY2(page().run().isRunning(), "it was over before it could be cancelled");
    QTRY_VERIFY_WITH_TIMEOUT(page().stored().model()->rowCount() >= 5 || !page().run().isRunning(),
                             kWaitMs);
    QVERIFY(page().stored().isVisible());
    keep_picture(*window_, "measure");
    QTest::mouseClick(&page().cancelButton(), Qt::LeftButton);
    QTRY_VERIFY_WITH_TIMEOUT(!page().run().isRunning(), kWaitMs);
    QVERIFY2(page().told().text().startsWith("Cancelled after"), qPrintable(page().told().text()));
    const auto stored = [&path] {
      return static_cast<int>(read_snapshot(path)->overview.points.size());
    };
    const int kept = stored();
    QVERIFY2(kept >= 2 && kept < kAll, qPrintable(QString::number(kept)));
    QTRY_COMPARE_WITH_TIMEOUT(window_->pointsPage().points().rowCount(), kept, kWaitMs);
    QTest::mouseClick(&page().startButton(), Qt::LeftButton);
    QTRY_VERIFY_WITH_TIMEOUT(!page().run().isRunning(), 5 * kWaitMs);
    QVERIFY2(page().run().succeeded(), qPrintable(page().run().said()));
    QCOMPARE(stored(), kAll);
  }

  void whatFailsIsSaidAndTheAppGoesOn() {
    page().job().setCurrentIndex(2);
    page().database().setText(folder_.filePath("none.db"));
    QTest::mouseClick(&page().startButton(), Qt::LeftButton);
    QTRY_VERIFY_WITH_TIMEOUT(!page().run().isRunning(), kWaitMs);
    QVERIFY(page().told().text().startsWith("It failed"));
    QVERIFY(page().said().toPlainText().contains("none.db"));
    page().run().setProgram("/no/such/program");
    QTest::mouseClick(&page().startButton(), Qt::LeftButton);
    QTRY_VERIFY_WITH_TIMEOUT(page().told().text().contains("could not be started"), kWaitMs);
    page().run().setProgram({});
    QTest::mouseClick(&page().startButton(), Qt::LeftButton);
    QVERIFY(page().told().text().contains("neither beside the app nor in the path"));
  }

  void aSweepThatRunsElsewhereIsWatchedByItsDatabase() {
    const QString path = folder_.filePath("elsewhere.db");
    db::Store store = db::Store::open(path.toStdString(), db::OpenMode::kCreateOrOpen);
    const std::int64_t run = store.begin_run(test::sample_run("elsewhere"));
    store.add_point(run, test::made_up_attention(4096, 16, Backend::kCuda));
    QVERIFY(open(*window_, path));
    window_->document().setWatchInterval(20);
    window_->document().follow(true);
    for (int points = 2; points <= 4; ++points) {
      store.add_point(run, test::made_up_attention(4096 * points, 16, Backend::kCuda));
      QTRY_COMPARE_WITH_TIMEOUT(window_->pointsPage().points().rowCount(), points, kWaitMs);
    }
  }

  void nothingIsCutInASmallWindow() {
    page().job().setCurrentIndex(1);
    for (const QSize& size : {QSize(1024, 768), QSize(1280, 800)}) {
      window_->resize(size);
      QTest::qWait(50);
      QCOMPARE(window_->size(), size);
      for (QPushButton* button : page().findChildren<QPushButton*>()) {
        QVERIFY2(button->width() >= button->sizeHint().width(), qPrintable(button->text()));
        QVERIFY(
            page().rect().contains(QRect(button->mapTo(&page(), QPoint(0, 0)), button->size())));
      }
      QVERIFY(page().said().height() >= 200);
    }
  }
};

VERSIEVE_GUI_TEST(MeasurePageTest)
#include "measure_page_test.moc"
