// Joins databases: shards of one sweep, other people's runs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/words/measurement.h"

namespace versieve::db {

struct MergeResult {
  std::string source;
  std::int64_t runs_added = 0;
  std::int64_t runs_already_there = 0;  // same uuid; points that the target lacks are added
  std::int64_t points_added = 0;
  std::map<WorkloadKind, std::int64_t> points_by_workload;  // they
  std::int64_t quality_rows_added = 0;
  std::int64_t step_details_added = 0;  // of step points, there or added: what one step did
};

// kSummaries: of a timed point that comes, six samples that have its median and the median's
// interval in the place of all, of a launch the median of its times, and no counter that says
// nothing. What ships so is a tenth of the size; what is fitted wants every sample.
enum class MergeDetail { kAll, kSummaries };

// Copies every run and point that the target lacks; runs are the same if their uuid is. Merging
// twice changes nothing. All sources are opened before anything is written, and all of them are one
// transaction: where a source is missing, foreign, corrupt or newer (Error 3) or the disk is full
// (Error 4), one sentence says so, the target stays as it was, and no new one is made (where the
// file system has no hard links an empty one may be). Creates the target if it is not there.
std::vector<MergeResult> merge_into(const std::string& target,
                                    const std::vector<std::string>& sources,
                                    MergeDetail detail = MergeDetail::kAll);

}  // namespace versieve::db
