#include "engine/analyse/serve/serving_file.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/analyse/plan/table_file.h"
#include "engine/analyse/serve/serving_text.h"
#include "engine/io/formatted.h"
#include "engine/io/strict_json.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kFormat = "versieve serving schedule";
constexpr std::int64_t kMost = std::int64_t{1} << 40;
constexpr std::size_t kMostCells = 4096, kMostChoices = 256;

ordered_json json_of(const Interval& i) {
  return ordered_json::array({i.low, i.high});
}

ordered_json json_of(const ServingChoice& c) {
  return {{"draft", draft_text(c.draft)},
          {"depth", c.draft.depth},
          {"width", c.draft.width},
          {"nodes", c.draft.nodes},
          {"tokens", c.tokens},
          {"tokens_interval", json_of(c.tokens_interval)},
          {"tokens_at_least", c.at_least},
          {"tokens_source", name_of(c.token_source)},
          {"break_even", c.break_even},
          {"break_even_interval", json_of(c.break_even_interval)},
          {"times", name_of(c.times)},
          {"gain", c.gain()},
          {"loses", c.loses}};
}

ordered_json json_of(const ServingCell& cell) {
  ordered_json choices = ordered_json::array();
  for (const ServingChoice& c : cell.choices) {
    choices.push_back(json_of(c));
  }
  return {{"context", {cell.context_low, cell.context_high}},
          {"requests", {cell.requests_low, cell.requests_high}},
          {"measured", cell.measured},
          {"plain_step_us",
           cell.plain_step_us ? ordered_json(*cell.plain_step_us) : ordered_json(nullptr)},
          {"best", draft_text(cell.best().draft)},
          {"choices", choices}};
}

// Reads one file's fields; every fault names the file and the field.
class Reader {
 public:
  explicit Reader(std::string path) : path_(std::move(path)) {}

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ExitCode::kBadInput, path_ + ": " + what);
  }
  const json& field(const json& object, const char* name) const {
    if (!object.is_object() || !object.contains(name)) {
      refuse(std::string("lacks the field ") + name);
    }
    return object.at(name);
  }
  double number(const json& value, const char* name, double low, double high) const {
    const double out = value.is_number() ? value.get<double>() : NAN;
    if (!(out >= low && out <= high)) {
      refuse(formatted("%s is no number from %g to %g", name, low, high));
    }
    return out;
  }
  std::int64_t count(const json& value, const char* name, std::int64_t low,
                     std::int64_t high) const {
    if (!value.is_number_integer()) {
      refuse(std::string(name) + " is no whole number");
    }
    return static_cast<std::int64_t>(
        number(value, name, static_cast<double>(low), static_cast<double>(high)));
  }
  std::pair<const json*, const json*> both(const json& value, const char* name) const {
    if (!value.is_array() || value.size() != 2) {
      refuse(std::string(name) + " is not two numbers");
    }
    return {&value[0], &value[1]};
  }
  Interval interval(const json& value, const char* name, double low, double high) const {
    const auto [first, second] = both(value, name);
    const Interval out{number(*first, name, low, high), number(*second, name, low, high)};
    if (out.low > out.high) {
      refuse(std::string(name) + " ends before it begins");
    }
    return out;
  }
  std::string text(const json& value, const char* name) const {
    if (!value.is_string()) {
      refuse(std::string(name) + " is no text");
    }
    return value.get<std::string>();
  }
  bool truth(const json& value, const char* name) const {
    if (!value.is_boolean()) {
      refuse(std::string(name) + " is neither true nor false");
    }
    return value.get<bool>();
  }
  template <class Enum>
  Enum named(const json& value, const char* name, std::size_t count) const {
    const std::string given = text(value, name);
    for (std::size_t i = 0; i < count; ++i) {
      if (given == name_of(static_cast<Enum>(i))) {
        return static_cast<Enum>(i);
      }
    }
    refuse(std::string(name) + " has no such value");
  }

 private:
  std::string path_;
};

ServingChoice choice_of(const Reader& read, const json& object) {
  constexpr double kMostTokens = 1e6;
  ServingChoice out;
  out.draft = {.depth = read.count(read.field(object, "depth"), "depth", 0, 1024),
               .width = read.count(read.field(object, "width"), "width", 0, 1024),
               .nodes = read.count(read.field(object, "nodes"), "nodes", 1, 65536)};
  if (out.draft.speculates() && (out.draft.depth < 1 || out.draft.width < 1)) {
    read.refuse("a choice of several nodes has no depth or no width");
  }
  const double most = static_cast<double>(out.draft.levels() + 1);
  out.tokens = read.number(read.field(object, "tokens"), "tokens", 1.0, most);
  out.tokens_interval =
      read.interval(read.field(object, "tokens_interval"), "tokens_interval", 1.0, most);
  out.at_least = read.truth(read.field(object, "tokens_at_least"), "tokens_at_least");
  out.token_source = read.named<TokenSource>(read.field(object, "tokens_source"), "tokens_source",
                                             kTokenSourceCount);
  out.break_even = read.number(read.field(object, "break_even"), "break_even", 1e-3, kMostTokens);
  out.break_even_interval = read.interval(read.field(object, "break_even_interval"),
                                          "break_even_interval", 1e-3, kMostTokens);
  out.times = read.named<StepTimes>(read.field(object, "times"), "times", kStepTimesCount);
  out.loses = read.number(read.field(object, "loses"), "loses", 0.0, 1.0);
  return out;
}

ServingCell cell_of(const Reader& read, const json& object) {
  ServingCell out;
  const auto [low, high] = read.both(read.field(object, "context"), "context");
  out.context_low = read.count(*low, "context", 0, kMost);
  out.context_high = read.count(*high, "context", out.context_low + 1, kMost);
  const auto [few, many] = read.both(read.field(object, "requests"), "requests");
  out.requests_low = read.count(*few, "requests", 1, kMost);
  out.requests_high = read.count(*many, "requests", out.requests_low, kMost);
  out.measured = read.truth(read.field(object, "measured"), "measured");
  const json& plain = read.field(object, "plain_step_us");
  if (!plain.is_null()) {
    out.plain_step_us = read.number(plain, "plain_step_us", 1e-3, 1e12);
  }
  const json& choices = read.field(object, "choices");
  if (!choices.is_array() || choices.empty() || choices.size() > kMostChoices) {
    read.refuse("a cell's choices are no list of 1 to 256");
  }
  for (const json& choice : choices) {
    out.choices.push_back(choice_of(read, choice));
  }
  return out;
}

// Cells stand by context, then by requests, and leave nothing out from one request on.
void check_order(const Reader& read, const std::vector<ServingCell>& cells) {
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const bool begins = i == 0 || cells[i].context_high != cells[i - 1].context_high;
    const std::int64_t wanted = begins ? 1 : cells[i - 1].requests_high + 1;
    const bool same = begins || cells[i].context_low == cells[i - 1].context_low;
    const bool ascends = !begins || i == 0 || cells[i].context_low >= cells[i - 1].context_high;
    if (cells[i].requests_low != wanted || !same || !ascends) {
      read.refuse(
          formatted("cell %zu does not go on where the one before it ends: contexts and "
                    "requests ascend, and requests begin at 1",
                    i));
    }
  }
}

std::string row_text(const ServingCell& cell, std::size_t rank, const char* between,
                     const char* quote) {
  const ServingChoice& c = cell.choices[rank];
  std::string out;
  for (const std::int64_t number :
       {cell.context_low, cell.context_high, cell.requests_low, cell.requests_high,
        static_cast<std::int64_t>(rank) + 1, c.draft.depth, c.draft.width, c.draft.nodes}) {
    out += std::to_string(number) + between;
  }
  for (const double number : {c.tokens, c.tokens_interval.low, c.tokens_interval.high, c.break_even,
                              c.break_even_interval.low, c.break_even_interval.high, c.loses}) {
    out += exact_decimal(number) + between;
  }
  return out + quote + name_of(c.token_source) + quote + between + quote + name_of(c.times) + quote;
}

std::string one_line(std::string text) {
  for (char& c : text) {
    c = c >= 0x20 && c <= 0x7e && c != '\\' ? c : '?';
  }
  for (std::size_t at = 0; (at = text.find("??", at)) != std::string::npos;) {
    text[at] = '~';
  }
  return text;
}

std::string head_text(const ServingSchedule& s) {
  return "Serving schedule of versieve, schema " + std::to_string(ServingSchedule::kSchema) + ": " +
         s.pair + " on " + s.device + (s.hardware.empty() ? "" : ", roofline of " + s.hardware);
}

}  // namespace

std::string serving_schedule_json(const ServingSchedule& s) {
  ordered_json out = {{"format", kFormat},      {"schema", ServingSchedule::kSchema},
                      {"pair", s.pair},         {"device", s.device},
                      {"hardware", s.hardware}, {"bonus_token", kBonusToken},
                      {"class", "Strict"},      {"intervals", "90 %"},
                      {"notes", s.notes},       {"cells", ordered_json::array()}};
  for (const ServingCell& cell : s.cells) {
    out["cells"].push_back(json_of(cell));
  }
  return out.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

bool is_serving_schedule(const std::string& path) {
  try {
    const json file = read_json_object(path);
    return file.contains("format") && file.at("format") == kFormat;
  } catch (const Error&) {
    return false;
  }
}

ServingSchedule read_serving_schedule(const std::string& path) {
  const Reader read(path);
  const json file = read_json_object(path);
  if (!file.contains("format") || file.at("format") != kFormat) {
    read.refuse("is not a serving schedule that `versieve schedule` wrote");
  }
  const std::int64_t schema = read.count(read.field(file, "schema"), "schema", 0, kMost);
  if (schema != ServingSchedule::kSchema) {
    read.refuse("is a serving schedule of schema " + std::to_string(schema) +
                ", and this program reads schema " + std::to_string(ServingSchedule::kSchema));
  }
  ServingSchedule out{.pair = read.text(read.field(file, "pair"), "pair"),
                      .device = read.text(read.field(file, "device"), "device"),
                      .hardware = read.text(read.field(file, "hardware"), "hardware")};
  const json& notes = read.field(file, "notes");
  const json& cells = read.field(file, "cells");
  if (!notes.is_array() || !cells.is_array() || cells.empty() || cells.size() > kMostCells) {
    read.refuse("has no list of 1 to 4096 cells, or no list of notes");
  }
  for (const json& note : notes) {
    out.notes.push_back(read.text(note, "a note"));
  }
  for (const json& cell : cells) {
    out.cells.push_back(cell_of(read, cell));
  }
  check_order(read, out.cells);
  return out;
}

std::string serving_schedule_csv(const ServingSchedule& s) {
  std::string out =
      "context_low,context_high,requests_low,requests_high,rank,depth,width,nodes,tokens,"
      "tokens_low,tokens_high,break_even,break_even_low,break_even_high,loses,tokens_source,"
      "times\n";
  for (const ServingCell& cell : s.cells) {
    for (std::size_t rank = 0; rank < cell.choices.size(); ++rank) {
      out += row_text(cell, rank, ",", "") + "\n";
    }
  }
  return out;
}

std::string serving_schedule_cpp(const ServingSchedule& s, const std::string& name) {
  if (!name.empty()) {
    check_cpp_name(name);
  }
  const std::string space = name.empty() ? "serving_schedule" : name;
  std::string rows;
  std::size_t count = 0;
  for (const ServingCell& cell : s.cells) {
    for (std::size_t rank = 0; rank < cell.choices.size(); ++rank, ++count) {
      rows += "    {" + row_text(cell, rank, ", ", "\"") + "},\n";
    }
  }
  std::string remarks = "// " + one_line(head_text(s)) + ".\n";
  for (const std::string& note : s.notes) {
    remarks += "// " + one_line(note) + ".\n";
  }
  return remarks +
         "// Contexts are (context_low, context_high], requests requests_low to requests_high; "
         "rank 1\n// is the fastest of its cell, plain decoding (nodes 1) among them. Tokens count "
         "the bonus\n// token; break_even is the tokens at which a step is worth its time.\n"
         "#pragma once\n\n#include <array>\n#include <cstdint>\n\nnamespace versieve_plan {\n"
         "inline namespace " +
         space +
         " {\n\nstruct ServingRow {\n"
         "  std::int64_t context_low, context_high, requests_low, requests_high;\n"
         "  int rank, depth, width, nodes;\n"
         "  double tokens, tokens_low, tokens_high;\n"
         "  double break_even, break_even_low, break_even_high;\n"
         "  double loses;  // probability that plain decoding is faster\n"
         "  const char* tokens_source;\n  const char* times;\n};\n\n"
         "inline constexpr std::array<ServingRow, " +
         std::to_string(count) + "> kServingRows = {{\n" + rows +
         "}};\n\n"
         "// The fastest choice there; null: nothing is known of such contexts or so many "
         "requests.\n"
         "constexpr const ServingRow* find_serving(std::int64_t context, std::int64_t requests) {\n"
         "  for (const ServingRow& row : kServingRows) {\n"
         "    if (row.rank == 1 && row.context_low < context && context <= row.context_high &&\n"
         "        row.requests_low <= requests && requests <= row.requests_high) {\n"
         "      return &row;\n    }\n  }\n  return nullptr;\n}\n\n}  // namespace " +
         space + "\n}  // namespace versieve_plan\n";
}

}  // namespace versieve::engine
