// What a database's points of the sweep selections say of how much SpecAttn reads.
#pragma once

#include <string>

#include "engine/analyse/sim/measured_choice.h"

namespace versieve::cli {

// Of an empty name none. Throws Error(kAnswerNo) for a database without such points.
engine::MeasuredChoice measured_choice(const std::string& database);

}  // namespace versieve::cli
