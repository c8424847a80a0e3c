#include "gui/models/jobs.h"

#include <QThread>
#include <cstdio>
#include <cstdlib>

namespace versieve::gui {
namespace {

constexpr int kLastMs = 300;  // for work that is about to end
// Threads beyond the processors: what is short does not wait for fits.
constexpr int kForShortWork = 2;

void wait_for_jobs() {
  job_pool().waitForDone();
}

}  // namespace

QThreadPool& job_pool() {
  static QThreadPool pool;
  static const bool is_set_up = [] {
    pool.setMaxThreadCount(QThread::idealThreadCount() + kForShortWork);
    qAddPostRoutine(wait_for_jobs);
    return true;
  }();
  (void)is_set_up;
  return pool;
}

int leave(int code) {
  if (!job_pool().waitForDone(kLastMs)) {
    std::fflush(nullptr);
    std::_Exit(code);
  }
  return code;
}

}  // namespace versieve::gui
