// printf into a string of any length, for tables and sentences.
#pragma once

#include <string>

namespace versieve {

__attribute__((format(printf, 1, 2))) std::string formatted(const char* form, ...);

}  // namespace versieve
