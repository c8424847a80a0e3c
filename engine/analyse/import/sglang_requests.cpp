// Responses of an SGLang server: the meta_info of each (under its OpenAI interface
// sglext.spec_tokens_details), with the steps that got so many of the draft's tokens right. After
// SGLang 0.5.23's tokenizer_manager: there spec_num_proposed_drafts is steps x the configured
// draft, whatever an adaptive server drafted, and the number of verified tokens (the root counted)
// has a histogram of its own; later versions count what was proposed.
#include <algorithm>
#include <set>

#include "engine/analyse/import/chain_counts.h"
#include "engine/analyse/import/json_rows.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

constexpr const char* kRecord = "meta_info of SGLang";
constexpr const char* kHistogram = "spec_correct_drafts_histogram";
constexpr const char* kProposed = "spec_num_proposed_drafts";
constexpr std::int64_t kMostSteps = 1'000'000'000;

// Histograms of draft tokens a step, of which `root` tokens were not drafted.
struct LengthField {
  const char* name;
  std::int64_t root;
};
constexpr LengthField kLengths[] = {{"spec_cap_lens_histogram", 1},
                                    {"spec_proposed_drafts_histogram", 0}};

// Over all responses.
struct Steps {
  std::vector<std::int64_t> histogram;  // [j]: steps that got j draft tokens right, no bonus
  std::int64_t steps = 0, responses = 0;
  std::optional<std::int64_t> proposed = 0;  // draft tokens; none if a response does not say it
  std::set<std::int64_t> a_step;      // draft tokens a step, where they are a multiple of the steps
  bool varies = false;                // they are no such multiple
  std::vector<std::int64_t> reached;  // [p]: steps whose draft had position p, where it is counted
  std::int64_t counted = 0;           // steps of which it is

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
    responses += sum > 0 ? 1 : 0;
    add_proposed(row, sum);
    add_lengths(row, sum);
  }

  // Every response says the same number of draft tokens a step.
  std::optional<std::int64_t> configured() const {
    return counted == 0 && !varies && a_step.size() == 1 ? std::optional(*a_step.begin())
                                                         : std::nullopt;
  }

 private:
  void add_proposed(const JsonRow& row, std::int64_t sum) {
    if (!proposed || !has_number(row.object, kProposed)) {
      proposed.reset();
      return;
    }
    const std::int64_t tokens = count_field(row, kProposed, kRecord, 0, kMostSteps);
    *proposed += tokens;
    if (sum > 0 && tokens % sum == 0) {
      a_step.insert(tokens / sum);
    }
    varies = varies || (sum > 0 && tokens % sum != 0);
  }
  // Steps that the histogram leaves out had all of their draft.
  void add_lengths(const JsonRow& row, std::int64_t sum) {
    for (const auto& [name, root] : kLengths) {
      if (!row.object.contains(name) || !row.object[name].is_array() || row.object[name].empty()) {
        continue;
      }
      const std::vector<std::int64_t> lengths = histogram_field(row, name);
      std::int64_t left = sum;
      for (std::size_t tokens = 0; tokens < lengths.size(); ++tokens) {
        left -= lengths[tokens];
        add_reached(static_cast<std::int64_t>(tokens) - root, lengths[tokens]);
      }
      if (left < 0) {
        row.place.refuse(std::string(name) + " has more steps than spec_verify_ct");
      }
      counted += sum - left;
      return;
    }
  }
  void add_reached(std::int64_t drafted, std::int64_t count) {
    if (count == 0 || drafted < 1) {
      return;
    }
    reached.resize(std::max(reached.size(), static_cast<std::size_t>(drafted)));
    for (std::size_t p = 0; p < static_cast<std::size_t>(drafted); ++p) {
      reached[p] += count;
    }
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
  if (all.counted > 0) {
    counts.draft_tokens.reset();  // the configured draft's, where lengths are counted
    counts.reached = all.reached;
    counts.reached.resize(static_cast<std::size_t>(levels));
    for (std::int64_t& count : counts.reached) {
      count += all.steps - all.counted;
    }
  }
  return counts;
}

AcceptanceMeasurement tree_counts(const Steps& all) {
  std::vector<std::int64_t> emitted = {0};
  emitted.insert(emitted.end(), all.histogram.begin(), all.histogram.end());
  return acceptance_of(std::move(emitted));
}

PointMeasurement tree_point(const Steps& all, const ImportText& input, const LinePlace& place) {
  PointMeasurement point = imported_acceptance(strategy_of(place, input.attention, *input.draft),
                                               context_of(input, {}), tree_counts(all));
  const std::int64_t drafted = input.draft->nodes - 1;
  std::int64_t verified = (all.steps - all.counted) * drafted;
  for (const std::int64_t count : all.reached) {
    verified += count;
  }
  if (all.counted > 0 && verified < all.steps * drafted) {
    point.reliability = Reliability::kAtLeast;
    point.reason =
        "drafts were cut short, and nothing says which of a tree's nodes were: the "
        "length is a lower bound";
  }
  return point;
}

// What was stated is what the server was started with.
void check_draft(const Steps& all, const ImportText& input, const LinePlace& place) {
  const std::int64_t drafted = input.draft->nodes - 1;
  const std::optional<std::int64_t> configured = all.configured();
  if (configured && *configured != drafted) {
    place.refuse(std::string(kProposed) + " is " + std::to_string(*configured) +
                 " draft tokens a step, and --draft says " + std::to_string(drafted) +
                 " (its nodes without the root): give the tree that the server was started with");
  }
  if (static_cast<std::int64_t>(all.reached.size()) > drafted) {
    place.refuse("has drafts of " + std::to_string(all.reached.size()) +
                 " tokens, and --draft says " + std::to_string(drafted) +
                 " (its nodes without the root)");
  }
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
  for_each_json_row(input.text, input.file, [&](const JsonRow& row) {
    for (const JsonRow& meta : rows_with(row, kHistogram)) {
      all.add(meta);
      out.rows_taken += 1;
    }
  });
  while (!all.histogram.empty() && all.histogram.back() == 0) {
    all.histogram.pop_back();
  }
  if (all.steps == 0) {
    place.refuse("counts no step: nothing was speculated");
  }
  check_draft(all, input, place);
  check_length(place, "the longest step", *input.draft, static_cast<double>(all.histogram.size()));
  if (out.rows_taken > all.responses) {
    out.left_out["responses without a draft"] = out.rows_taken - all.responses;
    out.rows_taken = all.responses;
  }
  if (input.draft->width == 1) {
    add_points(out, chain_points(chain_counts(all, input.draft->levels()), input,
                                 context_of(input, {}), input.file));
  } else {
    out.points.push_back(tree_point(all, input, place));
  }
  out.remarks.push_back(std::string(kHistogram) +
                        " leaves the bonus token out; the points count it, as everywhere here");
  if (all.configured()) {
    out.remarks.push_back(
        std::string(kProposed) +
        " counts the configured draft at every step: of a server with speculative-adaptive, which "
        "drafts fewer at times, these lengths are a lower bound");
  }
  return out;
}

}  // namespace versieve::engine
