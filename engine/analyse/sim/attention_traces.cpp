#include "engine/analyse/sim/attention_traces.h"

#include "model/words/assert.h"

namespace versieve::engine {

std::vector<std::unique_ptr<LaunchTrace>> attention_traces(const AttentionCase& a) {
  VERSIEVE_ASSERT(static_cast<std::int64_t>(a.indices.size()) ==
                      a.num_queries() * a.shape.num_kv_heads * a.shape.nsa.sel_count,
                  "a trace knows which blocks are attended");
  std::vector<std::unique_ptr<LaunchTrace>> launches;
  if (a.form == NsaForm::kFused) {
    if (a.reuse) {
      launches.push_back(trace_nsa_reuse(a));
    } else {
      launches.push_back(trace_nsa_route(a));
      launches.push_back(trace_nsa_attend(a));
    }
    return launches;
  }
  launches.push_back(trace_nsa_compressed(a));
  if (!a.reuse) {
    launches.push_back(trace_nsa_select(a));
  }
  launches.push_back(trace_nsa_selected(a));
  launches.push_back(trace_nsa_window(a));
  launches.push_back(trace_nsa_combine(a));
  return launches;
}

}  // namespace versieve::engine
