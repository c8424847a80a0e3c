// Bad days: files that a newer program wrote, that another program holds, a disk that is full, and
// work that takes all threads. A sentence, nothing lost, and the app goes on.
#include <sys/resource.h>

#include <QComboBox>
#include <QLabel>
#include <QSemaphore>
#include <QStatusBar>
#include <QTemporaryDir>
#include <QTest>
#include <QThread>
#include <atomic>
#include <csignal>
#include <memory>
#include <thread>
#include <vector>

#include "db/sqlite.h"
#include "gui/pages/planner_page.h"
#include "gui/pages/points_page.h"
#include "gui/pages/step/step_page.h"
#include "gui/views/theme.h"
#include "gui/views/view_saver.h"
#include "model/words/error.h"
#include "tests/gui/database_case.h"
#include "tests/gui/many_points.h"
#include "tests/gui/test_main.h"

using namespace versieve;
using namespace versieve::gui;

namespace {

constexpr int kPaintedInMs = 20'000;  // eleven pages, on a machine with other work too

// While it is there files end after so many bytes, as on a full disk.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

}  // namespace

class BadDayTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir folder_;
  QString sweep_;
  std::unique_ptr<Window> window_;

  // What was read and set stays, and the sentence of the banner is this one.
  void check_kept(const QString& part) {
    const QLabel* text = window_->findChild<QLabel*>("bannerText");
    QVERIFY2(text->isVisible() && text->text().contains(part), qPrintable(text->text()));
    QCOMPARE(window_->pointsPage().points().rowCount(), test::kMadeUpPoints);
    QCOMPARE(window_->document().selected(), 5);
    QVERIFY(window_->windowTitle().contains("sweep.db"));
  }

  void fail_to_open(const QString& path) {
    QSignalSpy failed(&window_->document(), &Document::failed);
    window_->document().open(path);
    QVERIFY(failed.wait(kWaitMs));
  }

 private Q_SLOTS:
  void initTestCase() {
    theme::apply(*qApp);
    std::signal(SIGXFSZ, SIG_IGN);  // writing too much is an error then
    sweep_ = made_up_sweep_in(folder_);
  }

  void init() {
    window_ = std::make_unique<Window>();
    window_->show();
    QVERIFY(open(*window_, sweep_));
    window_->showPage("points");
    window_->document().select(5);
  }

  void cleanup() {
    window_.reset();
    job_pool().waitForDone();
  }

  void aFileOfANewerProgramIsRefusedByItsNumber() {
    const QString path = folder_.filePath("newer.db");
    QVERIFY(QFile::copy(sweep_, path));
    { db::Database(path.toStdString(), db::Access::kWrite).execute("PRAGMA user_version = 999"); }
    fail_to_open(path);
    check_kept("999");
  }

  // Where another program keeps everybody out; when it is done the file opens.
  void aFileThatIsLockedIsSaidToBe() {
    const QString path = folder_.filePath("locked.db");
    QVERIFY(QFile::copy(sweep_, path));
    {
      db::Database holder(path.toStdString(), db::Access::kWrite);
      QVERIFY(holder.try_journal_mode("DELETE"));
      holder.execute("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE");
      fail_to_open(path);
      check_kept("locked by another process");
      holder.execute("ROLLBACK");
    }
    QVERIFY(open(*window_, path));
    QVERIFY(!window_->findChild<QLabel*>("bannerText")->isVisible());
  }

  void aFullDiskTakesNeitherAViewNorASession() {
    const QString picture = folder_.filePath("view.png");
    const QString session = folder_.filePath("mine.vsession");
    QSignalSpy failed(&window_->saver(), &ViewSaver::failed);
    {
      const FullDisk full(64);
      window_->saver().save(window_->pointsPage().scatter(), picture);
      QVERIFY(failed.wait(kWaitMs));
      try {
        window_->saveSession(session);
        QFAIL("a session was written to a full disk");
      } catch (const Error& error) {
        QVERIFY2(QString(error.what()).contains("mine.vsession"), error.what());
      }
    }
    QVERIFY(failed.first().first().toString().contains("cannot be written"));
    QCOMPARE(window_->statusBar()->currentMessage(), failed.first().first().toString());
    QVERIFY(!QFile::exists(picture) && !QFile::exists(session));
    QSignalSpy written(&window_->saver(), &ViewSaver::written);
    window_->saver().save(window_->pointsPage().scatter(), picture);
    QVERIFY(written.wait(kWaitMs));
    window_->saveSession(session);
    QVERIFY(QFile::exists(picture) && QFile::exists(session));
  }

  // A fit that cannot be kept is a fit all the same; a table that was there stays as it was.
  void onAFullDiskAPlanIsMadeAndItsTableRefused() {
    const QString path = folder_.filePath("campaign.db"), table = folder_.filePath("plan.json");
    write_synthetic_campaign(path, false);
    QFile kept(table);
    QVERIFY(kept.open(QIODevice::WriteOnly) && kept.write("last week's") > 0);
    kept.close();
    Planner& planner = window_->plannerPage().planner();
    {
      const FullDisk full(64);
      QVERIFY(open(*window_, path));
      window_->showPage("planner");
      QTRY_VERIFY_WITH_TIMEOUT(planner.plan() && !planner.isBusy(), 10 * kWaitMs);
      const QString sentence = planner.exportTo(table);
      QVERIFY2(sentence.contains("plan.json"), qPrintable(sentence));
    }
    QVERIFY(!QFile::exists(path + ".fit"));
    QVERIFY(kept.open(QIODevice::ReadOnly));
    QCOMPARE(kept.readAll(), QByteArray("last week's"));
    QCOMPARE(planner.exportTo(table), QString());
  }

  // Two plans under way held the window for seconds: Qt fills areas by threads of a pool.
  void theWindowIsPaintedWhileAllThreadsWork() {
    QSemaphore end, begun;
    const int count = job_pool().maxThreadCount() + 1;
    std::vector<std::unique_ptr<Job>> jobs;
    int ended = 0;
    std::atomic<bool> is_late = false;
    for (int i = 0; i < count; ++i) {
      jobs.push_back(std::make_unique<Job>());
      jobs.back()->start<int>(
          [&] {
            begun.release();
            end.acquire();
            return 0;
          },
          [&](int) { ++ended; }, [](const QString&) {});
    }
    QVERIFY(begun.tryAcquire(count - 1, kWaitMs));
    std::jthread release([&](std::stop_token stop) {  // where painting waits, the test fails
      for (int i = 0; i < kPaintedInMs && !stop.stop_requested(); ++i) {
        QThread::msleep(1);
      }
      is_late = !stop.stop_requested();
      end.release(count);
    });
    for (const QString& page : Window::pageNames()) {
      window_->showPage(page);
      (void)window_->grab();
    }
    release.request_stop();
    release.join();
    QVERIFY(!is_late);
    QTRY_COMPARE_WITH_TIMEOUT(ended, count, kWaitMs);
  }

  // Of a hundred thousand steps those alone are listed that fit a choice; any is chosen by its
  // point.
  void aStepThatIsNotListedIsChosenByItsPoint() {
    window_ = std::make_unique<Window>();
    window_->show();
    window_->document().accept(many_points(100'000));
    StepPage& page = window_->stepPage();
    window_->showPage("step");
    const std::vector<std::int32_t>& steps = page.reader().steps();
    QVERIFY(steps.size() > 10'000U);
    QCOMPARE(page.first().count(), 1000 + 1);  // and the point that is selected at first
    QVERIFY(page.first().findData(steps.back()) < 0);
    window_->document().select(steps.back());
    QCOMPARE(page.first().currentData().toInt(), steps.back());
    QCOMPARE(page.first().currentText(), page.reader().title(steps.back()));
  }
};

VERSIEVE_GUI_TEST(BadDayTest)
#include "bad_day_test.moc"
