// What a plan's intervals hold: tokens a second of a number of requests together, on other texts of
// the measured kinds, anywhere in a bucket's contexts. Errors of what was measured, of texts that
// differ and of contexts that do add up as independent ones.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "model/cost/acceptance.h"
#include "model/words/evaluation.h"

namespace versieve {

// That `bench planner` plays in a cell, and what a server sees of its mean within seconds.
inline constexpr std::int64_t kUsualRequests = 16;
inline constexpr std::int64_t kMostRequests = 1000000;

// Whose logarithm reaches `half_width` to either side.
Interval around(double value, double half_width);

// Standard deviations of logarithms.
struct TimeErrors {
  double step = 0.0;      // of the mean step time of the bucket
  double contexts = 0.0;  // of the step time from one context of the bucket to another
};
// Of the step time over a bucket, from its times at the middles of equal parts of it.
double contexts_log_error(std::span<const double> times_us);

// REQUIRES: evaluation's mean numbers are there.
void add_intervals(const AcceptedTokens& accepted, const TimeErrors& time, std::int64_t requests,
                   Evaluation& evaluation);

// The throughput's interval for another number of requests than it was planned for. `planned`: 0 in
// tables that do not say it, whose interval is that of the mean whatever the texts.
Interval interval_for(const Evaluation& evaluation, std::int64_t planned, std::int64_t requests);

// "the mean of 16 requests"; "one request"; of tables without a number "the mean over the measured
// texts".
std::string requests_text(std::int64_t requests);

}  // namespace versieve
