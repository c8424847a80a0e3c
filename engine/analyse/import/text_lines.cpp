#include "engine/analyse/import/text_lines.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "model/words/error.h"

namespace versieve::engine {
namespace {

constexpr std::size_t kMaxLineBytes = 64 << 10;
constexpr std::size_t kMaxShownBytes = 40;

bool is_control(char c) {
  const unsigned char byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\t') || byte == 0x7f;
}

void check_line(const LinePlace& place, std::string_view line) {
  if (line.size() > kMaxLineBytes) {
    place.refuse("is longer than " + std::to_string(kMaxLineBytes) + " bytes");
  }
  if (std::any_of(line.begin(), line.end(), is_control)) {
    place.refuse("holds a control character: this is no text file");
  }
}

// As a person writes it: no trailing zeros.
std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.10g", value);
  return text;
}

// Without the sequences that colour a terminal: ESC [ ... letter.
std::string without_colours(std::string_view line) {
  std::string out;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1B' && i + 1 < line.size() && line[i + 1] == '[') {
      while (i < line.size() && (line[i] < '@' || line[i] > '~' || line[i] == '[')) {
        ++i;
      }
    } else {
      out += line[i];
    }
  }
  return out;
}

template <class Number>
bool is_number(std::string_view text, Number& value) {
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  return status == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::string LinePlace::text() const {
  return file + ", " + unit + " " + std::to_string(line);
}

void LinePlace::refuse(const std::string& what) const {
  throw Error(ExitCode::kBadInput, text() + ": " + what);
}

void for_each_line(std::string_view text, const std::string& file,
                   const std::function<void(const LinePlace&, std::string_view)>& take) {
  if (text.starts_with("\xEF\xBB\xBF")) {
    text.remove_prefix(3);
  }
  LinePlace place{.file = file};
  while (!text.empty()) {
    place.line += 1;
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    check_line(place, line);
    if (!line.empty()) {
      take(place, line);
    }
  }
}

void for_each_marked_line(std::string_view text, const std::string& file,
                          const std::vector<std::string>& marks,
                          const std::function<void(const LinePlace&, const std::string&)>& take) {
  LinePlace place{.file = file};
  bool taken = false;
  while (!text.empty()) {
    place.line += 1;
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, std::min(end, kMaxLineBytes));
    const bool is_cut = end == text.size() && taken;
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!is_cut && std::any_of(marks.begin(), marks.end(), [line](const std::string& mark) {
          return line.find(mark) != line.npos;
        })) {
      take(place, without_colours(line));
      taken = true;
    }
  }
}

std::string writer_of(std::string_view line, std::string_view mark) {
  // Of a name that begins with a digit; T and Z stand in clocks.
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Y' && c != 'T');
  };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  line = line.substr(0, line.find(mark));
  std::string out;
  while (!line.empty()) {
    const std::size_t end = std::min(line.find(' '), line.size());
    const std::string_view word = line.substr(0, end);
    line.remove_prefix(std::min(end + 1, line.size()));
    const std::string_view bare = word.substr(word.starts_with('[') ? 1 : 0);
    const bool is_name = std::any_of(bare.begin(), bare.end(), is_letter);
    if (!bare.empty() && (!is_digit(bare[0]) || is_name) && word.find(':') == word.npos) {
      out += (out.empty() ? "" : " ") + std::string(word);
    }
  }
  return out;
}

std::optional<std::string> value_after(std::string_view line, std::string_view label) {
  const std::size_t at = line.find(label);
  if (at == std::string_view::npos) {
    return {};
  }
  line.remove_prefix(at + label.size());
  line.remove_prefix(std::min(line.find_first_not_of(" ["), line.size()));
  line = line.substr(0, line.find_first_of(", \r)]}%"));
  line.remove_suffix(line.ends_with('.') ? 1 : 0);  // of the sentence
  return std::string(line);
}

std::string shown(std::string_view text) {
  std::string out(text.substr(0, kMaxShownBytes));
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return "'" + out + (text.size() > kMaxShownBytes ? "...'" : "'");
}

std::int64_t whole_number(const LinePlace& place, const std::string& name, std::string_view text,
                          std::int64_t low, std::int64_t high) {
  std::int64_t value = 0;
  if (!is_number(text, value) || value < low || value > high) {
    place.refuse(name + " is " + shown(text) + ", not a whole number from " + std::to_string(low) +
                 " to " + std::to_string(high));
  }
  return value;
}

double decimal_number(const LinePlace& place, const std::string& name, std::string_view text,
                      double low, double high) {
  double value = 0.0;
  if (!is_number(text, value)) {
    place.refuse(name + " is " + shown(text) + ", not a number");
  }
  return checked(place, name, value, low, high);
}

double checked(const LinePlace& place, const std::string& name, double value, double low,
               double high) {
  if (!(value >= low && value <= high)) {
    place.refuse(name + " is " + number_text(value) + ", not a number from " + number_text(low) +
                 " to " + number_text(high));
  }
  return value;
}

}  // namespace versieve::engine
