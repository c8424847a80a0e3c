// The /metrics page of an SGLang server (0.5.23): its counters of finished requests. A request's
// first token comes from its prompt and every other from a verification, so that the tokens of a
// step are (generation tokens - requests) / verification calls. The page's own lengths are of the
// last moments alone and are not read. README.md says which names are read.
#include <optional>

#include "engine/analyse/import/import_points.h"
#include "engine/analyse/import/prometheus_text.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

constexpr std::string_view kFamilies[] = {"sglang:", "sglang_"};
constexpr double kMostCount = 1e15;
constexpr std::int64_t kMaxSetting = 1024;

using Series = std::pair<std::string, std::map<std::string, std::string>>;

// A metric's name behind its family, a counter's without the ending that the text form adds.
std::string metric_of(const std::string& name) {
  for (const std::string_view family : kFamilies) {
    if (name.starts_with(family)) {
      const std::string own = name.substr(family.size());
      return own.ends_with("_total") ? own.substr(0, own.size() - 6) : own;
    }
  }
  return "";
}

bool is_read(const std::string& metric) {
  return metric == "spec_verify_calls" || metric == "generation_tokens" ||
         metric == "num_requests" || metric == "spec_num_steps" ||
         metric == "spec_num_draft_tokens";
}

// The series of one scrape, and sums over them.
class Page {
 public:
  Page(std::string_view text, const std::string& file) : file_(file) {
    for_each_line(text, file, [&](const LinePlace& place, std::string_view line) {
      const std::string metric = metric_of(sample_name(line));
      if (is_read(metric)) {
        const NumberSample sample = number_sample(place, line);
        const double value = checked(place, sample.name, sample.value, 0.0, kMostCount);
        if (!series_.insert({{metric, sample.labels}, value}).second) {
          place.refuse("the metric " + sample.name +
                       " stands twice with the same labels; of two scrapes of one server, "
                       "--before takes the earlier");
        }
        take_model(place, sample.labels);
      }
    });
  }

  // What was counted since `before`.
  double counted(const char* metric, const Page* before) const {
    double sum = 0.0;
    if (before != nullptr) {
      check_kept(metric, *before);
    }
    for (const auto& [series, value] : series_) {
      if (series.first != metric) {
        continue;
      }
      const auto earlier = before == nullptr ? series_.end() : before->series_.find(series);
      const bool was_there = before != nullptr && earlier != before->series_.end();
      if (was_there && earlier->second > value) {
        refuse_reset(metric);
      }
      sum += value - (was_there ? earlier->second : 0.0);
    }
    return sum;
  }
  // A setting that all ranks have, if they do.
  std::optional<std::int64_t> setting(const char* metric) const {
    std::optional<std::int64_t> found;
    for (const auto& [series, value] : series_) {
      if (series.first == metric) {
        const std::int64_t whole = static_cast<std::int64_t>(std::min(value, 1e6));
        if (whole < 1 || whole > kMaxSetting || (found && *found != whole)) {
          return {};
        }
        found = whole;
      }
    }
    return found;
  }
  const std::string& model() const { return model_; }

 private:
  // A series of the earlier scrape that is gone was of a server that is.
  void check_kept(const char* metric, const Page& before) const {
    for (const auto& [series, value] : before.series_) {
      if (series.first == metric && value > 0.0 && series_.count(series) == 0) {
        refuse_reset(metric);
      }
    }
  }
  [[noreturn]] void refuse_reset(const char* metric) const {
    throw Error(ExitCode::kBadInput,
                file_ + ": the counter sglang:" + metric +
                    " was reset between the two scrapes: the server was started again, so import "
                    "each run from scrapes of its own");
  }
  void take_model(const LinePlace& place, const std::map<std::string, std::string>& labels) {
    const auto name = labels.find("model_name");
    if (name != labels.end() && !model_.empty() && model_ != name->second) {
      place.refuse("counts of two models, " + shown(model_) + " and " + shown(name->second) +
                   ": import each from a page of its own");
    }
    model_ = name == labels.end() ? model_ : name->second;
  }

  std::string file_, model_;
  std::map<Series, double> series_;
};

// What was stated, else the gauges of what is active, where they are those of a chain.
DraftChoice draft_of(const Page& page, const ImportText& input) {
  const std::optional<std::int64_t> steps = page.setting("spec_num_steps");
  const std::optional<std::int64_t> tokens = page.setting("spec_num_draft_tokens");
  if (!input.draft && (!steps || !tokens || *tokens != *steps + 1)) {
    throw Error(ExitCode::kBadInput,
                input.file +
                    ": is a /metrics page of SGLang that does not say what was drafted: give "
                    "--draft d<steps>k<topk>n<draft tokens>");
  }
  return input.draft.value_or(DraftChoice{steps.value_or(1), 1, steps.value_or(1) + 1});
}

void check_counts(const Page& page, const std::string& file, double calls, double requests) {
  if (calls >= 1.0 && requests >= 1.0) {
    return;
  }
  throw Error(
      ExitCode::kBadInput,
      file +
          ": is a /metrics page of SGLang that counts no verification of a finished request "
          "(sglang:spec_verify_calls_total, num_requests_total), and its spec_accept_length is of "
          "the last moments alone: give the server's log (its 'Decode batch' lines)" +
          (page.setting("spec_num_steps") ? ", or a page scraped after requests have ended"
                                          : " or a result of bench_serving"));
}

}  // namespace

ImportedPoints read_sglang_counters(const ImportText& input) {
  const LinePlace place{.file = input.file, .line = 1};
  const Page page(input.text, input.file);
  std::optional<Page> before;
  if (!input.before.empty()) {
    before.emplace(input.before, input.file + " (--before)");
  }
  const Page* earlier = before ? &*before : nullptr;
  const double calls = page.counted("spec_verify_calls", earlier);
  const double requests = page.counted("num_requests", earlier);
  const double tokens = page.counted("generation_tokens", earlier);
  check_counts(page, input.file, calls, requests);
  const DraftChoice draft = draft_of(page, input);
  const double length = (tokens - requests) / calls;
  const char* name = "(generation tokens - requests) / verification calls";
  checked(place, name, length, 1.0, 1e6);
  check_length(place, name, draft, length);
  ImportedPoints out{.rows_taken = static_cast<std::int64_t>(requests)};
  out.points = {imported_acceptance(strategy_of(place, input.attention, draft),
                                    context_of(input, {}),
                                    acceptance_of_mean(length, static_cast<std::int64_t>(calls)))};
  out.remarks = {
      std::string("lengths are of every request that ended ") +
      (input.before.empty() ? "since the server started" : "between the two scrapes") +
      ", at any batch size, the bonus token counted; tokens decoded without a draft are in "
      "them, and what an answer's end cut off is not; the page holds no time of a step"};
  if (!input.draft) {
    out.remarks.push_back("the draft is the one that was active when the page was read");
  }
  out.details["model_name"] = page.model();
  return out;
}

}  // namespace versieve::engine
