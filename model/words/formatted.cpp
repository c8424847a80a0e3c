#include "model/words/formatted.h"

#include <cstdarg>
#include <cstddef>
#include <cstdio>

#include "model/words/assert.h"

namespace versieve {

std::string formatted(const char* form, ...) {
  std::string text(128, '\0');
  va_list arguments;
  va_start(arguments, form);
  va_list again;
  va_copy(again, arguments);
  const int length = std::vsnprintf(text.data(), text.size() + 1, form, arguments);
  const std::size_t needed = length < 0 ? 0 : static_cast<std::size_t>(length);
  const bool is_cut = needed > text.size();
  text.resize(needed);
  if (is_cut) {
    std::vsnprintf(text.data(), needed + 1, form, again);
  }
  va_end(again);
  va_end(arguments);
  VERSIEVE_ASSERT(length >= 0, "a form that says what its arguments are");
  return text;
}

}  // namespace versieve
