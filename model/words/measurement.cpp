#include "model/words/measurement.h"

#include "model/words/error.h"

namespace versieve {

const char* name_of(WorkloadKind kind) {
  switch (kind) {
    case WorkloadKind::kAttention:
      return "attention";
    case WorkloadKind::kStep:
      return "step";
    case WorkloadKind::kAcceptance:
      return "acceptance";
    case WorkloadKind::kDecode:
      return "decode";
    case WorkloadKind::kTopk:
      return "topk";
    case WorkloadKind::kSampling:
      return "sampling";
    case WorkloadKind::kMachine:
      return "machine";
    case WorkloadKind::kRectify:
      return "rectify";
    case WorkloadKind::kRectifiedStep:
      return "rectified_step";
    case WorkloadKind::kBatch:
      return "batch";
  }
  return "";
}

WorkloadKind workload_kind(const std::string& name) {
  for (int i = 0; i < kWorkloadKindCount; ++i) {
    const WorkloadKind kind = static_cast<WorkloadKind>(i);
    if (name == name_of(kind)) {
      return kind;
    }
  }
  throw Error(ExitCode::kBadInput, "unknown workload '" + name + "'");
}

}  // namespace versieve
