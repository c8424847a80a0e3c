// A log of an SGLang server: its "Decode batch" lines, each of the mean accepted length over the
// last steps of all requests that ran, and of the tokens that they gave a second. After SGLang
// 0.5.23's metrics_reporter: gen throughput is tokens over the time since the line before, a rest
// of the server included, so what a step took is requests x accept len / gen throughput, prefills
// in between counted in, where about as many ran at both lines and it did not rest between them.
// A server that adapts its drafts (speculative_adaptive) does not say which one a line is of, and
// "cap len" is how many tokens of a draft it verified in the mean, the root counted. README.md says
// which words are read.
#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/analyse/import/import_points.h"
#include "engine/analyse/import/text_lines.h"
#include "engine/io/formatted.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kMaxRequests = 1 << 20;
constexpr std::int64_t kMaxSetting = 1024;
constexpr double kMaxTokens = 1e12;
constexpr const char* kDecode = "Decode batch";
constexpr const char* kPrefill = "Prefill batch";
constexpr const char* kRunning = "#running-req:";
constexpr const char* kSteps = "speculative_num_steps";
constexpr const char* kTopk = "speculative_eagle_topk";
constexpr const char* kTokens = "speculative_num_draft_tokens";
constexpr const char* kArguments = "server_args=";
constexpr const char* kAdapted = "Adaptive spec params updated:";
constexpr std::int64_t kUsualInterval = 40;  // decode_log_interval: batches a line
constexpr double kHalfDigit = 0.006;         // of lengths and rates, which have two digits
constexpr double kWholeCap = 0.99;
constexpr double kLeastRate = 0.01;  // tokens a second: the last digit that is written

// Contexts are distinguished by doubling ranges: to 1,024 tokens, 2,048, 4,096 ...
std::int64_t context_range_end(double tokens) {
  std::int64_t end = 1024;
  while (static_cast<double>(end) < tokens) {
    end *= 2;
  }
  return end;
}

// Does the rate follow from the length for this draft? Drafted tokens that were right over those
// drafted (0.5.23); before, all tokens over those verified; over its levels in either.
bool follows(double rate, double length, const DraftChoice& draft) {
  const double nodes = static_cast<double>(draft.nodes);
  const double levels = static_cast<double>(draft.levels());
  const double forms[][2] = {
      {length - 1.0, nodes - 1.0}, {length, nodes}, {length - 1.0, levels}, {length, levels}};
  return std::any_of(std::begin(forms), std::end(forms), [rate](const double(&form)[2]) {
    return std::abs(rate - form[0] / form[1]) <= kHalfDigit + kHalfDigit / form[1];
  });
}

// As the line of the server's arguments writes it: name=5, or name='5'; 'name': 5 in 0.5.23, which
// prints what the arguments were resolved to.
std::optional<std::string> argument(const std::string& line, const std::string& name) {
  std::optional<std::string> value = value_after(line, name + "=");
  value = value ? value : value_after(line, "'" + name + "':");
  if (value) {
    std::erase(*value, '\'');
  }
  return value;
}
std::optional<std::int64_t> setting(const LinePlace& place, const std::string& line,
                                    const std::string& name) {
  const std::optional<std::string> value = argument(line, name);
  if (!value || *value == "None") {
    return {};
  }
  return whole_number(place, name, *value, 1, kMaxSetting);
}

// Lines of about as many requests and, where no context is stated, of about as long a context.
struct Lines {
  double steps = 0.0, tokens = 0.0;              // of all requests
  double context = 0.0, context_requests = 0.0;  // tokens in the cache, and of how many requests
  double caps = 0.0, capped = 0.0;               // tokens verified a step, of requests so far
  std::vector<double> step_ns;
};

// A rank of data parallelism ("DP3 TP0]"), or another server in the same log.
std::string rank_of(const std::string& line) {
  return writer_of(line, line.find(kDecode) == std::string::npos ? kPrefill : kDecode);
}

// What ran at a rank's line before; a rank that rested since then, or has not begun, ran nothing.
class Ranks {
 public:
  void rest(const std::string& line) { last_[rank_of(line)] = 0; }
  void restart() { last_.clear(); }
  // Did about as many run since the line before?
  bool was_steady(const std::string& line, std::int64_t requests) {
    const std::int64_t before = std::exchange(last_[rank_of(line)], requests);
    return before > 0 && requests_range_end(before) == requests_range_end(requests);
  }

 private:
  std::map<std::string, std::int64_t> last_;
};

class DecodeLog {
 public:
  explicit DecodeLog(const ImportText& input)
      : file_(input.file),
        draft_(input.draft),
        plain_(input.is_plain()),
        by_context_(!input.context_len) {}

  void take(const LinePlace& place, const std::string& line) {
    if (line.find(kPrefill) != std::string::npos) {
      if (value_after(line, kRunning) == "0") {
        ranks_.rest(line);
      }
      return;
    }
    if (line.find(kDecode) == std::string::npos) {
      take_settings(place, line);
      return;
    }
    const std::optional<std::string> running = value_after(line, kRunning);
    const std::optional<std::string> length = value_after(line, "accept len:");
    if (length && plain_) {
      place.refuse("has an accept len, so the server speculated: leave --draft ar out");
    }
    const std::int64_t requests =
        running ? whole_number(place, "#running-req", *running, 0, kMaxRequests) : 0;
    const bool steady = ranks_.was_steady(line, requests);
    if (!running || (!length && !plain_)) {
      without_length_ += 1;
      return;
    }
    const double tokens = plain_ ? 1.0 : decimal_number(place, "accept len", *length, 0.0, 1e6);
    if (requests == 0 || tokens == 0.0) {
      idle_ += 1;
      return;
    }
    checked(place, "accept len", tokens, 1.0, 1e6);
    longest_ = std::max(longest_, tokens);
    take_rate(place, line, tokens);
    const std::optional<double> cached = cached_tokens(place, line);
    const double context = cached.value_or(0.0) / static_cast<double>(requests);
    Lines& lines =
        groups_[{by_context_ ? context_range_end(context) : 0, requests_range_end(requests)}];
    lines.steps += static_cast<double>(requests);
    lines.tokens += tokens * static_cast<double>(requests);
    add_context(place, cached, requests, lines);
    add_cap(place, line, requests, lines);
    add_time(place, line, static_cast<double>(requests) * tokens, steady, lines);
    rows_ += 1;
  }

  // The server was started again with another draft, of which what follows is.
  bool ends_before(const LinePlace& place, const std::string& line) const {
    const auto differs = [&](const std::optional<std::int64_t>& now, const char* name) {
      const std::optional<std::int64_t> next = setting(place, line, name);
      return next && now && *next != *now;
    };
    return has_rows() && line.find(kDecode) == std::string::npos &&
           (differs(steps_, kSteps) || differs(topk_, kTopk) || differs(tokens_, kTokens));
  }
  bool has_rows() const { return rows_ > 0; }

  ImportedPoints points(const ImportText& input) {
    if (rows_ == 0) {
      refuse(without_length_ > 0
                 ? "is a log of an SGLang server whose 'Decode batch' lines have no 'accept len': "
                   "it did not speculate; --draft ar takes its times as plain decoding's"
                 : "is a log of an SGLang server that decoded nothing");
    }
    take_draft();
    if (!draft_) {
      refuse(
          "is a log of an SGLang server without the line of its arguments, so what was drafted is "
          "not known: give --draft d<steps>k<topk>n<draft tokens>");
    }
    const LinePlace place{.file = input.file, .line = first_};
    const Strategy strategy = strategy_of(place, input.attention, *draft_);
    check_length(place, "accept len", *draft_, longest_);
    ImportedPoints out{.rows_taken = rows_};
    if (const std::string remark = rates_remark(place); !remark.empty()) {
      out.remarks.push_back(remark);
    }
    for (const auto& [key, lines] : groups_) {
      add_points_of(strategy, input, key.second, lines, out);
    }
    if (out.points.empty()) {  // of a plain server
      refuse(unsteady_ > 0
                 ? "has no line at which about as many requests ran as at the one before it, "
                   "without a rest between them, so no step was timed"
                 : "has no 'gen throughput' beside its requests, so no step was timed");
    }
    if (idle_ > 0) {
      out.left_out["lines of an idle server"] = idle_;
    }
    if (without_length_ > 0) {
      out.left_out["lines without an accept len, of a server that did not speculate"] =
          without_length_;
    }
    if (adaptive_) {
      out.left_out["times of drafts whose length no line says"] = rows_;
    }
    if (unsteady_ > 0 && !adaptive_) {
      out.remarks.push_back(
          std::to_string(unsteady_) +
          " lines give no time: the requests that ran had changed since the line before, or the "
          "server had rested");
    }
    if (!adaptive_) {
      out.remarks.push_back(
          "a step took requests x accept len / gen throughput, which counts prefills in "
          "between: the median of the lines is the one to trust");
    }
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
      const std::optional<std::int64_t> value = setting(place, line, name);
      to = value && rows_ == 0 ? value : to;
    };
    if (line.find(kArguments) != std::string::npos) {
      ranks_.restart();
    }
    keep(steps_, kSteps);
    keep(topk_, kTopk);
    keep(tokens_, kTokens);
    keep(interval_, "decode_log_interval");
    adaptive_ = adaptive_ || argument(line, "speculative_adaptive") == "True" ||
                line.find(kAdapted) != std::string::npos;
  }
  // What was stated, else what the arguments say.
  void take_draft() {
    if (plain_ || !steps_ || !topk_) {
      return;
    }
    const DraftChoice said{*steps_, *topk_, *topk_ == 1 ? *steps_ + 1 : tokens_.value_or(0)};
    if (said.nodes > 0 && !adaptive_) {
      check_stated({.file = file_, .line = first_}, draft_, said);
    }
    draft_ = draft_ ? draft_ : said;
  }
  void take_rate(const LinePlace& place, const std::string& line, double tokens) {
    if (const std::optional<std::string> rate = value_after(line, "accept rate:")) {
      rates_.push_back({decimal_number(place, "accept rate", *rate, 0.0, 1e6), tokens});
    }
  }
  // What most lines' rates say beside the draft: nothing where they follow from it, else a refusal
  // where they all follow from another number of draft tokens, else a remark. (An adaptive server's
  // are of its longest draft, whatever it drafted.)
  std::string rates_remark(const LinePlace& place) const {
    const auto fitting = [this](const DraftChoice& draft) {
      return std::count_if(rates_.begin(), rates_.end(), [&draft](const auto& pair) {
        return follows(pair.first, pair.second, draft);
      });
    };
    const std::ptrdiff_t lines = static_cast<std::ptrdiff_t>(rates_.size());
    if (plain_ || 2 * fitting(*draft_) >= lines) {
      return "";
    }
    const auto [rate, length] = rates_.front();
    const double tokens = rate > 0.0 ? (length - 1.0) / rate : 0.0;
    const std::int64_t other = std::llround(std::clamp(tokens, 0.0, 1e3));
    if (lines > 2 && other > 0 && fitting({other, 1, other + 1}) == lines) {
      place.refuse("has accept rates of " + std::to_string(other) +
                   " draft tokens a step (accept len less the bonus, over accept rate), and the "
                   "draft is " +
                   std::to_string(draft_->nodes - 1) +
                   " tokens: give the tree that the server was started with as --draft");
    }
    return "accept rates do not follow from accept len for this draft: is it the one that the "
           "server was started with?";
  }
  static void add_cap(const LinePlace& place, const std::string& line, std::int64_t requests,
                      Lines& lines) {
    if (const std::optional<std::string> cap = value_after(line, ", cap len:")) {
      lines.caps +=
          static_cast<double>(requests) * decimal_number(place, "cap len", *cap, 0.0, 1e6);
      lines.capped += static_cast<double>(requests);
    }
  }
  // Why the lengths of these lines are no measurement of the whole draft; empty: they are.
  std::string bound_of(const Lines& lines) const {
    if (adaptive_) {
      return "the server adapted its drafts (speculative_adaptive), and no line says how long they "
             "were: the length is a lower bound for the longest";
    }
    const double nodes = static_cast<double>(draft_->nodes);
    if (lines.capped > 0.0 && lines.caps < kWholeCap * nodes * lines.capped) {
      return formatted(
          "%.2f of %.0f tokens were verified in the mean (cap len, the root counted): "
          "the length is a lower bound",
          lines.caps / lines.capped, nodes);
    }
    return "";
  }
  static std::optional<double> cached_tokens(const LinePlace& place, const std::string& line) {
    std::optional<std::string> tokens = value_after(line, "#token:");
    tokens = tokens ? tokens : value_after(line, "#full token:");
    return tokens ? std::optional(decimal_number(place, "#token", *tokens, 0.0, kMaxTokens))
                  : std::nullopt;
  }
  void add_context(const LinePlace& place, std::optional<double> tokens, std::int64_t requests,
                   Lines& lines) {
    if (tokens) {
      lines.context += *tokens;
      lines.context_requests += static_cast<double>(requests);
    }
    first_ = first_ == 0 ? place.line : first_;
  }
  void add_time(const LinePlace& place, const std::string& line, double tokens, bool steady,
                Lines& lines) {
    const std::optional<std::string> rate = value_after(line, "gen throughput (token/s):");
    const double per_second =
        rate ? decimal_number(place, "gen throughput", *rate, 0.0, kMaxTokens) : 0.0;
    if (per_second < kLeastRate) {
      return;
    }
    if (!steady) {
      unsteady_ += 1;
      return;
    }
    lines.step_ns.push_back(1e9 * tokens / per_second);
  }
  void add_points_of(const Strategy& strategy, const ImportText& input, std::int64_t end,
                     const Lines& lines, ImportedPoints& out) const {
    const std::optional<double> context = lines.context_requests > 0.0
                                              ? lines.context / lines.context_requests
                                              : std::optional<double>();
    const std::int64_t fewest = requests_range_low(end);
    const std::string bound = bound_of(lines);
    if (!bound.empty()) {
      add_remark(out, bound);
    }
    if (!plain_) {
      out.points.push_back(imported_acceptance(
          strategy, context_of(input, context),
          acceptance_of_mean(lines.tokens / lines.steps,
                             std::llround(lines.steps * static_cast<double>(interval())))));
      set_concurrency(out.points.back(), fewest, end);
      out.points.back().reason = bound;
      out.points.back().reliability =
          bound.empty() ? out.points.back().reliability : Reliability::kAtLeast;
    }
    if (!lines.step_ns.empty() && !adaptive_) {
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
  bool by_context_ = true, adaptive_ = false;
  std::optional<std::int64_t> steps_, topk_, tokens_, interval_;
  std::vector<std::pair<double, double>> rates_;                   // accept rate, accept len
  std::map<std::pair<std::int64_t, std::int64_t>, Lines> groups_;  // ends of context, of requests
  Ranks ranks_;
  double longest_ = 0.0;
  std::int64_t rows_ = 0, idle_ = 0, without_length_ = 0, first_ = 0, unsteady_ = 0;
};

}  // namespace

ImportedPoints read_sglang_log(const ImportText& input) {
  ImportedPoints out;
  std::optional<DecodeLog> log(std::in_place, input);
  for_each_marked_line(input.text, input.file,
                       {kDecode, kPrefill, kArguments, std::string(kSteps) + "=", kAdapted},
                       [&](const LinePlace& place, const std::string& line) {
                         if (log->ends_before(place, line)) {
                           add_points(out, log->points(input));
                           log.emplace(input);
                         }
                         log->take(place, line);
                       });
  if (log->has_rows() || out.points.empty()) {
    add_points(out, log->points(input));
  }
  return out;
}

}  // namespace versieve::engine
