// JSON as programs of measurement write it: an object a line, an array of objects, or one document.
// Python's NaN and Infinity, which JSON does not know, are read as null, so that only a field that
// is needed refuses them.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/analyse/import/text_lines.h"

namespace versieve::engine {

struct JsonRow {
  LinePlace place;
  nlohmann::json object;
};

// Throws Error(kBadInput) naming the first line or entry that is no JSON object. Of lines one is
// held at a time.
void for_each_json_row(std::string_view text, const std::string& file,
                       const std::function<void(const JsonRow&)>& take);
std::vector<JsonRow> json_rows(std::string_view text, const std::string& file);

// The field's number. `record` says what has such a field. Refuses a row without it, and one where
// it is no number.
double number_field(const JsonRow& row, const char* name, const char* record, double low,
                    double high);
std::int64_t count_field(const JsonRow& row, const char* name, const char* record, std::int64_t low,
                         std::int64_t high);
// A benchmark's time of a token after the first, in ms (median_tpot_ms, else mean_tpot_ms), which
// both SGLang's and vLLM's have; none where it has neither.
std::optional<double> token_time(const JsonRow& row, const char* record);
inline constexpr const char* kTokenTimes =
    "a step's time is the benchmark's time of a token x the tokens of a step, so what prefills and "
    "the queue took of it is counted in";
// What a benchmark says of how many requests ran at a time.
struct BenchmarkLoad {
  std::optional<std::int64_t> limit;  // that it set
  bool at_rate = false;               // it sent them at a rate, so that fewer may have run
  std::optional<double> mean;

  // The limit, where nothing but it held requests back and half of it or more ran in the mean; else
  // that mean; none where neither is known.
  std::optional<std::int64_t> requests() const;
};
// Does its request_rate say so? ("inf" and Infinity send all at once.)
bool sends_at_rate(const nlohmann::json& object);
// Objects with such a field, at any depth of the row.
std::vector<JsonRow> rows_with(const JsonRow& row, const char* name);
// [j]: a count, of a field that is a list of counts, or an object of them by j.
std::vector<std::int64_t> histogram_field(const JsonRow& row, const char* name,
                                          std::int64_t most_bin = 256);
// "fields that are not read: a, b" of an object's other fields, eight at most; empty: there are
// none.
std::string unread_fields(const nlohmann::json& object, std::initializer_list<const char*> read);
// Is the field there, and a number?
bool has_number(const nlohmann::json& object, const char* name);

}  // namespace versieve::engine
