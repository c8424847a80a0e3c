// Responses of an SGLang server: the meta_info of each, with the steps that got so many of the
// draft's tokens right.
#include <algorithm>

#include "engine/analyse/import/chain_counts.h"
#include "engine/analyse/import/json_rows.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

constexpr const char* kRecord = "meta_info of SGLang";
constexpr const char* kHistogram = "spec_correct_drafts_histogram";
constexpr std::int64_t kMostSteps = 1'000'000'000;

// Over all responses; [j]: steps that got j draft tokens right, the bonus not counted.
struct Steps {
  std::vector<std::int64_t> histogram;
  std::int64_t steps = 0;
  std::optional<std::int64_t> proposed = 0;  // draft tokens; none if a response does not say it

  void add(const JsonRow& row) {
    const std::vector<std::int64_t> more = histogram_field(row, kHistogram);
    histogram.resize(std::max(histogram.size(), more.size()));
    std::int64_t sum = 0;
    for (std::size_t tokens = 0; tokens < more.size(); ++tokens) {
      histogram[tokens] += more[tokens];
      sum += more[tokens];
    }
    const std::int64_t stated = count_field(row, "spec_verify_ct", kRecord, 0, kMostSteps);
    if (stated != sum) {
      row.place.refuse("spec_verify_ct is " + std::to_string(stated) + ", but " + kHistogram +
                       " has " + std::to_string(sum) + " steps");
    }
    steps += sum;
    proposed = proposed && has_number(row.object, "spec_num_proposed_drafts")
                   ? std::optional(*proposed + count_field(row, "spec_num_proposed_drafts", kRecord,
                                                           0, kMostSteps))
                   : std::nullopt;
  }
};

ChainCounts chain_counts(const Steps& all, std::int64_t levels) {
  ChainCounts counts{.drafts = all.steps, .draft_tokens = all.proposed};
  counts.accepted.resize(static_cast<std::size_t>(levels));
  for (std::size_t tokens = 1; tokens < all.histogram.size(); ++tokens) {
    for (std::size_t p = 0; p < tokens; ++p) {
      counts.accepted[p] += all.histogram[tokens];
    }
  }
  return counts;
}

AcceptanceMeasurement tree_counts(const Steps& all) {
  std::vector<std::int64_t> emitted = {0};
  emitted.insert(emitted.end(), all.histogram.begin(), all.histogram.end());
  return acceptance_of(std::move(emitted));
}

}  // namespace

ImportedPoints read_sglang_requests(const ImportText& input) {
  const LinePlace place{.file = input.file, .line = 1};
  if (!input.draft) {
    throw Error(ExitCode::kBadInput,
                input.file +
                    ": is responses of an SGLang server, which do not say what was "
                    "drafted: give --draft d<steps>k<topk>n<draft tokens>");
  }
  Steps all;
  ImportedPoints out;
  for (const JsonRow& row : json_rows(input.text, input.file)) {
    for (const JsonRow& meta : rows_with(row, kHistogram)) {
      all.add(meta);
      out.rows_taken += 1;
    }
  }
  while (!all.histogram.empty() && all.histogram.back() == 0) {
    all.histogram.pop_back();
  }
  if (all.steps == 0) {
    place.refuse("counts no step: nothing was speculated");
  }
  check_length(place, "the longest step", *input.draft, static_cast<double>(all.histogram.size()));
  const std::int64_t context_len = context_of(input, {});
  if (input.draft->width == 1) {
    add_points(out, chain_points(chain_counts(all, input.draft->levels()), input, context_len,
                                 input.file));
  } else {
    out.points.push_back(imported_acceptance(strategy_of(place, input.attention, *input.draft),
                                             context_len, tree_counts(all)));
  }
  out.remarks.push_back(std::string(kHistogram) +
                        " leaves the bonus token out; the points count it, as everywhere here");
  return out;
}

}  // namespace versieve::engine
