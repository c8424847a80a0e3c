// printf into a string, for tables of text.
#pragma once

#include <string>

namespace versieve::engine {

// Longer than 511 bytes is cut.
__attribute__((format(printf, 1, 2))) std::string formatted(const char* form, ...);

}  // namespace versieve::engine
