#include "model/measurement.h"

#include "model/error.h"

namespace versieve {

const char* name_of(WorkloadKind kind) {
  switch (kind) {
    case WorkloadKind::kAttention:
      return "attention";
    case WorkloadKind::kStep:
      return "step";
    case WorkloadKind::kAcceptance:
      return "acceptance";
  }
  return "";
}

WorkloadKind workload_kind(const std::string& name) {
  for (const WorkloadKind kind :
       {WorkloadKind::kAttention, WorkloadKind::kStep, WorkloadKind::kAcceptance}) {
    if (name == name_of(kind)) {
      return kind;
    }
  }
  throw Error(ExitCode::kBadInput, "unknown workload '" + name + "'");
}

}  // namespace versieve
