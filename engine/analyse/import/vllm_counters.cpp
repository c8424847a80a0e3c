// vLLM's counters of speculative decoding, as its /metrics page shows them (Prometheus' text form,
// or OpenMetrics with underscores), of the V1 engine, and of the V0 engine (to 0.9), which counts
// drafted and emitted tokens and neither drafts nor positions. README.md says which they are and
// what follows from them.
#include <algorithm>
#include <optional>
#include <set>

#include "engine/analyse/import/chain_counts.h"
#include "engine/analyse/import/prometheus_text.h"
#include "engine/analyse/import/text_lines.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

constexpr std::string_view kFamilies[] = {"vllm:spec_decode_num_", "vllm_spec_decode_num_"};
constexpr std::string_view kBirth = "_created";
constexpr std::int64_t kMaxPosition = 255;

using Labels = std::map<std::string, std::string>;
using Series = std::pair<std::string, Labels>;

// A counter's name behind its family, without the ending that the text form adds; empty for
// everything else on the page.
std::string counter_of(const std::string& name) {
  for (const std::string_view family : kFamilies) {
    if (name.starts_with(family)) {
      const std::string own = name.substr(family.size());
      return own.ends_with("_total") ? own.substr(0, own.size() - 6) : own;
    }
  }
  return "";
}

// The series of one scrape.
struct Page {
  std::map<Series, std::int64_t> counts;
  std::map<Series, double> births;  // when each began to count, by the counter's own name
  std::string model;

  void take(const LinePlace& place, std::string_view line) {
    const std::string name = counter_of(sample_name(line));
    if (name.empty()) {
      return;
    }
    if (name.ends_with(kBirth)) {
      const NumberSample sample = number_sample(place, line);
      births[{name.substr(0, name.size() - kBirth.size()), sample.labels}] = sample.value;
      return;
    }
    const CounterSample series = counter_sample(place, line);
    if (!counts.insert({{name, series.labels}, series.count}).second) {
      place.refuse("the counter " + series.name +
                   " stands twice with the same labels; of two scrapes of one server, --before "
                   "takes the earlier");
    }
    take_model(place, series.labels);
  }

 private:
  void take_model(const LinePlace& place, const Labels& labels) {
    const auto name = labels.find("model_name");
    if (name == labels.end()) {
      return;
    }
    if (!model.empty() && model != name->second) {
      place.refuse("counts of two models, " + shown(model) + " and " + shown(name->second) +
                   ": import each from a page of its own");
    }
    model = name->second;
  }
};

Page page_of(std::string_view text, const std::string& file) {
  Page page;
  for_each_line(text, file,
                [&](const LinePlace& place, std::string_view line) { page.take(place, line); });
  return page;
}

// What was counted between two scrapes. A server that was started again counts from none.
void take_off(const Page& before, Page& page, const std::string& file) {
  for (const auto& [series, count] : before.counts) {
    const auto now = page.counts.find(series);
    const auto birth = page.births.find(series);
    const auto birth_before = before.births.find(series);
    const bool reborn = birth != page.births.end() && birth_before != before.births.end() &&
                        birth->second != birth_before->second;
    if (now == page.counts.end() || now->second < count || reborn) {
      throw Error(
          ExitCode::kBadInput,
          file + ": the counter vllm:spec_decode_num_" + series.first +
              " was reset between the two scrapes (" + std::to_string(count) + ", then " +
              (now == page.counts.end() ? "none" : std::to_string(now->second)) +
              "): the server was started again, so import each run from scrapes of its own");
    }
    now->second -= count;
  }
}

// The counts of one engine of one server, by the labels that its series share.
class Engine {
 public:
  void take(const LinePlace& place, const Series& series, std::int64_t count) {
    const std::string& name = series.first;
    const bool accepted = name == "accepted_tokens_per_pos";
    if (!accepted && name != "draft_tokens_per_pos") {
      totals_[name] += count;
      return;
    }
    const auto position = series.second.find("position");
    if (position == series.second.end()) {
      place.refuse("a count of tokens per position has no label position");
    }
    (accepted ? accepted_
              : drafted_)[whole_number(place, "position", position->second, 0, kMaxPosition)] +=
        count;
  }

  ChainCounts counts(const std::string& file) const {
    ChainCounts out;
    out.drafts = total("drafts").value_or(0);
    out.draft_tokens = total("draft_tokens");
    out.accepted_tokens = total("accepted_tokens");
    out.accepted = by_position(accepted_, file);
    out.reached = by_position(drafted_, file);
    // Of drafts that all had every position the engine's own length is known.
    if (out.reached.empty() && is_whole(out)) {
      out.reached.assign(out.accepted.size(), out.drafts);
    }
    return out;
  }

 private:
  std::optional<std::int64_t> total(const std::string& name) const {
    const auto found = totals_.find(name);
    return found == totals_.end() ? std::nullopt : std::optional(found->second);
  }
  static std::vector<std::int64_t> by_position(const std::map<std::int64_t, std::int64_t>& counts,
                                               const std::string& file) {
    std::vector<std::int64_t> out;
    for (const auto& [position, count] : counts) {
      if (position != static_cast<std::int64_t>(out.size())) {
        throw Error(ExitCode::kBadInput,
                    file + ": lacks the count of position " + std::to_string(out.size()));
      }
      out.push_back(count);
    }
    return out;
  }

  std::map<std::string, std::int64_t> totals_;
  std::map<std::int64_t, std::int64_t> accepted_, drafted_;
};

// Engines and replicas are distinguished by their labels and added up.
ChainCounts counts_of(const Page& page, const std::string& file) {
  const LinePlace place{.file = file, .line = 1};
  std::map<Labels, Engine> engines;
  Engine whole;
  for (const auto& [series, count] : page.counts) {
    Labels labels = series.second;
    labels.erase("position");
    engines[labels].take(place, series, count);
    whole.take(place, series, count);
  }
  ChainCounts sum;
  for (const auto& [labels, engine] : engines) {
    const ChainCounts counts = engine.counts(file);
    if (counts.drafts == 0 || counts.accepted.empty()) {
      // An idle engine adds nothing; series whose labels do not match are counted as one engine's.
      if (counts.drafts == 0 && counts.draft_tokens.value_or(0) == 0 &&
          std::all_of(counts.accepted.begin(), counts.accepted.end(),
                      [](std::int64_t count) { return count == 0; })) {
        continue;
      }
      return whole.counts(file);
    }
    sum.add(counts);
  }
  return sum.drafts == 0 ? whole.counts(file) : sum;
}

std::int64_t sum_of(const Page& page, const std::string& counter) {
  std::int64_t sum = 0;
  for (const auto& [series, count] : page.counts) {
    sum += series.first == counter ? count : 0;
  }
  return sum;
}

// The V0 engine's emitted tokens count the bonus; its accepted ones are of each position on its
// own and say no length.
std::optional<PointMeasurement> old_point(const Page& page, const ImportText& input,
                                          std::int64_t context_len) {
  const std::int64_t emitted = sum_of(page, "emitted_tokens");
  const LinePlace place{.file = input.file, .line = 1};
  if (emitted == 0) {
    return {};
  }
  if (!input.draft) {
    place.refuse(
        "is a page of vLLM's V0 engine, which does not say how long its drafts were: give --draft "
        "d<K>k1n<K+1> of a chain of K tokens");
  }
  const std::int64_t steps = sum_of(page, "draft_tokens") / input.draft->levels();
  if (steps < 1) {
    place.refuse("counts no draft token: nothing was speculated");
  }
  const double length = static_cast<double>(emitted) / static_cast<double>(steps);
  check_length(place, "the mean of emitted tokens", *input.draft, length);
  return imported_acceptance(strategy_of(place, input.attention, *input.draft), context_len,
                             acceptance_of_mean(std::max(1.0, length), steps));
}

void check_speculates(const ChainCounts& counts, const std::string& file) {
  if (counts.accepted.empty()) {
    throw Error(ExitCode::kBadInput,
                file +
                    ": holds no counter vllm:spec_decode_num_accepted_tokens_per_pos: is this "
                    "the /metrics page of a vLLM server that speculates?");
  }
  if (counts.drafts < 1) {
    throw Error(ExitCode::kBadInput,
                file + ": counts no draft (vllm:spec_decode_num_drafts): nothing was speculated");
  }
}

}  // namespace

ImportedPoints read_vllm_counters(const ImportText& input) {
  const std::int64_t context_len = context_of(input, {});
  Page page = page_of(input.text, input.file);
  if (!input.before.empty()) {
    take_off(page_of(input.before, input.file + " (--before)"), page, input.file);
  }
  ImportedPoints out;
  if (const std::optional<PointMeasurement> old = old_point(page, input, context_len)) {
    out.points = {*old};
  } else {
    const ChainCounts counts = counts_of(page, input.file);
    check_speculates(counts, input.file);
    out = chain_points(counts, input, context_len, input.file);
  }
  out.rows_taken = static_cast<std::int64_t>(page.counts.size());
  out.remarks.insert(
      out.remarks.begin(),
      std::string("counts are of every request ") +
          (input.before.empty() ? "since the server started" : "between the two scrapes") +
          ", at any batch size; they hold no times; accepted tokens leave the bonus token out, and "
          "the points count it");
  out.details["model_name"] = page.model;
  return out;
}

}  // namespace versieve::engine
