// What one measured step did launch by launch, and which blocks its tree's nodes chose. Hundreds of
// rows a step: kept beside the point (db/step_details.h) and read where somebody looks into it, so
// that fits and plans do not carry them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace versieve {

// How a launch is known to lie in its range. launched: it was launched within it. order: replayed
// from a graph, whose launches lie in no range; it stands where the launch-by-launch step of the
// same engine has a launch of this kernel within that range. name: one range alone launches this
// kernel. unknown: none of these.
enum class RangeEvidence { kLaunched, kOrder, kName, kUnknown };
inline constexpr int kRangeEvidenceCount = 4;
const char* name_of(RangeEvidence evidence);               // "launched", "order", ...
RangeEvidence range_evidence_of(const std::string& name);  // throws Error(kBadInput)

struct TracedLaunch {
  std::string kernel;  // its name without parameters; "memset", "memcpy DtoH"
  std::string range;   // the NVTX range's name: a kernel's root word; empty: unknown
  RangeEvidence evidence = RangeEvidence::kUnknown;
  std::int64_t start_ns = 0;  // since the step's first launch began, by the GPU's clock
  std::int64_t duration_ns = 0;
  std::int64_t stream = 0;   // CUPTI's number of it
  std::int64_t blocks = 0;   // of the grid; 0: a copy or a memset
  std::int64_t threads = 0;  // of a block

  bool operator==(const TracedLaunch&) const = default;
};

struct StepTrace {
  bool replayed = false;               // from a CUDA graph; else led by the host
  std::optional<double> period_ns;     // to the first launch of the step behind it; none: no such
  std::vector<TracedLaunch> launches;  // by start

  // From the first launch's start to the end of the last to end.
  std::int64_t length_ns() const;
  // At which any launch ran: overlaps count once. What is left of the length is gaps.
  std::int64_t busy_ns() const;
  bool operator==(const StepTrace&) const = default;
};

// Which blocks each node of the tree selected in one layer, of one KV head; nodes in traversal
// order, so that those of a group stand together.
struct BlockChoice {
  std::int64_t layer = 0;
  std::int64_t kv_head = 0;
  std::vector<std::int32_t> parent;               // [N], -1 of the root
  std::vector<std::vector<std::int32_t>> blocks;  // [N], ascending

  bool operator==(const BlockChoice&) const = default;
};

struct StepDetail {
  std::optional<StepTrace> trace;
  std::optional<BlockChoice> choice;

  bool empty() const { return !trace && !choice; }
  bool operator==(const StepDetail&) const = default;
};

}  // namespace versieve
