// versieve merge: joins databases of measurements.
#include <CLI/CLI.hpp>
#include <memory>
#include <utility>

#include "db/merge.h"
#include "engine/cli/commands.h"

namespace versieve::cli {
namespace {

struct Options {
  std::string into;
  std::vector<std::string> sources;
  bool summaries = false;
};

// "9 points added (2 attention, 7 step)", each further kind of rows where there are some.
std::string sentence_of(const db::MergeResult& result) {
  std::string kinds;
  for (const auto& [workload, points] : result.points_by_workload) {
    kinds += (kinds.empty() ? "" : ", ") + std::to_string(points) + " " + name_of(workload);
  }
  std::string out = result.source + ": " + std::to_string(result.points_added) + " points added" +
                    (kinds.empty() ? "" : " (" + kinds + ")") + ", ";
  for (const auto& [rows, what] : {std::pair{result.quality_rows_added, "quality rows"},
                                   std::pair{result.step_details_added, "step details"}}) {
    out += rows == 0 ? "" : std::to_string(rows) + " " + what + " added, ";
  }
  return out + std::to_string(result.runs_added) + " runs added, " +
         std::to_string(result.runs_already_there) + " runs already there\n";
}

nlohmann::json json_of(const db::MergeResult& result) {
  nlohmann::json by_workload = nlohmann::json::object();
  for (const auto& [workload, points] : result.points_by_workload) {
    by_workload[name_of(workload)] = points;
  }
  return {{"source", result.source},
          {"runs_added", result.runs_added},
          {"runs_already_there", result.runs_already_there},
          {"points_added", result.points_added},
          {"points_by_workload", by_workload},
          {"quality_rows_added", result.quality_rows_added},
          {"step_details_added", result.step_details_added}};
}

Answer run_merge(const Options& options) {
  Answer answer;
  answer.json = {{"into", options.into}, {"sources", nlohmann::json::array()}};
  const db::MergeDetail detail =
      options.summaries ? db::MergeDetail::kSummaries : db::MergeDetail::kAll;
  for (const db::MergeResult& result : db::merge_into(options.into, options.sources, detail)) {
    answer.json["sources"].push_back(json_of(result));
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
