// The record of a run that no campaign opens: device and environment of this machine, no counters.
#pragma once

#include <string>

#include "model/words/measurement.h"

namespace versieve::cli {

// `counters`: why none were collected, a sentence. `configuration`: JSON.
RunRecord uncounted_run(const std::string& kind, Backend backend, const std::string& device,
                        const std::string& counters, const std::string& configuration);

// Refuses a database that takes no results, before long work is done for it: a file of another
// kind, a folder that cannot be written, a full disk. One that is not there is not made.
void require_database(const std::string& path);

}  // namespace versieve::cli
