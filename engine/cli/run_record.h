// The record of a run that no campaign opens: device and environment of this machine, no counters.
#pragma once

#include <string>

#include "model/words/measurement.h"

namespace versieve::cli {

// `counters`: why none were collected, a sentence. `configuration`: JSON.
RunRecord uncounted_run(const std::string& kind, Backend backend, const std::string& device,
                        const std::string& counters, const std::string& configuration);

}  // namespace versieve::cli
