#include "engine/measure/door/decimal.h"

#include <charconv>
#include <cmath>

namespace versieve::engine {
namespace {

template <class N>
std::optional<N> whole(std::string_view text) {
  N value{};
  const std::from_chars_result result =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

}  // namespace

std::optional<std::int64_t> decimal_integer(std::string_view text) {
  return whole<std::int64_t>(text);
}

std::optional<double> decimal_number(std::string_view text) {
  const std::optional<double> value = whole<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

}  // namespace versieve::engine
