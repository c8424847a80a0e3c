// Closing the window while a fit is made ends the process: once it went on for twenty seconds. The
// test starts itself as the app that is closed.
#include <QApplication>
#include <QElapsedTimer>
#include <QFile>
#include <QProcess>
#include <QTemporaryDir>
#include <QTest>
#include <QTimer>
#include <cstdio>

#include "gui/models/jobs.h"
#include "gui/pages/planner_page.h"
#include "gui/views/theme.h"
#include "tests/gui/window_case.h"

using namespace versieve;
using namespace versieve::gui;

namespace {

constexpr int kCode = 5;         // of the app that is closed
constexpr int kPromptly = 3000;  // ms, on a machine with other work too

// As gui/main.cpp runs a window, which closes itself in the midst of a fit.
int run_and_close(const QString& database) {
  Window window;
  window.show();
  window.showPage("planner");
  Planner& planner = window.plannerPage().planner();
  QObject::connect(
      &planner, &Planner::progressed, &window,
      [&] {
        std::printf("closing %d\n", planner.isBusy() ? 1 : 0);
        std::fflush(stdout);
        window.close();
      },
      Qt::SingleShotConnection);
  window.document().open(database);
  QApplication::exec();
  return kCode;
}

}  // namespace

class ClosingTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void theProcessEndsWithItsWindowWhileAFitIsMade() {
    QTemporaryDir folder;
    const QString path = folder.filePath("campaign.db");
    write_synthetic_campaign(path, true);
    QProcess app;
    app.start(QCoreApplication::applicationFilePath(), {"--close", path});
    QVERIFY(app.waitForReadyRead(kWaitMs));
    QCOMPARE(QString::fromUtf8(app.readAllStandardOutput()).trimmed(), QString("closing 1"));
    QElapsedTimer clock;
    clock.start();
    QVERIFY(app.waitForFinished(kWaitMs));
    qInfo("gone %lld ms after its window", static_cast<long long>(clock.elapsed()));
    QVERIFY(clock.elapsed() < kPromptly);
    QCOMPARE(app.exitStatus(), QProcess::NormalExit);
    QCOMPARE(app.exitCode(), kCode);
    QVERIFY(!QFile::exists(path + ".fit"));  // ended, not made to the end
  }
};

int main(int argc, char** argv) {
  QApplication application(argc, argv);
  theme::apply(application);
  const QStringList words = QCoreApplication::arguments();
  if (words.size() == 3 && words[1] == QLatin1String("--close")) {
    return leave(run_and_close(words[2]));
  }
  ClosingTest test;
  return QTest::qExec(&test, argc, argv);
}

#include "closing_test.moc"
