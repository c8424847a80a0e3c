#include "model/launches/step_shape.h"

#include <algorithm>
#include <string>

namespace versieve {

StepShape asked_step(const Strategy& strategy, const LlmShape& target, const DraftShape& draft,
                     std::int64_t context_len, std::int64_t element_bytes) {
  const std::string letters = strategy.schedule_for(target.layers);
  return {.target = target,
          .draft = draft,
          .tree = strategy.draft,
          .context_len = context_len,
          .num_queries = strategy.draft.nodes,
          .refresh_layers = std::count(letters.begin(), letters.end(), 'F'),
          .reuse_layers = std::count(letters.begin(), letters.end(), 'R'),
          .element_bytes = element_bytes,
          .form = strategy.form,
          .group_size = strategy.group_size,
          .group_mode = strategy.group_mode};
}

}  // namespace versieve
