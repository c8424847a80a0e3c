// Whether ThreadSanitizer sees a race between a worker and the UI thread, as it is set up for the
// app's tests (tests/tsan.supp), also after the UI thread started a program beside a worker
// (tests/support/watched_clone.cpp): a job's work and the window's thread both count, and nothing
// orders them. The program passes if it is reported (CMakeLists.txt).
#include <QCoreApplication>
#include <QProcess>
#include <QThread>
#include <cstdio>

#include "gui/models/jobs.h"

namespace {

constexpr unsigned long kLongEnoughMs = 300;  // for the worker

void start_a_program() {
  versieve::gui::run_in_pool([] { QThread::msleep(kLongEnoughMs); });
  QProcess program;
  program.start("true", {});
  program.waitForFinished();
}

}  // namespace

int main(int argc, char** argv) {
  const QCoreApplication app(argc, argv);
  start_a_program();
  int count = 0;
  versieve::gui::Job job;
  job.start<int>([&count] { return ++count; }, [](int) { QCoreApplication::quit(); },
                 [](const QString&) { QCoreApplication::quit(); });
  QThread::msleep(kLongEnoughMs);
  ++count;
  const int code = QCoreApplication::exec();
  std::printf("%d\n", count);
  return code;
}
