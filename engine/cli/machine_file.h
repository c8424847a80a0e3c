// The hardware file of this machine, from the database's points of its micro-benchmarks.
#pragma once

#include <string>
#include <vector>

#include "engine/measure/sweep/campaign.h"
#include "model/words/measurement.h"

namespace versieve::cli {

// Throws Error(kAnswerNo) where no point states a rate, or where one cannot be; then nothing is
// written.
void write_machine_file(const std::vector<PointMeasurement>& points,
                        const engine::CampaignMachine& machine, const std::string& path);

}  // namespace versieve::cli
