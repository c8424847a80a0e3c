// Which tuple drafts and verifies a request's next step, where that follows how many requests run
// and how long its context is. Who decides lies elsewhere (engine/analyse/serve/planned_batch.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model/plan/guarded_plan.h"
#include "model/words/strategy.h"

namespace versieve::engine {

// Of one request.
class TupleChooser {
 public:
  virtual ~TupleChooser() = default;
  // Of the next step, whose root stands at `context_len` while so many requests run: an index into
  // TuplePlan::tuples().
  virtual std::size_t next(std::int64_t context_len, std::int64_t running) = 0;
  // The step of the tuple that was chosen last yielded so many tokens, bonus counted.
  virtual void observe(std::int64_t yielded) = 0;
};

class TuplePlan {
 public:
  virtual ~TuplePlan() = default;
  virtual const std::vector<Strategy>& tuples() const = 0;  // all that may be chosen
  virtual std::unique_ptr<TupleChooser> chooser() const = 0;
  virtual const std::vector<std::string>& remarks() const = 0;  // on what it leaves out
};

// Without the tuples that cannot run here. Throws Error(kAnswerNo) where none is left.
using MakeTuplePlan = std::function<std::shared_ptr<const TuplePlan>(const TupleRefusal& refusal)>;

}  // namespace versieve::engine
