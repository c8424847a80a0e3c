#include "engine/io/formatted.h"

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

}  // namespace versieve::engine
