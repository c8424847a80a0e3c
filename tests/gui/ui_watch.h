// Whether the UI thread is ever busy for longer than a frame of patience: a timer looks how much
// processor time the thread took between two of its own turns. Processor time, not the clock's:
// other programs on the machine are not the window's fault.
#pragma once

#include <QTimer>
#include <algorithm>

#include "tests/gui/budget.h"
#include "tests/support/sanitized.h"

namespace versieve::gui {

class UiWatch {
 public:
  static constexpr double kBudgetMs = test::kSanitized * 50.0;
  static inline const double kMostMs = kBudgetMs * speed_slack();

  UiWatch() {
    timer_.setInterval(1);
    QObject::connect(&timer_, &QTimer::timeout, &timer_, [this] { look(); });
    timer_.start();
    begin();
  }

  // What the test itself did since then does not count: a picture that it took.
  void begin() { last_ms_ = thread_ms(); }
  // The longest since the watch began, the stretch under way counted.
  double longestMs() {
    look();
    return longest_ms_;
  }

 private:
  void look() {
    const double now = thread_ms();
    longest_ms_ = std::max(longest_ms_, now - last_ms_);
    last_ms_ = now;
  }

  QTimer timer_;
  double last_ms_ = 0.0;
  double longest_ms_ = 0.0;
};

}  // namespace versieve::gui
