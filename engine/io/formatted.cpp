#include "engine/io/formatted.h"

#include <charconv>

namespace versieve::engine {

std::string exact_decimal(double value) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

}  // namespace versieve::engine
