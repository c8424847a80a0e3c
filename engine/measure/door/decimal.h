// Numbers written as decimal text: the whole text, nothing around it, or none.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace versieve::engine {

// "-12", "007"; no sign but '-', no spaces, no fraction.
std::optional<std::int64_t> decimal_integer(std::string_view text);
// "0.5", "1e-3", "-2"; finite. The nearest double.
std::optional<double> decimal_number(std::string_view text);

}  // namespace versieve::engine
