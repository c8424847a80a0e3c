// One line of standard error that says how far a command is, written over by the next.
#pragma once

#include <string>

#include "engine/measure/sweep/campaign.h"
#include "engine/run/quality/lossy_quality.h"

namespace versieve::cli {

std::string duration_text(double seconds);  // "3:07"
std::string progress_text(const engine::CampaignProgress& progress);
std::string quality_progress_text(const engine::QualityProgress& progress);

}  // namespace versieve::cli
