#include "model/plan/request_intervals.h"

#include <algorithm>
#include <cmath>

#include "model/words/assert.h"
#include "model/words/normal_law.h"

namespace versieve {
namespace {

double total(std::initializer_list<double> errors) {
  double squares = 0.0;
  for (const double error : errors) {
    squares += error * error;
  }
  return std::sqrt(squares);
}

}  // namespace

Interval around(double value, double half_width) {
  return {value * std::exp(-half_width), value * std::exp(half_width)};
}

double contexts_log_error(std::span<const double> times_us) {
  const double count = static_cast<double>(times_us.size());
  double sum = 0.0;
  double squares = 0.0;
  for (const double us : times_us) {
    sum += std::log(us);
    squares += std::log(us) * std::log(us);
  }
  // Middles of equal parts spread less than the whole of a line: by 1 - 1 / parts^2 of its
  // variance.
  const double variance = std::max(0.0, squares / count - sum * sum / count / count);
  return count > 1.0 ? std::sqrt(variance / (1.0 - 1.0 / count / count)) : 0.0;
}

void add_intervals(const AcceptedTokens& accepted, const TimeErrors& time, std::int64_t requests,
                   Evaluation& e) {
  VERSIEVE_ASSERT(requests >= 1, "an interval is of some requests");
  const double texts = accepted.text_log_error / std::sqrt(static_cast<double>(requests));
  const double tokens = total({accepted.log_error, accepted.few_texts_log_error, texts});
  e.text_log_error = accepted.text_log_error;
  e.accepted_interval = around(e.expected_accepted, kNinety * tokens);
  e.latency_interval_us = around(e.cost->time_us, kNinety * time.step);
  e.throughput_interval = around(e.throughput, kNinety * total({tokens, time.step, time.contexts}));
  e.same_texts_interval = around(e.throughput, kNinety * total({accepted.log_error, time.step}));
}

Interval interval_for(const Evaluation& e, std::int64_t planned, std::int64_t requests) {
  const Interval& known = e.throughput_interval;
  if (planned < 1 || planned == requests || e.text_log_error == 0.0) {
    return known;
  }
  const double half = (std::log(known.high) - std::log(known.low)) / 2.0;
  const double text = kNinety * e.text_log_error;
  const double without = half * half - text * text / static_cast<double>(planned);
  return around(e.throughput,
                std::sqrt(std::max(0.0, without) + text * text / static_cast<double>(requests)));
}

std::string requests_text(std::int64_t requests) {
  if (requests == 1) {
    return "one request";
  }
  return requests > 1 ? "the mean of " + std::to_string(requests) + " requests"
                      : std::string("the mean over the measured texts");
}

}  // namespace versieve
