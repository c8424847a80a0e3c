#include "engine/io/formatted.h"

#include <charconv>
#include <cstdarg>
#include <cstdio>

namespace versieve::engine {

std::string formatted(const char* form, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, form);
  std::vsnprintf(text, sizeof text, form, arguments);
  va_end(arguments);
  return text;
}

std::string exact_decimal(double value) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

}  // namespace versieve::engine
