#include "engine/analyse/import/prometheus_text.h"

#include <algorithm>
#include <cmath>

namespace versieve::engine {
namespace {

constexpr double kMaxCount = 1e12;  // of one series; sums over a page stay whole
constexpr std::string_view kBlanks = " \t";

// Cursor over one line; every step names what was expected.
class Cursor {
 public:
  Cursor(const LinePlace& place, std::string_view text) : place_(place), rest_(text) {}

  std::string until(std::string_view ends) {
    const std::size_t cut = std::min(rest_.find_first_of(ends), rest_.size());
    const std::string word(rest_.substr(0, cut));
    rest_.remove_prefix(cut);
    return word;
  }
  bool sees(char c) const { return rest_.starts_with(c); }
  bool skip(char c) {
    const bool there = sees(c);
    rest_.remove_prefix(there ? 1 : 0);
    return there;
  }
  void skip_blanks() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(kBlanks), rest_.size()));
  }
  void expect(char c) {
    if (!skip(c)) {
      place_.refuse(std::string("is no line of Prometheus' text form: expected ") + c + " before " +
                    shown(rest_));
    }
  }
  // Between quotes, with backslashes before quotes, backslashes and n.
  std::string quoted() {
    std::string text;
    expect('"');
    while (!rest_.empty() && rest_[0] != '"') {
      skip('\\');
      text += rest_.empty() ? ' ' : rest_[0];
      rest_.remove_prefix(rest_.empty() ? 0 : 1);
    }
    expect('"');
    return text;
  }

 private:
  const LinePlace& place_;
  std::string_view rest_;
};

std::int64_t count_of(const LinePlace& place, const std::string& name, const std::string& text) {
  const double value = decimal_number(place, name, text, 0.0, kMaxCount);
  if (value != std::floor(value)) {
    place.refuse(name + " is " + shown(text) + ", not a whole count");
  }
  return static_cast<std::int64_t>(value);
}

std::map<std::string, std::string> labels_of(Cursor& cursor) {
  std::map<std::string, std::string> labels;
  cursor.expect('{');
  for (cursor.skip_blanks(); !cursor.skip('}'); cursor.skip_blanks()) {
    const std::string label = cursor.until("= \t}");
    cursor.skip_blanks();
    cursor.expect('=');
    cursor.skip_blanks();
    labels[label] = cursor.quoted();
    cursor.skip_blanks();
    cursor.skip(',');
  }
  return labels;
}

// Everything before the number.
std::map<std::string, std::string> head_of(Cursor& cursor, std::string& name) {
  std::map<std::string, std::string> labels;
  cursor.skip_blanks();
  name = cursor.until("{ \t");
  cursor.skip_blanks();
  if (cursor.sees('{')) {
    labels = labels_of(cursor);
  }
  cursor.skip_blanks();
  return labels;
}

}  // namespace

std::string sample_name(std::string_view line) {
  line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
  return std::string(line.substr(0, line.find_first_of("{ \t")));
}

CounterSample counter_sample(const LinePlace& place, std::string_view line) {
  Cursor cursor(place, line);
  CounterSample sample;
  sample.labels = head_of(cursor, sample.name);
  sample.count = count_of(place, sample.name, cursor.until(kBlanks));
  return sample;  // a time may follow
}

NumberSample number_sample(const LinePlace& place, std::string_view line) {
  Cursor cursor(place, line);
  NumberSample sample;
  sample.labels = head_of(cursor, sample.name);
  sample.value = decimal_number(place, sample.name, cursor.until(kBlanks), -1e300, 1e300);
  return sample;
}

}  // namespace versieve::engine
