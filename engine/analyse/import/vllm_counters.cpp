// vLLM's counters of speculative decoding, as its /metrics page shows them (Prometheus' text form).
// README.md says which they are and what follows from them.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <set>

#include "engine/analyse/import/import_points.h"
#include "engine/analyse/import/prometheus_text.h"
#include "engine/analyse/import/text_lines.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

constexpr std::string_view kFamily = "vllm:spec_decode_num_";
constexpr std::int64_t kMaxPosition = 255;
constexpr std::int64_t kMaxDrafts = 1'000'000'000'000'000;
constexpr double kTornRead = 0.01;  // a busy server counts on between two lines of its page

// A counter's name behind kFamily, with or without the ending that the text form adds; none for its
// time of birth and for everything else on the page.
std::optional<std::string> counter_of(const std::string& name) {
  if (!name.starts_with(kFamily) || name.ends_with("_created")) {
    return {};
  }
  const std::string own = name.substr(kFamily.size());
  return own.ends_with("_total") ? own.substr(0, own.size() - 6) : own;
}

// The page's counts, summed over the server's engines.
class Counters {
 public:
  explicit Counters(const std::string& file) : file_(file) {}

  void take(const LinePlace& place, std::string_view line) {
    const std::optional<std::string> name = counter_of(sample_name(line));
    if (!name) {
      return;
    }
    const CounterSample series = counter_sample(place, line);
    if (!seen_.insert({*name, series.labels}).second) {
      place.refuse("the counter " + series.name + " stands twice with the same labels");
    }
    take_model(place, series);
    if (*name != "accepted_tokens_per_pos") {
      totals_[*name] += series.count;
      return;
    }
    const auto position = series.labels.find("position");
    if (position == series.labels.end()) {
      place.refuse("a count of accepted tokens per position has no label position");
    }
    by_position_[whole_number(place, "position", position->second, 0, kMaxPosition)] +=
        series.count;
  }

  std::int64_t drafts() const {
    const std::int64_t count = total("drafts").value_or(0);
    if (by_position_.empty()) {
      refuse(
          "holds no counter vllm:spec_decode_num_accepted_tokens_per_pos: is this the /metrics "
          "page of a vLLM server that speculates?");
    }
    if (count < 1) {
      refuse("counts no draft (vllm:spec_decode_num_drafts): nothing was speculated");
    }
    if (count > kMaxDrafts) {
      refuse("counts " + std::to_string(count) + " drafts, more than any server makes");
    }
    return count;
  }
  // [p]: drafts of which position p and all before it were accepted. Never rises.
  std::vector<std::int64_t> accepted() const {
    std::vector<std::int64_t> out;
    std::int64_t before = drafts();
    for (const auto& [position, count] : by_position_) {
      if (position != static_cast<std::int64_t>(out.size())) {
        refuse("lacks the count of position " + std::to_string(out.size()));
      }
      if (count > before) {
        refuse("position " + std::to_string(position) + " was accepted " + std::to_string(count) +
               " times, more often than what comes before it (" + std::to_string(before) + ")");
      }
      out.push_back(before = count);
    }
    return out;
  }
  std::optional<std::int64_t> total(const std::string& name) const {
    const auto found = totals_.find(name);
    return found == totals_.end() ? std::nullopt : std::optional(found->second);
  }
  const std::string& model() const { return model_; }
  std::int64_t series() const { return static_cast<std::int64_t>(seen_.size()); }
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ExitCode::kBadInput, file_ + ": " + what);
  }

 private:
  void take_model(const LinePlace& place, const CounterSample& series) {
    const auto name = series.labels.find("model_name");
    if (name == series.labels.end()) {
      return;
    }
    if (!model_.empty() && model_ != name->second) {
      place.refuse("counts of two models, " + shown(model_) + " and " + shown(name->second) +
                   ": import each from a page of its own");
    }
    model_ = name->second;
  }

  const std::string& file_;
  std::set<std::pair<std::string, std::map<std::string, std::string>>> seen_;
  std::map<std::string, std::int64_t> totals_;
  std::map<std::int64_t, std::int64_t> by_position_;
  std::string model_;
};

// The counts are of one thing: the total is the positions' sum, and no draft is longer than they.
void check_totals(const Counters& counters, std::int64_t sum, std::int64_t positions) {
  const double slack = 1.0 + kTornRead;
  const double most = static_cast<double>(counters.drafts()) * static_cast<double>(positions);
  const double accepted = static_cast<double>(counters.total("accepted_tokens").value_or(sum));
  if (accepted > slack * static_cast<double>(sum) || slack * accepted < static_cast<double>(sum)) {
    counters.refuse("counts " + std::to_string(*counters.total("accepted_tokens")) +
                    " accepted tokens, but " + std::to_string(sum) + " over the positions");
  }
  if (static_cast<double>(counters.total("draft_tokens").value_or(0)) > slack * most) {
    counters.refuse("counts more draft tokens than drafts times positions");
  }
}

// [a]: drafts whose step emitted a tokens, the bonus counted: those that stopped before position a.
std::vector<std::int64_t> histogram_of(std::int64_t drafts,
                                       const std::vector<std::int64_t>& accepted) {
  std::vector<std::int64_t> histogram = {0};
  std::int64_t before = drafts;
  for (const std::int64_t count : accepted) {
    histogram.push_back(before - count);
    before = count;
  }
  histogram.push_back(before);
  return histogram;
}

Strategy chain_of(const Counters& counters, AttentionMethod attention, std::int64_t positions) {
  try {
    return imported_strategy(attention, {positions, 1, positions + 1});
  } catch (const Error& error) {
    counters.refuse(error.what());
  }
}

std::vector<std::string> remarks_of(const Counters& counters, std::int64_t positions) {
  std::vector<std::string> remarks = {
      "counts are of every request since the server started, at any batch size; they hold no "
      "times"};
  const double drafted =
      static_cast<double>(counters.total("draft_tokens").value_or(counters.drafts() * positions));
  const double mean = drafted / static_cast<double>(counters.drafts());
  if (mean * (1.0 + kTornRead) < static_cast<double>(positions)) {
    char text[120];
    std::snprintf(text, sizeof text, "drafts were %.2f tokens long in the mean, not %lld", mean,
                  static_cast<long long>(positions));
    remarks.push_back(text);
  }
  return remarks;
}

}  // namespace

ImportedPoints read_vllm_counters(const ImportText& input) {
  Counters counters(input.file);
  for_each_line(input.text, input.file,
                [&](const LinePlace& place, std::string_view line) { counters.take(place, line); });
  const std::vector<std::int64_t> accepted = counters.accepted();
  const std::int64_t positions = static_cast<std::int64_t>(accepted.size());
  const AcceptanceMeasurement acceptance = acceptance_of(histogram_of(counters.drafts(), accepted));
  check_totals(counters, acceptance.generated_tokens - acceptance.steps, positions);
  const Strategy chain = chain_of(counters, input.attention, positions);
  ImportedPoints out{.rows_taken = counters.series()};
  out.points = {imported_acceptance(chain, input.context_len, acceptance)};
  out.remarks = remarks_of(counters, positions);
  out.details["model_name"] = counters.model();
  return out;
}

}  // namespace versieve::engine
