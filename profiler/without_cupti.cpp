// The counters and the trace of a build that saw no CUPTI headers: the same questions, answered
// "unsupported" with a sentence.
#include "model/words/error.h"
#include "profiler/activity_trace.h"
#include "profiler/counter_access.h"
#include "profiler/metric_catalog.h"
#include "profiler/range_counters.h"
#include "profiler/self_check.h"

namespace versieve::profiler {
namespace {

const char* const kSentence = "This build of versieve has no CUPTI, so no hardware counters.";

[[noreturn]] void refuse() {
  throw Error(ExitCode::kEnvironment, kSentence);
}

}  // namespace

CounterAccess probe_counter_access() {
  return {CounterState::kUnsupported, 0, kSentence};
}

struct MetricCatalog::Impl {};
std::string MetricCatalog::missing_because() {
  return kSentence;
}
MetricCatalog::MetricCatalog(const std::string&, std::vector<std::uint8_t>) {
  refuse();
}
MetricCatalog::~MetricCatalog() = default;
MetricCatalog::MetricCatalog(MetricCatalog&&) noexcept = default;
MetricCatalog& MetricCatalog::operator=(MetricCatalog&&) noexcept = default;
std::optional<MetricProperties> MetricCatalog::properties(const std::string&) const {
  refuse();
}
std::vector<std::string> MetricCatalog::unknown_of(const std::vector<std::string>&) const {
  refuse();
}
std::vector<std::uint8_t> MetricCatalog::config_image(const std::vector<std::string>&) const {
  refuse();
}
std::int64_t MetricCatalog::pass_count(const std::vector<std::string>&) const {
  refuse();
}
std::vector<double> MetricCatalog::evaluate(const std::vector<std::uint8_t>&, std::size_t,
                                            const std::vector<std::string>&) const {
  refuse();
}

struct RangeCounters::Impl {};
RangeCounters::RangeCounters(std::vector<std::string>, std::int64_t) {
  refuse();
}
RangeCounters::~RangeCounters() = default;
void RangeCounters::begin() {
  refuse();
}
void RangeCounters::push(const std::string&) {
  refuse();
}
void RangeCounters::pop() {
  refuse();
}
std::vector<RangeSample> RangeCounters::end() {
  refuse();
}
void RangeCounters::release() {}
const std::string& RangeCounters::chip() const {
  refuse();
}
const std::vector<std::string>& RangeCounters::metrics() const {
  refuse();
}

struct ActivityTrace::Impl {};
std::string ActivityTrace::missing_because() {
  return kSentence;
}
ActivityTrace::ActivityTrace() {
  refuse();
}
ActivityTrace::~ActivityTrace() = default;
void ActivityTrace::begin() {
  refuse();
}
void ActivityTrace::push(const std::string&) {
  refuse();
}
void ActivityTrace::pop() {
  refuse();
}
void ActivityTrace::turn(std::int64_t) {
  refuse();
}
std::vector<TracedRange> ActivityTrace::end() {
  refuse();
}
std::vector<TracedWork> ActivityTrace::work() const {
  refuse();
}

SelfCheck run_self_check(const CounterAccess& access) {
  return {.status = SelfCheckVerdict::kOff, .sentence = "No self-check: " + access.sentence};
}

}  // namespace versieve::profiler
