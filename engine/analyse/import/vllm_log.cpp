// A log of a vLLM server: its lines about drafts, one an interval, each after the line of what its
// engine did meanwhile (by LoggingStatLogger of 0.33.0: the tokens that it gave a second and the
// requests that ran at the end). README.md has their wordings.
#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/analyse/import/chain_counts.h"
#include "engine/analyse/import/text_lines.h"
#include "engine/io/formatted.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

constexpr const char* kCurrent = "SpecDecoding metrics:";
constexpr const char* kOld = "Speculative metrics:";  // the V0 engine's, counts since its start
constexpr const char* kRunning = "Running:";
constexpr const char* kEngine = "Engine";
constexpr const char* kPrompts = "Avg prompt throughput:";
constexpr const char* kThroughput = "Avg generation throughput:";
constexpr double kMaxTokensPerSecond = 1e12;
constexpr std::int64_t kMostTokens = 1'000'000'000'000;
constexpr std::int64_t kMaxRequests = 1 << 20;
constexpr std::int64_t kMaxPositions = 255;
// Rates have three digits and lengths two, so that what follows from them is as coarse.
constexpr double kDigits = 0.02;
constexpr double kLastDigit = 0.01;   // of a throughput
constexpr double kLeastRate = 0.001;  // tokens a second of an engine, of some that are shown as one
// Of the tokens that drafts emitted an answer's end may cut off some.
constexpr double kLeastGiven = 0.5;
constexpr double kNsPerSecond = 1e9;

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
    if (accepted_ > drafted_) {
      place.refuse("counts more accepted tokens than drafted ones: " + std::to_string(accepted_) +
                   " of " + std::to_string(drafted_));
    }
    read_seconds(line);
    positions_ = rates_.empty() ? input.draft->levels() : static_cast<std::int64_t>(rates_.size());
  }

  // What was stated is what the line has rates of.
  void check_draft(const LinePlace& place, const std::optional<DraftChoice>& stated) const {
    const DraftChoice chain{positions_, 1, positions_ + 1};
    if (!rates_.empty() && stated && !(*stated == chain)) {
      place.refuse("has rates of " + std::to_string(positions_) +
                   " positions, a chain of as many tokens, which is not what --draft says: leave "
                   "it out");
    }
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
  // An engine that gave far fewer tokens a second than its drafts emitted was not this one. (It may
  // give more: prompts' first tokens, steps without a draft.)
  void check_engine(double tokens_per_s) const {
    const double emitted = static_cast<double>(accepted_ + drafts());
    if (seconds_ && tokens_per_s > 0.0 && tokens_per_s * *seconds_ < kLeastGiven * emitted) {
      place_.refuse("counts drafts that emitted " + formatted("%.1f", emitted / *seconds_) +
                    " tokens a second, but its engine's line says " +
                    formatted("%.1f", tokens_per_s));
    }
  }
  bool is_whole() const {
    ChainCounts counts;
    counts.drafts = drafts();
    counts.accepted.resize(static_cast<std::size_t>(positions_));
    counts.draft_tokens = drafted_;
    return is_timed_whole(counts);
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
  // How long the interval was, by its counts and their throughputs, which are of one time.
  void read_seconds(const std::string& line) {
    const auto rate = [&](const char* label) {
      const std::optional<std::string> value = value_after(line, label);
      return value ? decimal_number(place_, std::string(label, std::string_view(label).size() - 1),
                                    *value, 0.0, kMaxTokensPerSecond)
                   : 0.0;
    };
    const double accepted = rate("Accepted throughput:"), drafted = rate("Drafted throughput:");
    if (drafted <= 0.0 || drafted_ == 0) {
      return;
    }
    seconds_ = static_cast<double>(drafted_) / drafted;
    const double counted = static_cast<double>(accepted_) / *seconds_;
    if (std::abs(accepted - counted) > kDigits * counted + kLastDigit * (1.0 + counted / drafted)) {
      place_.refuse("counts " + std::to_string(accepted_) + " accepted tokens of " +
                    std::to_string(drafted_) + ", but its throughputs are " +
                    formatted("%.2f of %.2f", accepted, drafted) + " tokens a second");
    }
  }
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
  std::optional<double> mean_, seconds_;
};

// What an engine did in an interval, as its line says.
struct EngineLine {
  std::int64_t requests = 0;  // of each engine, where the line is of several; 0: none ran
  double tokens_per_s = 0.0;  // of each engine
  double of_all_per_s = 0.0;  // of all of them
  // As many ran when the interval began, by doubling ranges; where one did, the same one, since
  // the next may have come after a pause.
  bool steady = false;
};

// Lines of one engine, or of all that are written as one: "Engine 000", "2 Engines Aggregated".
class EngineLines {
 public:
  EngineLine read(const LinePlace& place, const std::string& line) {
    const std::string name = name_of(line);
    const double engines = static_cast<double>(engines_of(name));
    EngineLine out;
    const std::string running = value_after(line, kRunning).value_or("");
    const double requests = decimal_number(place, "Running", running, 0.0, kMaxRequests);
    out.requests = std::llround(std::ceil(requests / engines));
    if (const std::optional<std::string> rate = value_after(line, kThroughput)) {
      out.of_all_per_s =
          decimal_number(place, "Avg generation throughput", *rate, 0.0, kMaxTokensPerSecond);
      out.tokens_per_s = out.of_all_per_s / engines;
    }
    const std::string of_server = writer_of(line, name) + ", " + name;
    const auto before = last_.find(of_server);
    out.steady = before != last_.end() && before->second > 0 && out.requests > 0 &&
                 requests_range_end(before->second) == requests_range_end(out.requests) &&
                 (out.requests > 1 || prompts_per_s(place, line) == 0.0);
    last_[of_server] = out.requests;
    return out;
  }

 private:
  static double prompts_per_s(const LinePlace& place, const std::string& line) {
    const std::optional<std::string> rate = value_after(line, kPrompts);
    return rate ? decimal_number(place, "Avg prompt throughput", *rate, 0.0, kMaxTokensPerSecond)
                : 0.0;
  }
  // Other numbers may stand before it, as those of a clock.
  static std::string name_of(const std::string& line) {
    const std::size_t end = line.find(": Avg ");
    std::size_t begin = line.rfind("Engine", end);
    if (end == std::string::npos || begin == std::string::npos) {
      return "";
    }
    if (line.compare(begin, 7, "Engines") == 0 && begin > 0) {
      const std::size_t other = line.find_last_not_of("0123456789", begin - 2);
      begin = other == std::string::npos ? 0 : other + 1;
    }
    return line.substr(begin, end - begin);
  }
  // "2 Engines Aggregated" speaks of two.
  static std::int64_t engines_of(const std::string& name) {
    std::int64_t engines = 0;
    for (std::size_t i = 0; i < name.size() && name[i] >= '0' && name[i] <= '9'; ++i) {
      engines = std::min(kMaxRequests, 10 * engines + (name[i] - '0'));
    }
    return std::max<std::int64_t>(1, engines);
  }

  std::map<std::string, std::int64_t> last_;  // requests
};

// What is known of a chain at about as many requests.
struct ChainLines {
  ChainCounts counts;
  std::int64_t steps = 0;  // of lines without rates
  double tokens = 0.0;
  std::vector<double> step_ns;
};

// Before "Engine 000: Avg": the word may stand in the name of a process, too.
std::string engine_writer(const std::string& line) {
  const std::size_t avg = line.find(": Avg ");
  const std::size_t at = avg == line.npos ? avg : line.rfind(kEngine, avg);
  return writer_of(std::string_view(line).substr(0, at), "\n");
}

class ServerLog {
 public:
  explicit ServerLog(const ImportText& input) : input_(input) {}

  void take(const LinePlace& place, const std::string& line) {
    if (line.find(kCurrent) != std::string::npos) {
      take_interval(place, line);
    } else if (line.find(kOld) != std::string::npos) {
      old_ = {place, line};
    } else if (value_after(line, kRunning) && value_after(line, kThroughput)) {
      take_engine(engines_.read(place, line), engine_writer(line));
    }
  }

  ImportedPoints points() {
    ImportedPoints out;
    for (const auto& [key, lines] : chains_) {
      add_chain(key, lines, out);
    }
    if (out.points.empty() && old_) {
      out.points.push_back(old_point());
      set_concurrency(out.points.back(), fewest_, most_);
      rows_ = 1;
    }
    check_points(out);
    out.rows_taken = rows_;
    if (idle_ > 0) {
      out.left_out["intervals that drafted nothing"] = idle_;
    }
    if (unsteady_ > 0) {
      out.remarks.push_back(std::to_string(unsteady_) +
                            " intervals in which the requests that ran changed, or one followed "
                            "another, give no time");
    }
    if (timed_) {
      out.remarks.push_back(
          "a step took requests x acceptance length / generation throughput, which counts prefills "
          "in between: the median of the intervals is the one to trust");
    }
    if (!input_.is_plain()) {
      out.remarks.insert(out.remarks.begin(),
                         "acceptance lengths count the bonus token, in the log as in the points; "
                         "accepted tokens there do not");
    }
    return out;
  }

 private:
  using Key = std::pair<std::int64_t, std::int64_t>;  // positions; requests' range, 0: not said

  void take_interval(const LinePlace& place, const std::string& line) {
    const EngineLine engine = engine_before(line);
    if (count_after(place, line, "Drafted:") == 0) {
      idle_ += 1;
      return;
    }
    if (input_.is_plain()) {
      place.refuse("counts drafts, so the server speculated: leave --draft ar out");
    }
    const Interval interval(place, line, input_);
    interval.check_draft(place, input_.draft);
    interval.check_engine(engine.of_all_per_s);
    ChainLines& lines = chains_[{interval.positions(), range_of(engine)}];
    if (interval.has_rates()) {
      lines.counts.add(interval.counts());
    } else {
      lines.steps += interval.drafts();
      lines.tokens += interval.accepted_per_step() * static_cast<double>(interval.drafts());
    }
    if (interval.is_whole()) {
      take_time(engine, interval.accepted_per_step(), lines);
    }
    rows_ += 1;
  }
  // The engine's line just before, of the same server; each is taken once.
  EngineLine engine_before(const std::string& line) {
    auto found = engine_.find(writer_of(line, kCurrent));
    if (found == engine_.end() && engine_.size() == 1) {  // one server, whatever it calls itself
      found = engine_.begin();
    }
    return found == engine_.end() ? EngineLine() : std::exchange(found->second, {});
  }
  void take_engine(const EngineLine& engine, const std::string& writer) {
    if (engine.requests > 0) {
      fewest_ = fewest_ == 0 ? engine.requests : std::min(fewest_, engine.requests);
      most_ = std::max(most_, engine.requests);
    }
    engine_[writer] = engine;
    if (input_.is_plain() && engine.requests > 0 && engine.tokens_per_s >= kLeastRate) {
      rows_ += 1;
      if (engine.steady) {
        take_time(engine, 1.0, chains_[{0, range_of(engine)}]);
      } else {
        unsteady_ += 1;
      }
    }
  }
  void take_time(const EngineLine& engine, double tokens, ChainLines& lines) {
    if (engine.requests == 0 || engine.tokens_per_s < kLeastRate) {
      return;
    }
    if (!engine.steady) {
      unsteady_ += 1;
      return;
    }
    timed_ = true;
    lines.step_ns.push_back(kNsPerSecond * tokens * static_cast<double>(engine.requests) /
                            engine.tokens_per_s);
  }
  static std::int64_t range_of(const EngineLine& engine) {
    return engine.requests > 0 ? requests_range_end(engine.requests) : 0;
  }
  void add_chain(const Key& key, const ChainLines& lines, ImportedPoints& out) const {
    const auto [positions, range] = key;
    const std::size_t first = out.points.size();
    const std::int64_t context_len = context_of(input_, {});
    const DraftChoice chain =
        lines.counts.drafts > 0 ? DraftChoice{positions, 1, positions + 1} : *input_.draft;
    const Strategy strategy =
        strategy_of({.file = input_.file, .line = 1}, input_.attention, chain);
    if (lines.counts.drafts > 0) {
      add_points(out, chain_points(lines.counts, input_, context_len, input_.file));
    }
    if (lines.steps > 0) {
      out.points.push_back(imported_acceptance(
          strategy, context_len,
          acceptance_of_mean(lines.tokens / static_cast<double>(lines.steps), lines.steps)));
    }
    if (!lines.step_ns.empty()) {
      out.points.push_back(imported_step(strategy, context_len, lines.step_ns));
    }
    for (std::size_t i = first; i < out.points.size(); ++i) {
      set_concurrency(out.points[i], range == 0 ? fewest_ : requests_range_low(range),
                      range == 0 ? most_ : range);
    }
  }
  void check_points(const ImportedPoints& out) const {
    if (!out.points.empty() || idle_ > 0) {
      return;
    }
    throw Error(ExitCode::kBadInput,
                input_.file +
                    (input_.is_plain()
                         ? ": has no interval with 'Avg generation throughput' in which as many "
                           "requests ran from its beginning to its end (where one did, the same "
                           "one), so no step was timed"
                         : ": is a log of a vLLM server, but no line of it begins with "
                           "'SpecDecoding metrics': the server did not speculate (--draft ar takes "
                           "its times as plain decoding's), or ran with --disable-log-stats"));
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

  const ImportText& input_;
  std::map<Key, ChainLines> chains_;
  EngineLines engines_;
  std::map<std::string, EngineLine> engine_;  // of the line just before, by who wrote it
  std::optional<std::pair<LinePlace, std::string>> old_;  // the last one holds all before it
  std::int64_t rows_ = 0, idle_ = 0, unsteady_ = 0, fewest_ = 0, most_ = 0;
  bool timed_ = false;
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
