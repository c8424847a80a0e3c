// Requests at a time that a point is of, as its regime says: "chat, concurrency 4", "concurrency 5
// to 8"; without such words one, or nobody said.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/words/range_text.h"

namespace versieve {

struct RequestRange {
  std::int64_t low = 1;
  std::int64_t high = 1;

  bool operator==(const RequestRange&) const = default;
};

inline constexpr std::string_view kConcurrencyWord = "concurrency ";

// "concurrency 4", "concurrency 5 to 8".
inline std::string text_of(const RequestRange& requests) {
  return std::string(kConcurrencyWord) +
         range_text(std::to_string(requests.low), std::to_string(requests.high));
}

// None where the regime does not say it.
inline std::optional<RequestRange> requests_of(std::string_view regime) {
  const std::size_t at = regime.rfind(kConcurrencyWord);
  if (at == std::string_view::npos) {
    return {};
  }
  const char* const end = regime.data() + regime.size();
  RequestRange out;
  const auto first = std::from_chars(regime.data() + at + kConcurrencyWord.size(), end, out.low);
  if (first.ec != std::errc() || out.low < 1) {
    return {};
  }
  out.high = out.low;
  constexpr std::string_view kTo = " to ";
  const std::string_view rest(first.ptr, static_cast<std::size_t>(end - first.ptr));
  if (rest.starts_with(kTo)) {
    const auto last = std::from_chars(first.ptr + kTo.size(), end, out.high);
    return last.ec == std::errc() && out.high >= out.low ? std::optional(out) : std::nullopt;
  }
  return out;
}

}  // namespace versieve
