// Are the counters right today? Two kernels whose bytes are known, counted before a campaign: a
// copy of 1 GiB, and 16 MiB read eight times, of which seven must come from L2. More than 2 % off
// makes the campaign suspect.
#pragma once

#include <string>

#include "profiler/counter_access.h"

namespace versieve::profiler {

inline constexpr double kSelfCheckTolerance = 0.02;

struct SelfCheck {
  SelfCheckVerdict status = SelfCheckVerdict::kOff;
  std::string sentence;
  double copy_bytes = 0.0;         // that must be read and written
  double copy_read_bytes = 0.0;    // counted
  double copy_write_bytes = 0.0;   //
  double reread_bytes = 0.0;       // that must be read
  double reread_read_bytes = 0.0;  // counted
};

// The verdict on counted figures.
SelfCheck judged(SelfCheck figures);

// Runs it on the current device; off with the reason where counters cannot be had.
SelfCheck run_self_check(const CounterAccess& access);

}  // namespace versieve::profiler
