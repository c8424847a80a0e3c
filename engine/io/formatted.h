// Numbers as text, for tables and files.
#pragma once

#include <string>

#include "model/words/formatted.h"

namespace versieve::engine {

using versieve::formatted;

// The shortest decimal text that reads back to the same number; a point in every locale.
std::string exact_decimal(double value);

}  // namespace versieve::engine
