#include "model/words/point_words.h"

#include <array>
#include <string>

#include "model/words/error.h"

namespace versieve {
namespace {

// Texts in the order of their enumeration.
constexpr std::array kDtypes = {"bf16", "f32", "f64", "unstated"};
constexpr std::array kBackends = {"cuda", "cpu", "sim", "imported"};
constexpr std::array kCacheStates = {"warm", "cold_rotate", "cold_flush", "as_is"};
constexpr std::array kLaunchModes = {"stream", "graph", "unstated"};
constexpr std::array kPointStatuses = {"ok", "refused", "failed"};
constexpr std::array kReliabilities = {"ok", "throttled", "suspect", "unchecked", "at_least"};
constexpr std::array kRunStatuses = {"running", "complete", "aborted", "failed"};
constexpr std::array kCounterStatuses = {"ok",     "nan",         "out_of_range", "dropped",
                                         "denied", "unsupported", "off"};
constexpr std::array kCounterStates = {"ok", "denied", "unsupported", "busy", "off", ""};
constexpr std::array kSelfCheckVerdicts = {"ok", "suspect", "off", ""};

template <class Word, class Texts>
std::optional<Word> find(const Texts& texts, std::string_view text) {
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (text == texts[i]) {
      return static_cast<Word>(i);
    }
  }
  return {};
}

template <class Word, class Texts>
Word word_of(const Texts& texts, std::string_view text, const char* what) {
  if (const std::optional<Word> found = find<Word>(texts, text)) {
    return *found;
  }
  std::string known;
  for (const char* each : texts) {
    known += (known.empty() || *each == '\0' ? "" : ", ") + std::string(each);
  }
  throw Error(ExitCode::kBadInput,
              "unknown " + std::string(what) + " '" + std::string(text) + "'; known are " + known);
}

template <class Texts, class Word>
const char* text_of(const Texts& texts, Word word) {
  return texts[static_cast<std::size_t>(word)];
}

}  // namespace

const char* name_of(Dtype dtype) {
  return text_of(kDtypes, dtype);
}
const char* name_of(Backend backend) {
  return text_of(kBackends, backend);
}
const char* name_of(CacheState state) {
  return text_of(kCacheStates, state);
}
const char* name_of(LaunchMode mode) {
  return text_of(kLaunchModes, mode);
}
const char* name_of(PointStatus status) {
  return text_of(kPointStatuses, status);
}
const char* name_of(Reliability reliability) {
  return text_of(kReliabilities, reliability);
}
const char* name_of(RunStatus status) {
  return text_of(kRunStatuses, status);
}
const char* name_of(CounterStatus status) {
  return text_of(kCounterStatuses, status);
}
const char* name_of(CounterState state) {
  return text_of(kCounterStates, state);
}
const char* name_of(SelfCheckVerdict verdict) {
  return text_of(kSelfCheckVerdicts, verdict);
}

Dtype dtype_of(std::string_view text) {
  return word_of<Dtype>(kDtypes, text, "dtype");
}
Backend backend_of(std::string_view text) {
  return word_of<Backend>(kBackends, text, "backend");
}
CacheState cache_state_of(std::string_view text) {
  return word_of<CacheState>(kCacheStates, text, "cache state");
}
LaunchMode launch_mode_of(std::string_view text) {
  return word_of<LaunchMode>(kLaunchModes, text, "launch mode");
}
PointStatus point_status_of(std::string_view text) {
  return word_of<PointStatus>(kPointStatuses, text, "status");
}
Reliability reliability_of(std::string_view text) {
  return word_of<Reliability>(kReliabilities, text, "reliability");
}
RunStatus run_status_of(std::string_view text) {
  return word_of<RunStatus>(kRunStatuses, text, "run status");
}
CounterStatus counter_status_of(std::string_view text) {
  return word_of<CounterStatus>(kCounterStatuses, text, "counter status");
}
CounterState counter_state_of(std::string_view text) {
  return word_of<CounterState>(kCounterStates, text, "counter access");
}
SelfCheckVerdict self_check_verdict_of(std::string_view text) {
  return word_of<SelfCheckVerdict>(kSelfCheckVerdicts, text, "self-check");
}

std::optional<Dtype> try_dtype_of(std::string_view text) {
  return find<Dtype>(kDtypes, text);
}
std::optional<Backend> try_backend_of(std::string_view text) {
  return find<Backend>(kBackends, text);
}

std::int64_t bytes_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF64:
      return 8;
    case Dtype::kF32:
      return 4;
    case Dtype::kBf16:
    case Dtype::kUnstated:
      return 2;
  }
  return 2;
}

}  // namespace versieve
