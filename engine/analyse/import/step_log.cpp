// The project's own neutral log: CSV, one verification step a line. README.md defines it.
#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "engine/analyse/import/import_points.h"
#include "engine/analyse/import/text_lines.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

enum Column : std::size_t {
  kRequest,
  kContext,
  kStrategy,
  kEmitted,
  kStepUs,
  kConcurrency,
  kColumnCount
};
constexpr std::array<std::string_view, kColumnCount> kNames = {"request", "context", "strategy",
                                                               "emitted", "step_us", "concurrency"};
constexpr const char* kKnown =
    "request, context, strategy, emitted and, where known, step_us and concurrency";
constexpr std::int64_t kMaxContext = 1 << 24;  // tokens
constexpr double kLeastStepUs = 0.1;
constexpr double kMostStepUs = 1e8;  // 100 s
constexpr std::int64_t kMaxConcurrency = 1 << 20;
constexpr std::int64_t kContextUnit = 1024;
constexpr std::size_t kMaxStrategyBytes = 256;

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  while (true) {
    const std::size_t cut = line.find(',');
    fields.push_back(line.substr(0, cut));
    if (cut == std::string_view::npos) {
      return fields;
    }
    line.remove_prefix(cut + 1);
  }
}

// Where each column stands; all but step_us and concurrency must be there.
struct Header {
  std::array<std::optional<std::size_t>, kColumnCount> place;
  std::size_t count = 0;
};

Header header_of(const LinePlace& place, std::string_view line) {
  const std::vector<std::string_view> names = fields_of(line);
  Header header{.count = names.size()};
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto known = std::find(kNames.begin(), kNames.end(), names[i]);
    if (known == kNames.end()) {
      place.refuse("the header names a column " + shown(names[i]) + "; the columns are " + kKnown);
    }
    std::optional<std::size_t>& at = header.place[static_cast<std::size_t>(known - kNames.begin())];
    if (at) {
      place.refuse("the header names the column " + shown(names[i]) + " twice");
    }
    at = i;
  }
  for (std::size_t column = 0; column < kStepUs; ++column) {
    if (!header.place[column]) {
      place.refuse("the header lacks the column " + shown(kNames[column]) + "; the columns are " +
                   kKnown);
    }
  }
  return header;
}

// Contexts are distinguished by doubling ranges (low, high], as everywhere a range is: 0-1K, 1K-2K,
// 2K-4K ... Returns high.
std::int64_t range_end(std::int64_t context) {
  std::int64_t end = kContextUnit;
  while (end < context) {
    end *= 2;
  }
  return end;
}

// The steps of one strategy in one range of contexts.
struct Steps {
  std::vector<std::int64_t> contexts, histogram;
  std::vector<double> time_ns;

  void add(std::int64_t context, std::int64_t emitted) {
    contexts.push_back(context);
    const std::size_t tokens = static_cast<std::size_t>(emitted);
    histogram.resize(std::max(histogram.size(), tokens + 1));
    histogram[tokens] += 1;
  }
  // The median, rounded up to the unit, which stays in the range.
  std::int64_t context_len() {
    const auto middle = contexts.begin() + static_cast<std::ptrdiff_t>((contexts.size() - 1) / 2);
    std::nth_element(contexts.begin(), middle, contexts.end());
    return (*middle + kContextUnit - 1) / kContextUnit * kContextUnit;
  }
};

class StepLog {
 public:
  void take(const LinePlace& place, std::string_view line) {
    if (!header_) {
      header_ = header_of(place, line);
      return;
    }
    const std::vector<std::string_view> fields = fields_of(line);
    if (fields.size() != header_->count) {
      place.refuse("has " + std::to_string(fields.size()) + " fields where the header has " +
                   std::to_string(header_->count));
    }
    const auto field = [&](Column column) { return fields[*header_->place[column]]; };
    if (field(kRequest).empty()) {
      place.refuse("request is empty: name the text that the step continued");
    }
    const Strategy& strategy = strategy_of(place, field(kStrategy));
    const std::int64_t context = whole_number(place, "context", field(kContext), 1, kMaxContext);
    const std::int64_t concurrency =
        header_->place[kConcurrency] && !field(kConcurrency).empty()
            ? whole_number(place, "concurrency", field(kConcurrency), 1, kMaxConcurrency)
            : 1;
    Steps& steps = groups_[{strategy.text(), range_end(context), concurrency}];
    steps.add(context,
              whole_number(place, "emitted", field(kEmitted), 1, most_emitted(strategy.draft)));
    if (header_->place[kStepUs] && !field(kStepUs).empty()) {
      steps.time_ns.push_back(
          1e3 * decimal_number(place, "step_us", field(kStepUs), kLeastStepUs, kMostStepUs));
    }
    requests_.emplace(field(kRequest));
    rows_ += 1;
  }

  ImportedPoints points() {
    ImportedPoints out{.rows_taken = rows_};
    out.details["requests"] = requests_.size();
    for (auto& [key, steps] : groups_) {
      const auto& [text, end, concurrency] = key;
      const Strategy& strategy = strategies_.find(text)->second;
      const std::int64_t context_len = steps.context_len();
      out.points.push_back(
          imported_acceptance(strategy, context_len, acceptance_of(std::move(steps.histogram))));
      set_concurrency(out.points.back(), concurrency, concurrency);
      if (steps.time_ns.empty()) {
        continue;
      }
      out.points.push_back(imported_step(strategy, context_len, std::move(steps.time_ns)));
      set_concurrency(out.points.back(), concurrency, concurrency);
    }
    out.remarks = {"emitted counts the bonus token, and so do the points"};
    return out;
  }

 private:
  // A log repeats few strategies many times.
  const Strategy& strategy_of(const LinePlace& place, std::string_view text) {
    const auto known = strategies_.find(text);
    if (known != strategies_.end()) {
      return known->second;
    }
    const bool writable =
        std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
    if (!writable || text.size() > kMaxStrategyBytes) {
      place.refuse("strategy is " + shown(text) + ", which no strategy text looks like");
    }
    try {
      return strategies_.emplace(text, Strategy::parse(text)).first->second;
    } catch (const Error& error) {
      place.refuse(error.what());
    }
  }

  std::optional<Header> header_;
  std::map<std::string, Strategy, std::less<>> strategies_;
  // By canonical text, range's end, requests at a time.
  std::map<std::tuple<std::string, std::int64_t, std::int64_t>, Steps> groups_;
  std::set<std::string, std::less<>> requests_;
  std::int64_t rows_ = 0;
};

}  // namespace

ImportedPoints read_step_log(const ImportText& input) {
  StepLog log;
  for_each_line(input.text, input.file,
                [&](const LinePlace& place, std::string_view line) { log.take(place, line); });
  return log.points();
}

}  // namespace versieve::engine
