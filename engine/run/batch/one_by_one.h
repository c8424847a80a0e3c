// Requests whose strategy no batch takes (SpecAttn, whose draft model chooses tokens of one
// sequence): one after the other, in the order in which they come, by the generator of single
// requests. Nothing is shared between them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/run/batch/batch_session.h"
#include "engine/run/speculate/generate.h"

namespace versieve::engine {

struct OneByOne {
  std::int64_t steps = 0;  // of all requests
  SessionSeconds spent;    // steps' phases; verifying counts as enqueued, and is waited for
};

// `arrivals`: of each request, ascending; all times by `now`, which `sleep_until` waits for.
// `finish` is given each request when it has ended. REQUIRES: the generator refuses none.
template <class T>
OneByOne run_one_by_one(Generator<T>& generator, const std::vector<BatchRequest>& requests,
                        const std::vector<double>& arrivals, const std::function<double()>& now,
                        const std::function<void(double)>& sleep_until,
                        const std::function<void(FinishedRequest)>& finish);

}  // namespace versieve::engine
