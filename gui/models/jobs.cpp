#include "gui/models/jobs.h"

#include <QCoreApplication>
#include <QRunnable>
#include <QThread>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <utility>

namespace versieve::gui {
namespace {

constexpr int kLastMs = 300;  // for work that is about to end
// Threads beyond the processors: what is short does not wait for fits.
constexpr int kForShortWork = 2;

// Qt's queues order what one thread hands to another, but ThreadSanitizer cannot look into those:
// work would seem to race with all that it was given, and reports of that kind, once suppressed,
// hide the races there are (tests/tsan.supp). So work and answers are handed over by means that it
// sees, too.
class Work : public QRunnable {
 public:
  explicit Work(std::function<void()> call) : call_(std::move(call)) {
    is_whole_.store(true, std::memory_order_release);
  }
  void run() override {
    if (is_whole_.load(std::memory_order_acquire)) {
      call_();
    }
  }

 private:
  std::function<void()> call_;
  std::atomic<bool> is_whole_ = false;
};

// In the order in which workers gave them.
class Answers {
 public:
  void add(std::function<void()> take) {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_.push_back(std::move(take));
  }
  // REQUIRES: one that was added and not taken.
  std::function<void()> next() {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::function<void()> first = std::move(waiting_.front());
    waiting_.pop_front();
    return first;
  }
  // What nobody takes any more.
  void forget() {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_.clear();
  }

 private:
  std::mutex mutex_;
  std::deque<std::function<void()>> waiting_;
};

Answers& answers() {
  static Answers answers;
  return answers;
}

// Takes answers on the thread that made it. Its slot is called by name, so that Qt makes the whole
// call: what a worker of ours made, event filters would read before they have an answer's lock.
class Receiver : public QObject {
  Q_OBJECT

 public:
  using QObject::QObject;

 public Q_SLOTS:
  void take() { answers().next()(); }
};

// The application's, which outlives its pool. REQUIRES: first called on the UI thread.
Receiver& receiver() {
  static auto* const receiver = new Receiver(qApp);
  return *receiver;
}

void wait_for_jobs() {
  job_pool().waitForDone();
  answers().forget();
}

}  // namespace

QThreadPool& job_pool() {
  answers();  // outlive the pool, which waits for what is under way
  static QThreadPool pool;
  static const bool is_set_up = [] {
    receiver();
    pool.setMaxThreadCount(QThread::idealThreadCount() + kForShortWork);
    qAddPostRoutine(wait_for_jobs);
    return true;
  }();
  (void)is_set_up;
  return pool;
}

void run_in_pool(std::function<void()> work) {
  job_pool().start(new Work(std::move(work)));
}

void answer_on_ui(std::function<void()> take) {
  answers().add(std::move(take));
  QMetaObject::invokeMethod(&receiver(), "take", Qt::QueuedConnection);
}

int leave(int code) {
  if (!job_pool().waitForDone(kLastMs)) {
    std::fflush(nullptr);
    std::_Exit(code);
  }
  return code;
}

}  // namespace versieve::gui

#include "jobs.moc"
