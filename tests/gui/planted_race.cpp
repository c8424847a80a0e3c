// Whether ThreadSanitizer sees a race between a worker and the UI thread, as it is set up for the
// app's tests (tests/tsan.supp): a job's work and the window's thread both count, and nothing
// orders them. The program passes if it is reported (CMakeLists.txt).
#include <QCoreApplication>
#include <QThread>
#include <cstdio>

#include "gui/models/jobs.h"

int main(int argc, char** argv) {
  const QCoreApplication app(argc, argv);
  constexpr unsigned long kLongEnoughMs = 300;  // for the worker
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
