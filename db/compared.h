// Reads what a database brings to a comparison with another one.
#pragma once

#include <string>

#include "model/words/compared_point.h"

namespace versieve::db {

// `device`: part of its name in any case; empty: the one with most good points. Throws
// Error(kAnswerNo) where there is none of it.
ComparedSide compared_side(const std::string& path, const std::string& device);

}  // namespace versieve::db
