// A log of an SGLang server: its "Decode batch" lines, each of the mean accepted length over the
// last steps of all requests that ran, and of the tokens that they gave a second. After SGLang
// 0.5.23's metrics_reporter: gen throughput is tokens over the time since the line before, so
// what a step took is requests x accept len / gen throughput, with prefills in between counted in.
// README.md says which words are read.
#include <algorithm>
#include <cmath>

#include "engine/analyse/import/import_points.h"
#include "engine/analyse/import/text_lines.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kMaxRequests = 1 << 20;
constexpr std::int64_t kMaxSetting = 1024;
constexpr double kMaxTokens = 1e12;
constexpr std::int64_t kUsualInterval = 40;  // decode_log_interval: batches a line

// As the line of the server's arguments writes it: name=5, or name='5'.
std::optional<std::int64_t> setting(const LinePlace& place, const std::string& line,
                                    const std::string& name) {
  std::optional<std::string> value = value_after(line, name + "=");
  if (!value || *value == "None") {
    return {};
  }
  std::erase(*value, '\'');
  return whole_number(place, name, *value, 1, kMaxSetting);
}

// Lines of about as many requests.
struct Lines {
  double steps = 0.0, tokens = 0.0;              // of all requests
  double context = 0.0, context_requests = 0.0;  // tokens in the cache, and of how many requests
  std::vector<double> step_ns;
};

class DecodeLog {
 public:
  explicit DecodeLog(const ImportText& input)
      : file_(input.file), draft_(input.draft), plain_(input.is_plain()) {}

  void take(const LinePlace& place, const std::string& line) {
    if (line.find("Decode batch") == std::string::npos) {
      take_settings(place, line);
      return;
    }
    const std::optional<std::string> running = value_after(line, "#running-req:");
    const std::optional<std::string> length = value_after(line, "accept len:");
    if (length && plain_) {
      place.refuse("has an accept len, so the server speculated: leave --draft ar out");
    }
    if (!running || (!length && !plain_)) {
      without_length_ += 1;
      return;
    }
    const std::int64_t requests = whole_number(place, "#running-req", *running, 0, kMaxRequests);
    const double tokens = plain_ ? 1.0 : decimal_number(place, "accept len", *length, 0.0, 1e6);
    if (requests == 0 || tokens == 0.0) {
      idle_ += 1;
      return;
    }
    checked(place, "accept len", tokens, 1.0, 1e6);
    longest_ = std::max(longest_, tokens);
    Lines& lines = groups_[requests_range_end(requests)];
    lines.steps += static_cast<double>(requests);
    lines.tokens += tokens * static_cast<double>(requests);
    add_context(place, line, requests, lines);
    add_time(place, line, static_cast<double>(requests) * tokens, lines);
    rows_ += 1;
  }

  ImportedPoints points(const ImportText& input) {
    if (rows_ == 0) {
      refuse(without_length_ > 0
                 ? "is a log of an SGLang server whose 'Decode batch' lines have no 'accept len': "
                   "it did not speculate; --draft ar takes its times as plain decoding's"
                 : "is a log of an SGLang server that decoded nothing");
    }
    if (!draft_ && steps_ && topk_) {
      draft_ = DraftChoice{*steps_, *topk_, *topk_ == 1 ? *steps_ + 1 : tokens_.value_or(0)};
    }
    if (!draft_) {
      refuse(
          "is a log of an SGLang server without the line of its arguments, so what was drafted is "
          "not known: give --draft d<steps>k<topk>n<draft tokens>");
    }
    const LinePlace place{.file = input.file, .line = first_};
    const Strategy strategy = strategy_of(place, input.attention, *draft_);
    check_length(place, "accept len", *draft_, longest_);
    ImportedPoints out{.rows_taken = rows_};
    for (const auto& [end, lines] : groups_) {
      add_points_of(strategy, input, end, lines, out);
    }
    if (out.points.empty()) {
      refuse("has no 'gen throughput' beside its requests, so no step was timed");
    }
    if (idle_ > 0) {
      out.left_out["lines of an idle server"] = idle_;
    }
    out.remarks = {
        "a step took requests x accept len / gen throughput, which counts prefills in "
        "between: the median of the lines is the one to trust"};
    if (!plain_) {
      out.remarks.insert(
          out.remarks.begin(),
          {"accept len counts the bonus token, and so do the points",
           "a line is taken for " + std::to_string(interval()) +
               " batches of the requests that ran (decode_log_interval), without a histogram"});
    }
    return out;
  }

 private:
  // Of the line that prints the server's arguments.
  void take_settings(const LinePlace& place, const std::string& line) {
    const auto keep = [&](std::optional<std::int64_t>& to, const char* name) {
      to = to ? to : setting(place, line, name);
    };
    keep(steps_, "speculative_num_steps");
    keep(topk_, "speculative_eagle_topk");
    keep(tokens_, "speculative_num_draft_tokens");
    keep(interval_, "decode_log_interval");
  }
  void add_context(const LinePlace& place, const std::string& line, std::int64_t requests,
                   Lines& lines) {
    std::optional<std::string> tokens = value_after(line, "#token:");
    tokens = tokens ? tokens : value_after(line, "#full token:");
    if (tokens) {
      lines.context += decimal_number(place, "#token", *tokens, 0.0, kMaxTokens);
      lines.context_requests += static_cast<double>(requests);
    }
    first_ = first_ == 0 ? place.line : first_;
  }
  static void add_time(const LinePlace& place, const std::string& line, double tokens,
                       Lines& lines) {
    const std::optional<std::string> rate = value_after(line, "gen throughput (token/s):");
    const double per_second =
        rate ? decimal_number(place, "gen throughput", *rate, 0.0, kMaxTokens) : 0.0;
    if (per_second > 0.0) {
      lines.step_ns.push_back(1e9 * tokens / per_second);
    }
  }
  void add_points_of(const Strategy& strategy, const ImportText& input, std::int64_t end,
                     const Lines& lines, ImportedPoints& out) const {
    const std::optional<double> context = lines.context_requests > 0.0
                                              ? lines.context / lines.context_requests
                                              : std::optional<double>();
    const std::int64_t fewest = requests_range_low(end);
    if (!plain_) {
      out.points.push_back(imported_acceptance(
          strategy, context_of(input, context),
          acceptance_of_mean(lines.tokens / lines.steps,
                             std::llround(lines.steps * static_cast<double>(interval())))));
      set_concurrency(out.points.back(), fewest, end);
    }
    if (!lines.step_ns.empty()) {
      out.points.push_back(imported_step(strategy, context_of(input, context), lines.step_ns));
      set_concurrency(out.points.back(), fewest, end);
    }
  }
  std::int64_t interval() const { return interval_.value_or(kUsualInterval); }
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ExitCode::kBadInput, file_ + ": " + what);
  }

  std::string file_;
  std::optional<DraftChoice> draft_;
  bool plain_ = false;
  std::optional<std::int64_t> steps_, topk_, tokens_, interval_;
  std::map<std::int64_t, Lines> groups_;  // by the range's end
  double longest_ = 0.0;
  std::int64_t rows_ = 0, idle_ = 0, without_length_ = 0, first_ = 0;
};

}  // namespace

ImportedPoints read_sglang_log(const ImportText& input) {
  DecodeLog log(input);
  for_each_marked_line(
      input.text, input.file, {"Decode batch", "speculative_num_steps="},
      [&](const LinePlace& place, const std::string& line) { log.take(place, line); });
  return log.points(input);
}

}  // namespace versieve::engine
