// Budgets of time, each figure printed beside its own. Times are the processor's, of one thread or
// of the whole process: what else the machine does is not the window's fault. Where
// VERSIEVE_SPEED_SLACK is set, budgets are so many times as wide: the check that always runs.
#pragma once

#include <QtGlobal>
#include <ctime>

namespace versieve::gui {

inline double clock_ms(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
}

inline double thread_ms() {
  return clock_ms(CLOCK_THREAD_CPUTIME_ID);
}

// Of all threads: no less than what a user waits for on a machine with nothing else to do, where
// the threads follow one another.
inline double process_ms() {
  return clock_ms(CLOCK_PROCESS_CPUTIME_ID);
}

inline double speed_slack() {
  bool is_set = false;
  const double slack = qEnvironmentVariable("VERSIEVE_SPEED_SLACK").toDouble(&is_set);
  return is_set ? slack : 1.0;
}

inline bool within(const char* what, double ms, double budget) {
  qInfo("%-58s %8.1f ms, budget %.0f", what, ms, budget);
  return ms <= budget * speed_slack();
}

}  // namespace versieve::gui
