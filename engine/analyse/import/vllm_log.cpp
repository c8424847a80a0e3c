// A log of a vLLM server: its lines about drafts, one an interval. README.md has their wordings.
#include <algorithm>
#include <cmath>

#include "engine/analyse/import/chain_counts.h"
#include "engine/analyse/import/text_lines.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

constexpr const char* kCurrent = "SpecDecoding metrics:";
constexpr const char* kOld = "Speculative metrics:";  // the V0 engine's, counts since its start
constexpr const char* kRunning = "Running:";
constexpr std::int64_t kMostTokens = 1'000'000'000'000;
constexpr std::int64_t kMaxRequests = 1 << 20;
constexpr std::int64_t kMaxPositions = 255;
// Rates have three digits and lengths two, so that what follows from them is as coarse.
constexpr double kDigits = 0.02;

std::int64_t count_after(const LinePlace& place, const std::string& line, const char* label) {
  const std::optional<std::string> value = value_after(line, label);
  if (!value) {
    place.refuse(std::string("has no '") + label + "', which vLLM's lines have: is it cut off?");
  }
  return whole_number(place, std::string(label, std::string_view(label).size() - 1), *value, 0,
                      kMostTokens);
}

std::vector<double> rates_of(const LinePlace& place, const std::string& line) {
  const std::string label = "Per-position acceptance rate:";
  std::vector<double> rates;
  std::size_t at = line.find(label);
  if (at == std::string::npos) {
    return rates;
  }
  std::string_view rest = std::string_view(line).substr(at + label.size());
  while (true) {
    rest.remove_prefix(std::min(rest.find_first_not_of(" ,[]"), rest.size()));
    const std::size_t end = std::min(rest.find_first_not_of("0123456789.na"), rest.size());
    const std::string word(rest.substr(0, end));
    if (word.empty() || (word[0] != 'n' && (word[0] < '0' || word[0] > '9'))) {
      return rates;
    }
    rates.push_back(decimal_number(place, "a per-position acceptance rate", word, 0.0, 1.0));
    rest.remove_prefix(end);
  }
}

// One interval's counts; how many drafts it had follows from the tokens and the rates.
class Interval {
 public:
  Interval(const LinePlace& place, const std::string& line, const ImportText& input)
      : place_(place), rates_(rates_of(place, line)) {
    drafted_ = count_after(place, line, "Drafted:");
    accepted_ = count_after(place, line, "Accepted:");
    if (const std::optional<std::string> mean = value_after(line, "Mean acceptance length:")) {
      mean_ = decimal_number(place, "Mean acceptance length", *mean, 0.0, 1e6);
    }
    if (rates_.empty() && !input.draft) {
      place.refuse(
          "has no per-position acceptance rates, as vLLM before 0.9 wrote it, so the length of the "
          "drafts is not known: give --draft d<K>k1n<K+1>");
    }
    positions_ = rates_.empty() ? input.draft->levels() : static_cast<std::int64_t>(rates_.size());
  }

  std::int64_t positions() const { return positions_; }
  bool has_rates() const { return !rates_.empty(); }
  ChainCounts counts() const {
    ChainCounts counts;
    counts.drafts = drafts();
    counts.draft_tokens = drafted_;
    std::int64_t before = counts.drafts;
    for (const double rate : rates_) {
      before =
          std::min<std::int64_t>(before, std::llround(rate * static_cast<double>(counts.drafts)));
      counts.accepted.push_back(before);
    }
    check_sum(counts);
    return counts;
  }
  double accepted_per_step() const {
    return 1.0 + static_cast<double>(accepted_) / static_cast<double>(drafts());
  }
  std::int64_t drafts() const {
    const double whole = static_cast<double>(drafted_) / static_cast<double>(positions_);
    double sum = 0.0;
    for (const double rate : rates_) {
      sum += rate;
    }
    if (rates_.empty() && mean_) {
      sum = *mean_ - 1.0;
    }
    const double from_rates = sum > 0.0 ? static_cast<double>(accepted_) / sum : whole;
    const bool fits = std::abs(from_rates - whole) <= kDigits * whole + 1.0;
    return std::max<std::int64_t>(1, std::llround(fits ? whole : from_rates));
  }

 private:
  // Accepted tokens, rates and the mean length are of one thing.
  void check_sum(const ChainCounts& counts) const {
    double sum = 0.0;
    for (const std::int64_t count : counts.accepted) {
      sum += static_cast<double>(count);
    }
    const double slack =
        kDigits * static_cast<double>(accepted_) + 0.5 * static_cast<double>(positions_) + 1.0;
    if (std::abs(sum - static_cast<double>(accepted_)) > slack) {
      place_.refuse("counts " + std::to_string(accepted_) +
                    " accepted tokens, but its rates come to " + std::to_string(std::llround(sum)));
    }
    if (mean_ && std::abs(*mean_ - 1.0 - sum / static_cast<double>(counts.drafts)) >
                     kDigits * *mean_ + 1.0 / static_cast<double>(counts.drafts)) {
      place_.refuse(
          "its mean acceptance length is not one (the bonus token) and the sum of its rates");
    }
  }

  const LinePlace& place_;
  std::vector<double> rates_;
  std::int64_t drafted_ = 0, accepted_ = 0, positions_ = 0;
  std::optional<double> mean_;
};

class ServerLog {
 public:
  explicit ServerLog(const ImportText& input) : input_(input) {}

  void take(const LinePlace& place, const std::string& line) {
    if (line.find(kCurrent) != std::string::npos) {
      take_interval(place, line);
    } else if (line.find(kOld) != std::string::npos) {
      old_ = {place, line};
    } else if (const std::optional<std::string> running = value_after(line, kRunning)) {
      take_requests(*running);
    }
  }

  ImportedPoints points() {
    ImportedPoints out;
    for (const auto& [positions, counts] : chains_) {
      add_points(out, chain_points(counts, input_, context_of(input_, {}), input_.file));
    }
    if (without_rates_.steps > 0) {
      out.points.push_back(imported_acceptance(
          strategy_of({.file = input_.file, .line = 1}, input_.attention, *input_.draft),
          context_of(input_, {}),
          acceptance_of_mean(without_rates_.tokens / static_cast<double>(without_rates_.steps),
                             without_rates_.steps)));
    }
    if (out.points.empty() && old_) {
      out.points.push_back(old_point());
      rows_ = 1;
    }
    for (PointMeasurement& point : out.points) {
      set_concurrency(point, fewest_, most_);
    }
    out.rows_taken = rows_;
    if (idle_ > 0) {
      out.left_out["intervals that drafted nothing"] = idle_;
    }
    out.remarks.insert(out.remarks.begin(),
                       "acceptance lengths count the bonus token, in the log as in the points; "
                       "accepted tokens there do not");
    return out;
  }

 private:
  void take_interval(const LinePlace& place, const std::string& line) {
    if (count_after(place, line, "Drafted:") == 0) {
      idle_ += 1;
      return;
    }
    const Interval interval(place, line, input_);
    if (interval.has_rates()) {
      chains_[interval.positions()].add(interval.counts());
    } else {
      without_rates_.steps += interval.drafts();
      without_rates_.tokens +=
          interval.accepted_per_step() * static_cast<double>(interval.drafts());
    }
    rows_ += 1;
  }
  void take_requests(const std::string& running) {
    std::int64_t requests = 0;
    for (const char c : running) {
      requests =
          c >= '0' && c <= '9' && requests < kMaxRequests ? 10 * requests + (c - '0') : requests;
    }
    if (requests > 0) {
      fewest_ = fewest_ == 0 ? requests : std::min(fewest_, requests);
      most_ = std::max(most_, requests);
    }
  }
  // Its accepted tokens are of each position on its own, so that the emitted ones count.
  PointMeasurement old_point() const {
    const auto& [place, line] = *old_;
    const std::int64_t positions = std::clamp<std::int64_t>(
        count_after(place, line, "Number of speculative tokens:"), 1, kMaxPositions);
    const std::int64_t drafted = count_after(place, line, "Number of draft tokens:");
    const std::int64_t emitted = count_after(place, line, "Number of emitted tokens:");
    const std::int64_t steps = drafted / positions;
    if (steps < 1) {
      place.refuse("counts no draft: nothing was speculated");
    }
    const DraftChoice chain = {positions, 1, positions + 1};
    const double length = static_cast<double>(emitted) / static_cast<double>(steps);
    check_length(place, "the mean of emitted tokens", chain, length);
    return imported_acceptance(strategy_of(place, input_.attention, chain), context_of(input_, {}),
                               acceptance_of_mean(std::max(1.0, length), steps));
  }

  struct Means {
    std::int64_t steps = 0;
    double tokens = 0.0;
  };
  const ImportText& input_;
  std::map<std::int64_t, ChainCounts> chains_;  // by positions
  Means without_rates_;
  std::optional<std::pair<LinePlace, std::string>> old_;  // the last one holds all before it
  std::int64_t rows_ = 0, idle_ = 0, fewest_ = 0, most_ = 0;
};

}  // namespace

ImportedPoints read_vllm_log(const ImportText& input) {
  ServerLog log(input);
  for_each_marked_line(
      input.text, input.file, {kCurrent, kOld, kRunning},
      [&](const LinePlace& place, const std::string& line) { log.take(place, line); });
  return log.points();
}

}  // namespace versieve::engine
