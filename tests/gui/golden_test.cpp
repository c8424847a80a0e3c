// Every page of the shipped database looks as it did, light and dark; at twice the pixels in a run
// of its own (CMakeLists.txt).
#include <QDir>
#include <QTemporaryDir>
#include <QTest>
#include <QThreadPool>
#include <memory>

#include "gui/pages/compare/compare_page.h"
#include "gui/pages/planner_page.h"
#include "gui/pages/replay_page.h"
#include "gui/pages/sensitivity/sensitivity_page.h"
#include "gui/views/theme.h"
#include "tests/gui/golden.h"
#include "tests/gui/test_main.h"
#include "tests/gui/window_case.h"

using namespace versieve;
using namespace versieve::gui;

class GoldenTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir folder_;
  std::unique_ptr<Window> window_;

  bool isIdle() const {
    return !window_->plannerPage().planner().isBusy() &&
           !window_->replayPage().replayer().isBusy() &&
           !window_->sensitivityPage().model().isBusy() &&
           !window_->comparePage().comparer().isBusy() && job_pool().activeThreadCount() == 0;
  }

  // Two pictures alike, and nobody at work in between.
  QImage settled() {
    QImage before;
    for (int tries = 0; tries < 600 * test::kSanitized; ++tries) {
      QTest::qWait(100);
      const QImage now = window_->grab().toImage();
      if (now == before && isIdle()) {
        return now;
      }
      before = now;
    }
    return {};
  }

  void compare(const QString& page) {
    const QString twice = window_->devicePixelRatioF() > 1.0 ? "-2x" : "";
    for (const bool is_dark : {false, true}) {
      window_->setDark(is_dark);
      const QImage picture = settled();
      QVERIFY2(!picture.isNull(), qPrintable(page + " never settles"));
      if (const QString folder = qEnvironmentVariable("VERSIEVE_PICTURES"); !folder.isEmpty()) {
        picture.save(folder + "/" + page + twice + (is_dark ? "-dark" : "-light") + ".png");
      }
      const QString difference =
          golden_difference("page-" + page + twice + (is_dark ? "-dark" : "-light"), picture);
      QVERIFY2(difference.isEmpty(), qPrintable(difference));
    }
    window_->setDark(false);
  }

 private Q_SLOTS:
  void initTestCase() {
    theme::apply(*qApp);
    for (const char* name : {"h100.db", "h200.db"}) {
      QVERIFY(copy_shipped(name, folder_));
    }
    QVERIFY(QDir::setCurrent(folder_.path()));  // no path of this machine stands in a picture
    window_ = std::make_unique<Window>();
    window_->resize(1280, 800);
    window_->show();
    QVERIFY(QTest::qWaitForWindowExposed(window_.get()));
  }

  void cleanupTestCase() {
    window_.reset();
    job_pool().waitForDone();
  }

  void theStartPageLooksAsItDid() { compare("start"); }

  void everyPageLooksAsItDid_data() {
    QTest::addColumn<QString>("page");
    for (const QString& page : Window::pageNames()) {
      QTest::newRow(qPrintable(page)) << page;
    }
  }

  void everyPageLooksAsItDid() {
    QFETCH(QString, page);
    if (!window_->document().snapshot()) {
      QVERIFY(open(*window_, "h100.db"));
    }
    if (page == QLatin1String("compare")) {
      window_->comparePage().comparer().setPaths({"h100.db", "h200.db"});
    }
    QVERIFY(window_->showPage(page));
    compare(page);
  }
};

VERSIEVE_GUI_TEST(GoldenTest)
#include "golden_test.moc"
