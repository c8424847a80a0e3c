#include "engine/analyse/import/record_kind.h"

#include <algorithm>
#include <array>

#include "model/words/error.h"

namespace versieve::engine {
namespace {

struct Known {
  RecordKind kind;
  const char* name;
  const char* format;  // that reads it; null: none does
  const char* advice;  // where none does
};

constexpr std::array<Known, 20> kKnown = {{
    {RecordKind::kStepLog, "a log of steps in this project's own columns", "csv", ""},
    {RecordKind::kVllmPage, "a /metrics page of vLLM", "vllm", ""},
    {RecordKind::kVllmLog, "a log of a vLLM server", "vllm", ""},
    {RecordKind::kVllmBench, "a result of `vllm bench serve`", "vllm", ""},
    {RecordKind::kVllmRequests, "responses with vLLM's metrics.speculative_decoding", "vllm", ""},
    {RecordKind::kVllmDiffusion, "of a vLLM server of a diffusion model", nullptr,
     "whose counts are of denoising steps: it verifies no draft, so nothing here is of "
     "speculation"},
    {RecordKind::kAiperfSummary, "a summary of AIPerf", "vllm", ""},
    {RecordKind::kSglangBench, "a result of SGLang's bench_speculative", "sglang", ""},
    {RecordKind::kSglangServing, "a result of SGLang's bench_serving", "sglang", ""},
    {RecordKind::kSglangLog, "a log of an SGLang server", "sglang", ""},
    {RecordKind::kSglangRequests, "responses with SGLang's spec_correct_drafts_histogram", "sglang",
     ""},
    {RecordKind::kSglangPage, "a /metrics page of SGLang", "sglang", ""},
    {RecordKind::kTrtllmIterations, "iteration statistics of TensorRT-LLM", "trtllm", ""},
    {RecordKind::kTrtllmResponses, "responses with TensorRT-LLM's speculative_decoding", "trtllm",
     ""},
    {RecordKind::kTrtllmPage, "a Prometheus page of TensorRT-LLM", nullptr,
     "which counts draft tokens but no steps; give the iteration statistics "
     "(enable_iter_perf_stats: "
     "true, then GET /metrics), whose specDecodingStats has both"},
    {RecordKind::kSpeculationProfile, "a speculation_profile.json", "profile", ""},
    {RecordKind::kSequoiaVector, "an acceptance vector of Sequoia", "sequoia", ""},
    {RecordKind::kServingSummary, "the printed summary of a serving benchmark", nullptr,
     "give its JSON (SGLang's bench_serving --output-file, vLLM's --save-result)"},
    {RecordKind::kPrometheusAnswer, "an answer of Prometheus' query interface", nullptr,
     "give the server's own /metrics page"},
    {RecordKind::kSglangServerInfo, "an answer of SGLang's /server_info", nullptr,
     "whose avg_spec_accept_length has no count of steps; give the server's log (its 'Decode "
     "batch' "
     "lines) or a result of bench_serving"},
}};

bool holds(std::string_view text, std::string_view mark) {
  return text.find(mark) != std::string_view::npos;
}

std::string_view without_blanks(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) {
    text.remove_prefix(3);
  }
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  return text;
}

RecordKind json_kind(std::string_view text) {
  struct Mark {
    const char* text;
    RecordKind kind;
  };
  constexpr std::array<Mark, 17> kMarks = {
      {{"\"conditional_accept_rates\"", RecordKind::kSpeculationProfile},
       {"\"marginal_accept_rates\"", RecordKind::kSpeculationProfile},
       {"\"pooled_spec_decode_acceptance_histogram\"", RecordKind::kAiperfSummary},
       {"\"total_accepted_draft_tokens\"", RecordKind::kTrtllmResponses},
       {"\"acceptance_histogram\"", RecordKind::kVllmRequests},
       {"\"aiperf_version\"", RecordKind::kAiperfSummary},
       {"\"spec_correct_drafts_histogram\"", RecordKind::kSglangRequests},
       {"\"diffusion_denoising_steps\"", RecordKind::kVllmDiffusion},
       {"\"spec_decode_", RecordKind::kVllmBench},
       {"\"endpoint_type\"", RecordKind::kVllmBench},
       {"\"specDecodingStats\"", RecordKind::kTrtllmIterations},
       {"\"iterLatencyMS\"", RecordKind::kTrtllmIterations},
       {"\"acc_length\"", RecordKind::kSglangBench},
       {"\"accept_length\"", RecordKind::kSglangServing},
       {"\"max_concurrency\"", RecordKind::kSglangServing},
       {"\"avg_spec_accept_length\"", RecordKind::kSglangServerInfo},
       {"\"resultType\"", RecordKind::kPrometheusAnswer}}};
  for (const Mark& mark : kMarks) {
    if (holds(text, mark.text)) {
      return mark.kind;
    }
  }
  return RecordKind::kUnknown;
}

RecordKind text_kind(std::string_view text) {
  struct Mark {
    const char* text;
    RecordKind kind;
  };
  constexpr std::array<Mark, 13> kMarks = {
      {{"SpecDecoding metrics:", RecordKind::kVllmLog},
       {"Speculative metrics:", RecordKind::kVllmLog},
       {"Decode batch", RecordKind::kSglangLog},
       {" Serving Benchmark Result ", RecordKind::kServingSummary},
       {"vllm:spec_decode_", RecordKind::kVllmPage},
       {"vllm_spec_decode_", RecordKind::kVllmPage},
       {"DiffusionDecoding metrics:", RecordKind::kVllmDiffusion},
       {"vllm:diffusion_", RecordKind::kVllmDiffusion},
       {"vllm_diffusion_", RecordKind::kVllmDiffusion},
       {"Avg generation throughput:", RecordKind::kVllmLog},
       {"sglang:", RecordKind::kSglangPage},
       {"sglang_spec_verify_calls", RecordKind::kSglangPage},
       {"trtllm_", RecordKind::kTrtllmPage}}};
  for (const Mark& mark : kMarks) {
    if (holds(text, mark.text)) {
      return mark.kind;
    }
  }
  const std::string_view first = text.substr(0, text.find('\n'));
  if (without_blanks(text).starts_with("tensor([")) {
    return RecordKind::kSequoiaVector;
  }
  return holds(first, "emitted") && holds(first, "strategy") ? RecordKind::kStepLog
                                                             : RecordKind::kUnknown;
}

// Letters of two bytes without a mark at the beginning: every other byte is zero.
bool is_wide(std::string_view b) {
  return b.size() >= 4 && ((b[0] != 0 && b[1] == 0 && b[2] != 0 && b[3] == 0) ||
                           (b[0] == 0 && b[1] != 0 && b[2] == 0 && b[3] != 0));
}

// What the bytes are instead of text; empty: they may be text.
std::string no_text(std::string_view bytes) {
  struct Magic {
    std::string_view bytes;
    const char* name;
  };
  static constexpr std::array<Magic, 9> kMagic = {
      {{"\x1F\x8B", "compressed (gzip): unpack it first (gunzip)"},
       {"\x28\xB5\x2F\xFD", "compressed (zstd): unpack it first"},
       {"PK\x03\x04",
        "a zip archive: unpack it first, or, of a tensor that torch.save wrote, give what "
        "printing it shows"},
       {"BZh", "compressed (bzip2): unpack it first"},
       {"\xFD"
        "7zXZ",
        "compressed (xz): unpack it first"},
       {"PAR1", "a Parquet file: export it as text"},
       {"SQLite format 3", "a database: `versieve merge` joins those of this project"},
       {"\xFF\xFE", "text in UTF-16: save it as UTF-8"},
       {"\xFE\xFF", "text in UTF-16: save it as UTF-8"}}};
  for (const Magic& magic : kMagic) {
    if (bytes.starts_with(magic.bytes)) {
      return magic.name;
    }
  }
  if (is_wide(bytes)) {
    return "text in UTF-16: save it as UTF-8";
  }
  const std::string_view text = without_blanks(bytes);
  if (text.empty()) {
    return "empty: it has no row to import";
  }
  if (text.starts_with("<!DOCTYPE") || text.starts_with("<!doctype") || text.starts_with("<html") ||
      text.starts_with("<HTML")) {
    return "a web page: save the page's own text (curl), not what a browser shows";
  }
  if (text.starts_with("version https://git-lfs")) {
    return "a pointer of Git LFS: fetch the file itself (git lfs pull)";
  }
  return "";
}

}  // namespace

bool looks_like_json(std::string_view text) {
  text = without_blanks(text);
  if (text.starts_with('[')) {  // a log's line may begin with one too
    text = without_blanks(text.substr(1));
  }
  return text.starts_with('{');
}

RecordKind record_kind(std::string_view text) {
  const RecordKind json = looks_like_json(text) ? json_kind(text) : RecordKind::kUnknown;
  if (json != RecordKind::kUnknown) {
    return json;
  }
  // A log may have its lines in JSON, as containers keep them.
  const RecordKind kind = text_kind(text);
  const bool is_log = kind == RecordKind::kVllmLog || kind == RecordKind::kSglangLog;
  return is_log || !looks_like_json(text) ? kind : RecordKind::kUnknown;
}

void check_record(const std::string& file, std::string_view text, const std::string& format) {
  if (const std::string what = no_text(text); !what.empty()) {
    throw Error(ExitCode::kBadInput, file + ": is " + what);
  }
  const RecordKind kind = record_kind(text);
  const auto known =
      std::find_if(kKnown.begin(), kKnown.end(), [kind](const Known& k) { return k.kind == kind; });
  if (known == kKnown.end() || (known->format != nullptr && known->format == format)) {
    return;
  }
  throw Error(
      ExitCode::kBadInput,
      file + ": is " + known->name +
          (known->format != nullptr ? ": --format " + std::string(known->format) + " reads it"
                                    : ", " + std::string(known->advice)));
}

}  // namespace versieve::engine
