// versieve merge: joins databases of measurements.
#include <CLI/CLI.hpp>
#include <memory>

#include "db/merge.h"
#include "engine/cli/commands.h"

namespace versieve::cli {
namespace {

struct Options {
  std::string into;
  std::vector<std::string> sources;
  bool summaries = false;
};

std::string sentence_of(const db::MergeResult& result) {
  return result.source + ": " + std::to_string(result.points_added) + " points added, " +
         std::to_string(result.runs_added) + " runs added, " +
         std::to_string(result.runs_already_there) + " runs already there\n";
}

Answer run_merge(const Options& options) {
  Answer answer;
  answer.json = {{"into", options.into}, {"sources", nlohmann::json::array()}};
  const db::MergeDetail detail =
      options.summaries ? db::MergeDetail::kSummaries : db::MergeDetail::kAll;
  for (const db::MergeResult& result : db::merge_into(options.into, options.sources, detail)) {
    answer.json["sources"].push_back({{"source", result.source},
                                      {"runs_added", result.runs_added},
                                      {"runs_already_there", result.runs_already_there},
                                      {"points_added", result.points_added}});
    answer.text += sentence_of(result);
  }
  return answer;
}

}  // namespace

Run declare_merge(CLI::App& app, const CommandContext&) {
  const auto options = std::make_shared<Options>();
  app.add_option("--into", options->into, "the database that receives; created if missing")
      ->required();
  app.add_option("SOURCE", options->sources, "databases to take runs and points from")->required();
  app.add_flag("--summaries", options->summaries,
               "of the points that come, medians with their intervals in the place of samples");
  return [options] { return run_merge(*options); };
}

}  // namespace versieve::cli
