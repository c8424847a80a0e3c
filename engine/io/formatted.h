// printf into a string, for tables of text.
#pragma once

#include <string>

namespace versieve::engine {

// Longer than 511 bytes is cut.
__attribute__((format(printf, 1, 2))) std::string formatted(const char* form, ...);

// The shortest decimal text that reads back to the same number; a point in every locale.
std::string exact_decimal(double value);

}  // namespace versieve::engine
