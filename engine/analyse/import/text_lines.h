// Lines of a text from an unknown hand, and numbers in them. Every refusal names the file, the line
// and what is wrong, in one sentence (Error, kBadInput).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace versieve::engine {

// Where a sentence points to.
struct LinePlace {
  std::string file;
  std::int64_t line = 0;      // from 1
  const char* unit = "line";  // or "entry", of a JSON array

  std::string text() const;  // "steps.csv, line 3"
  [[noreturn]] void refuse(const std::string& what) const;
};

// Calls `take` for every line that is not empty, without its end (LF or CRLF). A mark of UTF-8 at
// the very beginning is passed over; control characters and lines above 64 KiB are refused.
void for_each_line(std::string_view text, const std::string& file,
                   const std::function<void(const LinePlace&, std::string_view)>& take);

// Calls `take` for every line of a log that holds one of the marks, whatever else the log holds:
// colours (escape sequences) are taken out of it. A last line without its end may be half of one,
// a number of it cut: it is passed over where others were taken.
void for_each_marked_line(std::string_view text, const std::string& file,
                          const std::vector<std::string>& marks,
                          const std::function<void(const LinePlace&, const std::string&)>& take);
// Who wrote a log's line, where several servers or ranks did: its words before `mark` but for
// clocks and places in a source ("[2026-01-02 10:00:10 DP1 TP0] Decode": "DP1 TP0]").
std::string writer_of(std::string_view line, std::string_view mark);
// What follows `label` in a line, up to the next comma or blank; none where the label is not there.
std::optional<std::string> value_after(std::string_view line, std::string_view label);

// A foreign text as a sentence may show it: in quotes, cut, ASCII.
std::string shown(std::string_view text);

// The whole text is one number within bounds; `name` is what the sentence calls it.
std::int64_t whole_number(const LinePlace& place, const std::string& name, std::string_view text,
                          std::int64_t low, std::int64_t high);
double decimal_number(const LinePlace& place, const std::string& name, std::string_view text,
                      double low, double high);
// Refuses NaN and whatever lies outside.
double checked(const LinePlace& place, const std::string& name, double value, double low,
               double high);

}  // namespace versieve::engine
