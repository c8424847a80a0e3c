// Work away from the UI thread. Of several requests to one Job only the newest is answered: what an
// older one finds is dropped. All works in a pool of its own: Qt paints large areas by the threads
// of its global pool, and a window whose painting waits for a fit stands still.
#pragma once

#include <QObject>
#include <QPointer>
#include <QString>
#include <QThreadPool>
#include <exception>
#include <functional>
#include <optional>
#include <utility>

namespace versieve::gui {

// Ended before the application is, which waits for it.
QThreadPool& job_pool();

// On a thread of the pool; and, from there, on the UI thread once it comes to it. What was written
// before is seen there.
void run_in_pool(std::function<void()> work);
void answer_on_ui(std::function<void()> take);

class Job : public QObject {
 public:
  using QObject::QObject;

  bool isRunning() const { return finished_ != started_; }

  // `work` runs on a pool thread and must own all it uses; `done` or `failed` follow on the thread
  // of this object, unless a newer request was made or this object is gone.
  template <typename Result>
  void start(std::function<Result()> work, std::function<void(Result)> done,
             std::function<void(const QString&)> failed) {
    const int number = ++started_;
    const QPointer<Job> self(this);
    run_in_pool([=] {
      std::optional<Result> result;
      QString sentence;
      try {
        result.emplace(work());
      } catch (const std::exception& error) {
        sentence = QString::fromUtf8(error.what());
      }
      answer_on_ui([=] {  // `self` is looked at only on its own thread
        if (self.isNull() || number != self->started_) {
          return;
        }
        self->finished_ = number;
        if (result) {
          done(*result);
        } else {
          failed(sentence);
        }
      });
    });
  }

 private:
  int started_ = 0;
  int finished_ = 0;
};

// Ends the process with that code, without waiting for work that nobody asks for any more: what it
// writes is whole or not there. For main, when the window is gone. Returns where no work goes on.
int leave(int code);

}  // namespace versieve::gui
