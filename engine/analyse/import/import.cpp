#include "engine/analyse/import/import.h"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/analyse/import/import_points.h"
#include "engine/analyse/import/record_kind.h"
#include "engine/io/sha256.h"
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
  std::optional<std::int64_t> known_context;  // of its first form, part of what makes imports alike
};

ImportedPoints read_sglang(const ImportText& input) {
  switch (record_kind(input.text)) {
    case RecordKind::kSglangServing:
      return read_sglang_serving(input);
    case RecordKind::kSglangLog:
      return read_sglang_log(input);
    case RecordKind::kSglangRequests:
      return read_sglang_requests(input);
    case RecordKind::kSglangPage:
      return read_sglang_counters(input);
    default:
      return read_sglang_bench(input);
  }
}

ImportedPoints read_vllm(const ImportText& input) {
  switch (record_kind(input.text)) {
    case RecordKind::kVllmLog:
      return read_vllm_log(input);
    case RecordKind::kVllmBench:
      return read_vllm_bench(input);
    case RecordKind::kVllmRequests:
      return read_vllm_requests(input);
    case RecordKind::kAiperfSummary:
      return read_aiperf_summary(input);
    default:
      return read_vllm_counters(input);
  }
}

ImportedPoints read_trtllm(const ImportText& input) {
  return record_kind(input.text) == RecordKind::kTrtllmResponses ? read_trtllm_responses(input)
                                                                 : read_trtllm_iterations(input);
}

constexpr std::array<Format, 6> kFormats = {{{"csv", read_step_log, true, {}},
                                             {"sglang", read_sglang, false, kSglangContext},
                                             {"vllm", read_vllm, false, {}},
                                             {"trtllm", read_trtllm, false, {}},
                                             {"profile", read_speculation_profile, false, {}},
                                             {"sequoia", read_sequoia_vector, false, {}}}};

const Format& format_named(const std::string& name) {
  for (const Format& format : kFormats) {
    if (name == format.name) {
      return format;
    }
  }
  throw Error(
      ExitCode::kUsage,
      "unknown format '" + name + "': the formats are csv, sglang, vllm, trtllm, profile, sequoia");
}

// A name goes into the database as it is, and is asked for as it is: one line of UTF-8 without
// spaces around it, which nobody sees.
void check_name(const char* option, const std::string& text) {
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  bool readable = std::none_of(text.begin(), text.end(), is_control);
  try {
    json(text).dump();
  } catch (const json::exception&) {
    readable = false;
  }
  if (!readable || text.empty() || text.size() > kMaxNameBytes || text.front() == ' ' ||
      text.back() == ' ') {
    throw Error(ExitCode::kUsage, std::string(option) + " takes a name, one line of 1 to " +
                                      std::to_string(kMaxNameBytes) +
                                      " bytes of UTF-8 without spaces around it");
  }
}

AttentionMethod attention_of(const ImportRequest& request) {
  const std::string name = request.attention.value_or("dense");
  if (name != "dense" && name != "nsa") {
    throw Error(ExitCode::kUsage, "--attention is dense or nsa, not '" + name + "'");
  }
  return name == "nsa" ? AttentionMethod::kNsa : AttentionMethod::kDense;
}

// "d5k1n6", as in a strategy's text; "ar" of a server that does not speculate.
DraftChoice draft_of(const std::string& text) {
  if (text == "ar") {
    return {};
  }
  try {
    const Strategy strategy = Strategy::parse("dense/" + text + "/bfs/c1/F*");
    if (strategy.draft.speculates()) {
      return strategy.draft;
    }
  } catch (const Error&) {
  }
  throw Error(
      ExitCode::kUsage,
      "--draft is d<depth>k<width>n<nodes, the root counted>, as d5k1n6 of a chain of five, or "
      "ar of a server without speculation, not '" +
          text + "'");
}

// Records of a server without speculation that have its times.
void check_plain(const std::string& file, RecordKind kind) {
  if (kind != RecordKind::kSglangLog && kind != RecordKind::kSglangServing &&
      kind != RecordKind::kVllmLog && kind != RecordKind::kVllmBench &&
      kind != RecordKind::kAiperfSummary) {
    throw Error(ExitCode::kUsage,
                "--draft ar takes the times of a server without speculation, which logs of SGLang "
                "and vLLM and results of bench_serving, `vllm bench serve` and AIPerf have: " +
                    file + " is none of them");
  }
}

void check_request(const ImportRequest& request, const Format& format) {
  check_name("--device", request.device);
  check_name("--model", request.model);
  check_name("--regime", request.regime);
  if (format.says_tuple && (request.attention || request.context_len || request.draft)) {
    throw Error(ExitCode::kUsage, std::string("every line of the format ") + format.name +
                                      " says its strategy and its context: no --attention, no "
                                      "--context and no --draft beside it");
  }
  if (request.context_len && (*request.context_len < 1 || *request.context_len > kMaxContext)) {
    throw Error(ExitCode::kUsage,
                "--context is a number of tokens from 1 to " + std::to_string(kMaxContext));
  }
  constexpr std::int64_t kMostSteps = 1'000'000'000'000;
  if (request.steps &&
      (request.format != "sequoia" || *request.steps < 1 || *request.steps > kMostSteps)) {
    throw Error(ExitCode::kUsage,
                "--steps is how many steps a vector of Sequoia rests on, 1 to 10^12: every other "
                "format counts its own");
  }
  if (!request.before.empty() && request.format != "vllm" && request.format != "sglang") {
    throw Error(ExitCode::kUsage,
                "--before is an earlier /metrics page of vLLM or SGLang: --format vllm or sglang");
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
json source_of(const ImportRequest& request, const Format& format, const std::string& text,
               const std::string& before) {
  json source = {{"format", format.name},  {"sha256", sha256_hex(text)},
                 {"bytes", text.size()},   {"device", request.device},
                 {"model", request.model}, {"regime", request.regime}};
  if (!format.says_tuple) {
    source["attention"] = name_of(attention_of(request));
    if (const auto context = request.context_len ? request.context_len : format.known_context) {
      source["context_len"] = *context;
    }
  }
  if (request.draft) {
    source["draft"] = *request.draft;
  }
  if (request.steps) {
    source["steps"] = *request.steps;
  }
  if (!before.empty()) {
    source["before_sha256"] = sha256_hex(before);
  }
  return source;
}

RunRecord record_of(const ImportRequest& request, json source, const ImportedPoints& read) {
  RunRecord record;
  record.uuid = uuid_of("versieve import 1\n" + source.dump());
  record.kind = kImportedKind + request.format;
  record.device = request.device;
  record.counter_access = CounterState::kOff;
  record.counter_detail = "Imported: another program's record, which has no hardware counters.";
  record.self_check = SelfCheckVerdict::kOff;
  source["file"] = request.file.filename().string();
  source["rows_taken"] = read.rows_taken;
  source["rows_left_out"] = left_out_json(read.left_out);
  source["details"] = read.details;
  record.configuration = source.dump(-1, ' ', false, json::error_handler_t::replace);
  record.environment = R"({"imported":true})";
  record.revision = profiler::revision();
  return record;
}

std::string read_record(const std::filesystem::path& file, const std::string& format) {
  std::string text = read_text_file(file, kMaxFileBytes);
  check_record(file.string(), text, format);
  return text;
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

// What was stated was drafted: other drafts are parts of it, all that the source knows of some.
void check_has_stated(const std::string& file, const DraftChoice& stated,
                      const ImportedPoints& read) {
  bool is_there = false;
  for (const PointMeasurement& point : read.points) {
    const DraftChoice draft = Strategy::parse(point.key.strategy).draft;
    const bool is_part =
        draft.depth <= stated.depth && draft.width <= stated.width && draft.nodes < stated.nodes;
    if (!(draft == stated) && !is_part) {
      throw Error(ExitCode::kBadInput, file + ": says that " + tree_text(draft) +
                                           " was drafted, and --draft " + tree_text(stated) +
                                           ": leave it out");
    }
    is_there = is_there || draft == stated;
  }
  if (!is_there) {
    throw Error(ExitCode::kBadInput, file + ": holds no draft " + tree_text(stated) +
                                         ", which --draft says: leave it out");
  }
}

}  // namespace

ImportedRun read_import(const ImportRequest& request) {
  const Format& format = format_named(request.format);
  check_request(request, format);
  const AttentionMethod attention = attention_of(request);
  const std::optional<DraftChoice> draft =
      request.draft ? std::optional(draft_of(*request.draft)) : std::nullopt;
  const std::string text = read_record(request.file, request.format);
  if (draft && !draft->speculates()) {
    check_plain(request.file.string(), record_kind(text));
  }
  const std::string before =
      request.before.empty() ? std::string() : read_record(request.before, request.format);
  ImportedPoints read = format.read({.file = request.file.string(),
                                     .text = text,
                                     .before = before,
                                     .attention = attention,
                                     .context_len = request.context_len,
                                     .draft = draft,
                                     .steps = request.steps});
  join_same_keys(read.points);
  check_not_empty(request.file.string(), read);
  if (draft && draft->speculates()) {
    check_has_stated(request.file.string(), *draft, read);
  }
  ImportedRun out{.record = record_of(request, source_of(request, format, text, before), read),
                  .points = std::move(read.points),
                  .rows_taken = read.rows_taken,
                  .left_out = std::move(read.left_out),
                  .remarks = std::move(read.remarks)};
  for (PointMeasurement& point : out.points) {
    point.key.model = request.model;
    point.key.regime = request.regime + (point.key.regime.empty() ? "" : ", " + point.key.regime);
  }
  return out;
}

}  // namespace versieve::engine
