#include "engine/cli/argument_text.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "engine/io/atomic_file.h"

namespace versieve::cli {
namespace {

// The whole text is one T.
template <class T>
bool parses_as(const std::string& text, T& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end;
}

template <class T>
std::string wrong_integer(const std::string& text) {
  T value = 0;
  if (parses_as(text, value) && std::to_string(value) == text) {
    return {};
  }
  return "'" + text + "' is no decimal integer that fits: from " +
         std::to_string(std::numeric_limits<T>::min()) + " to " +
         std::to_string(std::numeric_limits<T>::max());
}

std::string wrong_number(const std::string& text) {
  double value = 0.0;
  if (parses_as(text, value) && std::isfinite(value)) {
    return {};
  }
  return "'" + text + "' is no finite decimal number";
}

std::string empty_text(const std::string& text) {
  return text.empty() ? "is empty: name something, or leave it out" : "";
}

bool is_output(const CLI::Option& option) {
  return option.get_type_name().starts_with("FILE");
}

}  // namespace

std::vector<std::string> outputs_on_standard_output(const CLI::App& command) {
  std::vector<std::string> found;
  for (const CLI::Option* option : command.get_options()) {
    if (is_output(*option) && option->count() > 0 &&
        engine::is_standard_output(option->results().front())) {
      found.push_back(option->results().front());
    }
  }
  return found;
}

std::string name_to_read(const std::string& output) {
  return output.starts_with("/dev/") || output.starts_with("/proc/") ? "FILE" : output;
}

void check_texts(CLI::App& options) {
  for (CLI::Option* option : options.get_options([](CLI::Option*) { return true; })) {
    const std::string type = option->get_type_name();
    if (type.starts_with("INT")) {
      option->check(wrong_integer<std::int64_t>, "");
    } else if (type.starts_with("UINT")) {
      option->check(wrong_integer<std::uint64_t>, "");
    } else if (type.starts_with("FLOAT")) {
      option->check(wrong_number, "");
    } else if (type.starts_with("TEXT") || is_output(*option)) {
      option->check(empty_text, "");
    }
  }
}

}  // namespace versieve::cli
