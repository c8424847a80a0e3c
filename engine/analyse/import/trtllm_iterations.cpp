// Iteration statistics of TensorRT-LLM (GET /metrics with enable_iter_perf_stats, or get_stats()):
// JSON, an iteration an object, each with specDecodingStats. README.md says which fields are read.
#include <algorithm>

#include "engine/analyse/import/chain_counts.h"
#include "engine/analyse/import/json_rows.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

using nlohmann::json;

constexpr const char* kRecord = "specDecodingStats of TensorRT-LLM";
constexpr std::int64_t kMostTokens = 1'000'000'000;

// Its name in JSON, and in Python's form of the same.
const json* statistics(const json& object) {
  for (const char* name : {"specDecodingStats", "spec_decoding_stats"}) {
    const auto found = object.find(name);
    if (found != object.end() && found->is_object()) {
      return &*found;
    }
  }
  return nullptr;
}

// Iterations of one number of requests at a time.
struct Iterations {
  ChainCounts counts;      // while each was of one request, whose accepted tokens are then known
  bool counted = true;     //
  std::int64_t steps = 0;  // a request an iteration
  std::int64_t drafted = 0, accepted = 0;
};

class Statistics {
 public:
  explicit Statistics(const ImportText& input) : input_(input) {
    if (!input.draft) {
      throw Error(ExitCode::kBadInput,
                  input.file +
                      ": is statistics of TensorRT-LLM, which count draft tokens and not "
                      "their tree: give --draft d<max_draft_len>k<1 or "
                      "dynamic_tree_max_topK>n<draft tokens and the root>");
    }
    levels_ = input.draft->levels();
  }

  void take(const JsonRow& row) {
    const json* given = statistics(row.object);
    if (given == nullptr || !has_number(*given, "numRequestsWithDraftTokens")) {
      left_out_ += 1;
      return;
    }
    const JsonRow stats{row.place, *given};
    const std::int64_t requests =
        count_field(stats, "numRequestsWithDraftTokens", kRecord, 0, kMostTokens);
    const std::int64_t drafted = count_field(stats, "numDraftTokens", kRecord, 0, kMostTokens);
    const std::int64_t accepted = count_field(stats, "numAcceptedTokens", kRecord, 0, kMostTokens);
    if (requests == 0) {
      left_out_ += 1;
      return;
    }
    if (accepted > drafted || accepted > requests * levels_ ||
        drafted > requests * (input_.draft->nodes - 1)) {
      row.place.refuse("numDraftTokens and numAcceptedTokens are more than --draft " +
                       tree_text(*input_.draft) + " allows " + std::to_string(requests) +
                       " requests");
    }
    add(requests, drafted, accepted);
  }

  ImportedPoints points() const {
    ImportedPoints out{.rows_taken = rows_};
    for (const auto& [requests, all] : groups_) {
      ImportedPoints read = points_of(all);
      for (PointMeasurement& point : read.points) {
        set_concurrency(point, requests, requests);
      }
      add_points(out, std::move(read));
    }
    if (left_out_ > 0) {
      out.left_out["iterations without a draft"] = left_out_;
    }
    out.remarks.push_back(
        "acceptanceLength counts the bonus token and numAcceptedTokens does not; the points count "
        "it, as everywhere here");
    return out;
  }

 private:
  void add(std::int64_t requests, std::int64_t drafted, std::int64_t accepted) {
    Iterations& all = groups_[requests];
    all.steps += requests;
    all.drafted += drafted;
    all.accepted += accepted;
    all.counted = requests == 1 && input_.draft->width == 1;
    if (all.counted) {
      ChainCounts& c = all.counts;
      c.drafts += 1;
      c.accepted.resize(static_cast<std::size_t>(levels_));
      c.reached.resize(static_cast<std::size_t>(levels_));
      for (std::int64_t p = 0; p < drafted; ++p) {
        c.reached[static_cast<std::size_t>(p)] += 1;
        c.accepted[static_cast<std::size_t>(p)] += p < accepted ? 1 : 0;
      }
    }
    rows_ += 1;
  }
  ImportedPoints points_of(const Iterations& all) const {
    const std::int64_t context_len = context_of(input_, {});
    if (all.counted) {
      return chain_points(all.counts, input_, context_len, input_.file);
    }
    ImportedPoints out;
    const double steps = static_cast<double>(all.steps);
    out.points = {imported_acceptance(
        strategy_of({.file = input_.file, .line = 1}, input_.attention, *input_.draft), context_len,
        acceptance_of_mean(1.0 + static_cast<double>(all.accepted) / steps, all.steps))};
    const double mean = static_cast<double>(all.drafted) / steps;
    const std::int64_t whole = input_.draft->nodes - 1;
    if (mean * (1.0 + kTornRead) < static_cast<double>(whole)) {
      out.points.back().reliability = Reliability::kAtLeast;
      out.points.back().reason = "drafts had fewer tokens in the mean than the " +
                                 std::to_string(whole) + " of " + tree_text(*input_.draft) +
                                 ", and nothing says which were cut short: the length is a lower "
                                 "bound";
      out.remarks = {out.points.back().reason};
    }
    return out;
  }

  const ImportText& input_;
  std::int64_t levels_ = 0;
  std::map<std::int64_t, Iterations> groups_;  // by requests at a time
  std::int64_t rows_ = 0, left_out_ = 0;
};

}  // namespace

ImportedPoints read_trtllm_iterations(const ImportText& input) {
  Statistics statistics(input);
  for_each_json_row(input.text, input.file,
                    [&statistics](const JsonRow& row) { statistics.take(row); });
  return statistics.points();
}

}  // namespace versieve::engine
