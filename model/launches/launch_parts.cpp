#include "model/launches/launch_parts.h"

#include "model/launches/linear.h"

namespace versieve {

Traffic scaled(Traffic t, double share) {
  for (std::size_t i = 0; i < kTrafficTermCount; ++i) {
    t.read_bytes[i] *= share;
    t.write_bytes[i] *= share;
  }
  t.flops *= share;
  return t;
}

void widen(double requests, LaunchWork& work) {
  const double chip = number(kLinearBlocksWanted);
  work.rounds *= at_least_one(requests * work.blocks / chip) / at_least_one(work.blocks / chip);
  work.unique = scaled(work.unique, requests);
  work.loaded *= requests;
  work.reused *= requests;
  work.blocks *= requests;
  work.working_set *= requests;
}

void widen_from(std::size_t first, double requests, bool ragged, StepWork& out) {
  if (requests == 1.0) {
    return;
  }
  for (std::size_t i = first; i < out.count; ++i) {
    if (ragged && out.work[i].kind != LaunchKind::kTopkSort) {
      widen(requests, out.work[i]);
    } else {
      out.work[i].launches *= requests;
    }
  }
}

void spare(TrafficTerm term, double bytes, LaunchWork& work) {
  double& read = work.unique.read_bytes[static_cast<std::size_t>(term)];
  const double less = std::min(bytes, read);
  read -= less;
  work.reused = std::max(0.0, work.reused - less);
  work.working_set = std::max(0.0, work.working_set - less);
}

void add_dense_launch(LaunchWork work, StepWork& out, double repeated) {
  work.layer = LayerKind::kRefresh;
  work.dependent = true;
  work.repeated = repeated;
  out.add(work);
}

void read_cold(bool cold, LaunchWork& work) {
  work.handover_distance = cold ? 1e18 : work.handover_distance;
}

}  // namespace versieve
