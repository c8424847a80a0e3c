#include "engine/analyse/import/json_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "engine/io/strict_json.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 32;  // a server's settings lie in some results

// The same text with null for what Python writes of numbers that are not finite.
std::string finite(std::string_view text) {
  constexpr std::array<std::string_view, 3> kWords = {"-Infinity", "Infinity", "NaN"};
  std::string out;
  out.reserve(text.size());
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto word = std::find_if(kWords.begin(), kWords.end(), [&](std::string_view w) {
      return !quoted && text.substr(i).starts_with(w);
    });
    if (word != kWords.end()) {
      out += "null";
      i += word->size() - 1;
      continue;
    }
    if (text[i] == '\\' && quoted && i + 1 < text.size()) {
      out += text[i++];
    } else if (text[i] == '"') {
      quoted = !quoted;
    }
    out += text[i];
  }
  return out;
}

json parsed(const std::string& source, std::string_view text) {
  return parse_strict_json(finite(text), kMaxDepth, source);
}

void check_object(const LinePlace& place, const json& value) {
  if (!value.is_object()) {
    place.refuse("is not a JSON object");
  }
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line.remove_suffix(line.ends_with('\r') ? 1 : 0);
    lines.push_back(line);
  }
  return lines;
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t") == std::string_view::npos;
}

// One document over several lines, or an object a line? The first line with text decides.
bool is_one_document(const std::vector<std::string_view>& lines) {
  const auto first = std::find_if(lines.begin(), lines.end(),
                                  [](std::string_view line) { return !is_blank(line); });
  if (first == lines.end() || (!first->starts_with('{') && !first->starts_with('['))) {
    return false;
  }
  const bool alone = std::all_of(first + 1, lines.end(), is_blank);
  return first->starts_with('[') || (!alone && !first->ends_with('}'));
}

constexpr double kMostInBin = 1e12;

void find_objects(const JsonRow& row, const json& value, const char* name,
                  std::vector<JsonRow>& found) {
  if (value.is_object() && value.contains(name)) {
    found.push_back({row.place, value});
    return;
  }
  if (value.is_structured()) {
    for (const json& inner : value) {
      find_objects(row, inner, name, found);
    }
  }
}

}  // namespace

std::vector<JsonRow> rows_with(const JsonRow& row, const char* name) {
  std::vector<JsonRow> found;
  find_objects(row, row.object, name, found);
  return found;
}

std::vector<std::int64_t> histogram_field(const JsonRow& row, const char* name,
                                          std::int64_t most_bin) {
  const json& given = row.object.at(name);
  std::vector<std::int64_t> histogram;
  const auto put = [&](std::int64_t bin, const json& count) {
    const double steps = count.is_number() ? count.get<double>() : -1.0;
    if (!(steps >= 0.0 && steps <= kMostInBin) || steps != std::floor(steps)) {
      row.place.refuse(std::string(name) + " holds " + count.dump() + ", not a count of steps");
    }
    histogram.resize(std::max(histogram.size(), static_cast<std::size_t>(bin) + 1));
    histogram[static_cast<std::size_t>(bin)] = static_cast<std::int64_t>(steps);
  };
  std::set<std::int64_t> keys;  // "1" and "01" are one
  if (given.is_array() && given.size() <= static_cast<std::size_t>(most_bin)) {
    for (std::size_t bin = 0; bin < given.size(); ++bin) {
      put(static_cast<std::int64_t>(bin), given[bin]);
    }
  } else if (given.is_object()) {
    for (const auto& [text, count] : given.items()) {
      const std::int64_t bin =
          whole_number(row.place, std::string(name) + "'s key", text, 0, most_bin);
      if (!keys.insert(bin).second) {
        row.place.refuse(std::string(name) + " counts " + text + " twice");
      }
      put(bin, count);
    }
  } else {
    row.place.refuse(std::string(name) + " is neither a list nor an object by tokens");
  }
  return histogram;
}

void for_each_json_row(std::string_view text, const std::string& file,
                       const std::function<void(const JsonRow&)>& take) {
  text.remove_prefix(text.starts_with("\xEF\xBB\xBF") ? 3 : 0);
  const std::vector<std::string_view> lines = lines_of(text);
  LinePlace place{.file = file, .line = 1};
  if (!is_one_document(lines)) {
    for (std::size_t i = 0; i < lines.size(); ++i) {
      place.line = static_cast<std::int64_t>(i) + 1;
      if (!is_blank(lines[i])) {
        const JsonRow row{place, parsed(place.text(), lines[i])};
        check_object(place, row.object);
        take(row);
      }
    }
    return;
  }
  json document = parsed(file, text);
  if (!document.is_array()) {
    check_object(place, document);
    take({place, std::move(document)});
    return;
  }
  place = {.file = file, .unit = "entry"};
  for (json& entry : document) {
    place.line += 1;
    check_object(place, entry);
    take({place, std::move(entry)});
  }
}

std::vector<JsonRow> json_rows(std::string_view text, const std::string& file) {
  std::vector<JsonRow> rows;
  for_each_json_row(text, file, [&rows](const JsonRow& row) { rows.push_back(row); });
  return rows;
}

std::optional<double> token_time(const JsonRow& row, const char* record) {
  constexpr double kLeastMs = 1e-3, kMostMs = 1e6;
  for (const char* name : {"median_tpot_ms", "mean_tpot_ms"}) {
    if (has_number(row.object, name)) {
      return number_field(row, name, record, kLeastMs, kMostMs);
    }
  }
  return {};
}

std::optional<std::int64_t> BenchmarkLoad::requests() const {
  constexpr double kFull = 0.5;          // a run's beginning and end have fewer
  constexpr double kMost = 1'048'576.0;  // no server runs as many
  if (limit && !at_rate && (!mean || *mean >= kFull * static_cast<double>(*limit))) {
    return limit;
  }
  return mean && *mean <= kMost
             ? std::optional(std::max<std::int64_t>(1, std::llround(*mean)))
             : std::nullopt;
}

bool sends_at_rate(const json& object) {
  const auto rate = object.find("request_rate");
  return rate != object.end() && (rate->is_number() || (rate->is_string() && *rate != "inf"));
}

std::string unread_fields(const nlohmann::json& object, std::initializer_list<const char*> read) {
  constexpr std::size_t kMostNamed = 8;
  std::string names;
  std::size_t others = 0;
  for (const auto& [name, value] : object.items()) {
    if (std::find(read.begin(), read.end(), name) != read.end()) {
      continue;
    }
    if (++others <= kMostNamed) {
      names += (names.empty() ? "" : ", ") + shown(name);
    }
  }
  const std::string more =
      others > kMostNamed ? " and " + std::to_string(others - kMostNamed) + " more" : "";
  return others == 0 ? "" : "fields that are not read: " + names + more;
}

bool has_number(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number();
}

double number_field(const JsonRow& row, const char* name, const char* record, double low,
                    double high) {
  const auto found = row.object.find(name);
  if (found == row.object.end()) {
    row.place.refuse(std::string("lacks the field ") + name + ": this is no " + record);
  }
  if (!found->is_number()) {
    row.place.refuse(std::string(name) + " is not a number");
  }
  return checked(row.place, name, found->get<double>(), low, high);
}

std::int64_t count_field(const JsonRow& row, const char* name, const char* record, std::int64_t low,
                         std::int64_t high) {
  const double value = number_field(row, name, record, -1e300, 1e300);
  if (value != static_cast<double>(static_cast<std::int64_t>(std::clamp(value, -1e15, 1e15)))) {
    row.place.refuse(std::string(name) + " is " + row.object[name].dump() + ", not a whole number");
  }
  return static_cast<std::int64_t>(
      checked(row.place, name, value, static_cast<double>(low), static_cast<double>(high)));
}

}  // namespace versieve::engine
