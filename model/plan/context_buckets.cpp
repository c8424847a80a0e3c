#include <algorithm>
#include <charconv>

#include "model/plan/planner.h"
#include "model/words/error.h"

namespace versieve {
namespace {

constexpr std::int64_t kLongestContext = 262144;

std::int64_t parse_tokens(const std::string& text, const std::string& whole) {
  std::int64_t value = -1;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || value < 0 ||
      value > kLongestContext) {
    throw Error(ExitCode::kUsage, "buckets '" + whole + "': '" + text +
                                      "' is not a token count from 0 to 262144; write "
                                      "0-4096,4096-8192");
  }
  return value;
}

}  // namespace

std::string name_of(const ContextBucket& bucket) {
  return std::to_string(bucket.low) + "-" + std::to_string(bucket.high);
}

std::vector<ContextBucket> default_buckets() {
  return {{0, 4096}, {4096, 8192}, {8192, 12288}, {12288, 16384}};
}

std::vector<ContextBucket> parse_buckets(const std::string& text) {
  std::vector<ContextBucket> buckets;
  std::size_t at = 0;
  while (at <= text.size()) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, comma - at);
    const std::size_t dash = part.find('-');
    if (dash == std::string::npos) {
      throw Error(ExitCode::kUsage,
                  "buckets '" + text + "': '" + part + "' is no range; write 0-4096,4096-8192");
    }
    const ContextBucket bucket{parse_tokens(part.substr(0, dash), text),
                               parse_tokens(part.substr(dash + 1), text)};
    if (bucket.low >= bucket.high || (!buckets.empty() && bucket.low < buckets.back().high)) {
      throw Error(ExitCode::kUsage,
                  "buckets '" + text + "': ranges must be ascending and must not overlap");
    }
    buckets.push_back(bucket);
    at = comma + 1;
  }
  return buckets;
}

}  // namespace versieve
