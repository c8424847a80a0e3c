// Which program's record a text is, by marks that no other has, so that a file given under
// another format's name is refused by its own name and with the way to import it.
#pragma once

#include <string>
#include <string_view>

namespace versieve::engine {

enum class RecordKind {
  kStepLog,
  kVllmPage,
  kVllmLog,
  kVllmBench,
  kVllmRequests,
  kVllmDiffusion,
  kAiperfSummary,
  kSglangBench,
  kSglangServing,
  kSglangLog,
  kSglangRequests,
  kSglangPage,
  kTrtllmIterations,
  kTrtllmResponses,
  kTrtllmPage,
  kSpeculationProfile,
  kSequoiaVector,
  kServingSummary,
  kPrometheusAnswer,
  kSglangServerInfo,
  kUnknown
};

RecordKind record_kind(std::string_view text);
// Is the first character that of a JSON object or array?
bool looks_like_json(std::string_view text);

// Throws Error(kBadInput) if the bytes are no text (compressed, a database, UTF-16 ...), a web page
// or nothing at all, or a record that another format or none reads; the sentence says what to give.
void check_record(const std::string& file, std::string_view text, const std::string& format);

}  // namespace versieve::engine
