#include "engine/analyse/import/import.h"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/analyse/import/import_points.h"
#include "engine/analyse/import/sha256.h"
#include "engine/io/strict_json.h"
#include "model/words/error.h"
#include "profiler/environment.h"

namespace versieve::engine {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxFileBytes = 256 << 20;
constexpr std::int64_t kMaxContext = 1 << 24;  // tokens
constexpr std::size_t kMaxNameBytes = 200;
// bench_speculative.py asks eight short prompts for 512 tokens each: all of it lies below.
constexpr std::int64_t kSglangContext = 1024;

struct Format {
  const char* name;
  ImportedPoints (*read)(const ImportText& input);
  bool says_tuple;                            // strategy and context stand in the file
  std::optional<std::int64_t> known_context;  // of a format that does not say it
};

constexpr std::array<Format, 3> kFormats = {{{"csv", read_step_log, true, {}},
                                             {"sglang", read_sglang_bench, false, kSglangContext},
                                             {"vllm", read_vllm_counters, false, {}}}};

const Format& format_named(const std::string& name) {
  for (const Format& format : kFormats) {
    if (name == format.name) {
      return format;
    }
  }
  throw Error(ExitCode::kUsage, "unknown format '" + name + "': the formats are csv, sglang, vllm");
}

// A name goes into the database as it is: one line of UTF-8.
void check_name(const char* option, const std::string& text) {
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  bool readable = std::none_of(text.begin(), text.end(), is_control);
  try {
    json(text).dump();
  } catch (const json::exception&) {
    readable = false;
  }
  if (!readable || text.empty() || text.size() > kMaxNameBytes) {
    throw Error(ExitCode::kUsage, std::string(option) + " takes a name, one line of 1 to " +
                                      std::to_string(kMaxNameBytes) + " bytes of UTF-8");
  }
}

AttentionMethod attention_of(const ImportRequest& request) {
  const std::string name = request.attention.value_or("dense");
  if (name != "dense" && name != "nsa") {
    throw Error(ExitCode::kUsage, "--attention is dense or nsa, not '" + name + "'");
  }
  return name == "nsa" ? AttentionMethod::kNsa : AttentionMethod::kDense;
}

std::int64_t context_of(const ImportRequest& request, const Format& format) {
  const std::optional<std::int64_t> context =
      request.context_len ? request.context_len : format.known_context;
  if (!context) {
    throw Error(ExitCode::kUsage, std::string("the format ") + format.name +
                                      " does not say how long the texts were: --context does");
  }
  if (*context < 1 || *context > kMaxContext) {
    throw Error(ExitCode::kUsage,
                "--context is a number of tokens from 1 to " + std::to_string(kMaxContext));
  }
  return *context;
}

void check_request(const ImportRequest& request, const Format& format) {
  check_name("--device", request.device);
  check_name("--model", request.model);
  check_name("--regime", request.regime);
  if (format.says_tuple && (request.attention || request.context_len)) {
    throw Error(ExitCode::kUsage, std::string("every line of the format ") + format.name +
                                      " says its strategy and its context: no --attention and no "
                                      "--context beside it");
  }
}

// Version 8 of RFC 9562: bits of one's own choice, here of a hash.
std::string uuid_of(const std::string& identity) {
  std::string hex = sha256_hex(identity);
  hex[12] = '8';
  hex[16] = '8';
  return hex.substr(0, 8) + "-" + hex.substr(8, 4) + "-" + hex.substr(12, 4) + "-" +
         hex.substr(16, 4) + "-" + hex.substr(20, 12);
}

json left_out_json(const std::map<std::string, std::int64_t>& left_out) {
  json rows = json::array();
  for (const auto& [reason, count] : left_out) {
    rows.push_back({{"reason", reason}, {"rows", count}});
  }
  return rows;
}

// Everything but the file's name, which may change, and what was made of it.
json source_of(const ImportRequest& request, const Format& format, const std::string& text) {
  json source = {{"format", format.name},  {"sha256", sha256_hex(text)},
                 {"bytes", text.size()},   {"device", request.device},
                 {"model", request.model}, {"regime", request.regime}};
  if (!format.says_tuple) {
    source["attention"] = name_of(attention_of(request));
    source["context_len"] = context_of(request, format);
  }
  return source;
}

RunRecord record_of(const ImportRequest& request, json source, const ImportedPoints& read) {
  RunRecord record;
  record.uuid = uuid_of("versieve import 1\n" + source.dump());
  record.kind = kImportedKind + request.format;
  record.device = request.device;
  record.counter_access = "off";
  record.counter_detail = "Imported: another program's record, which has no hardware counters.";
  record.self_check = "off";
  source["file"] = request.file.filename().string();
  source["rows_taken"] = read.rows_taken;
  source["rows_left_out"] = left_out_json(read.left_out);
  source["details"] = read.details;
  record.configuration = source.dump(-1, ' ', false, json::error_handler_t::replace);
  record.environment = R"({"imported":true})";
  record.revision = profiler::revision();
  return record;
}

void check_not_empty(const std::string& file, const ImportedPoints& read) {
  if (!read.points.empty()) {
    return;
  }
  std::string sentence = file + ": has no row to import";
  for (const auto& [reason, rows] : read.left_out) {
    sentence += "; " + std::to_string(rows) + " left out: " + reason;
  }
  throw Error(ExitCode::kBadInput, sentence);
}

}  // namespace

ImportedRun read_import(const ImportRequest& request) {
  const Format& format = format_named(request.format);
  check_request(request, format);
  const AttentionMethod attention = attention_of(request);
  const std::int64_t context = format.says_tuple ? 0 : context_of(request, format);
  const std::string text = read_text_file(request.file, kMaxFileBytes);
  ImportedPoints read = format.read({.file = request.file.string(),
                                     .text = text,
                                     .attention = attention,
                                     .context_len = context});
  check_not_empty(request.file.string(), read);
  ImportedRun out{.record = record_of(request, source_of(request, format, text), read),
                  .points = std::move(read.points),
                  .rows_taken = read.rows_taken,
                  .left_out = std::move(read.left_out),
                  .remarks = std::move(read.remarks)};
  for (PointMeasurement& point : out.points) {
    point.key.model = request.model;
    point.key.regime = request.regime;
  }
  return out;
}

}  // namespace versieve::engine
