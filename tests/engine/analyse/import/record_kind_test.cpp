// What a file is, by its own marks: bytes that are no text, and records of other programs.
#include "engine/analyse/import/record_kind.h"

#include <catch2/catch.hpp>

#include "tests/support/errors.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

std::string refusal(const std::string& text, const std::string& format) {
  const Error error = test::error_of([&] { check_record("its.name", text, format); });
  CHECK(error.code() == ExitCode::kBadInput);
  return error.what();
}

}  // namespace

TEST_CASE("what is no text is named") {
  CHECK(test::contains(refusal("\x1F\x8B\x08", "vllm"), "its.name: is compressed (gzip)"));
  CHECK(test::contains(refusal("\x28\xB5\x2F\xFD", "vllm"), "zstd"));
  CHECK(test::contains(refusal("PK\x03\x04", "csv"), "zip"));
  CHECK(test::contains(refusal("PAR1", "csv"), "Parquet"));
  CHECK(test::contains(refusal("SQLite format 3", "csv"), "versieve merge"));
  CHECK(test::contains(refusal("\xFF\xFE{", "sglang"), "UTF-16"));
  CHECK(test::contains(refusal(std::string("I\0N\0F\0", 6), "sglang"), "UTF-16"));
  CHECK(test::contains(refusal(std::string("\0I\0N\0F", 6), "csv"), "UTF-16"));
  CHECK(test::contains(refusal("", "csv"), "is empty: it has no row to import"));
  CHECK(test::contains(refusal(" \n\n", "csv"), "is empty"));
  CHECK(test::contains(refusal("<!DOCTYPE html><html>", "vllm"), "a web page"));
  CHECK(test::contains(refusal("version https://git-lfs.github.com/spec/v1\n", "csv"), "Git LFS"));
}

TEST_CASE("a record of another format says which one reads it, or what to give instead") {
  const auto is = [](const std::string& text, const std::string& format, const std::string& part) {
    CAPTURE(text);
    CHECK(test::contains(refusal(text, format), part));
  };
  is("vllm:spec_decode_num_drafts 3\n", "sglang",
     "a /metrics page of vLLM: --format vllm reads it");
  is("INFO SpecDecoding metrics: x\n", "csv", "a log of a vLLM server: --format vllm");
  is("INFO Avg generation throughput: 3 tokens/s\n", "sglang",
     "a log of a vLLM server: --format vllm");
  is("[2026-01-02 10:00:00] Decode batch, #running-req: 1\n", "vllm", "--format sglang");
  is(R"({"log":"Decode batch, #running-req: 1\n","stream":"stderr"})", "vllm",
     "a log of an SGLang server: --format sglang");
  is("sglang:spec_accept_length{} 2.5\n", "vllm", "/metrics page of SGLang: --format sglang");
  is("vllm:diffusion_num_denoising_steps_total 3\n", "vllm", "denoising steps");
  is("INFO DiffusionDecoding metrics: Committed\nAvg generation throughput: 3", "vllm",
     "of a vLLM server of a diffusion model, whose counts are of denoising steps");
  is(R"({"endpoint_type": "openai", "diffusion_denoising_steps": 3})", "vllm", "denoising steps");
  is(R"({"speculative_decoding": {"acceptance_histogram": [1], "total_accepted_draft_tokens": 0}})",
     "vllm", "TensorRT-LLM's speculative_decoding: --format trtllm");
  is(R"({"aiperf_version": "0.13.0"})", "sglang", "a summary of AIPerf: --format vllm");
  is("trtllm_spec_decode_acceptance_length 2\n", "trtllm", "enable_iter_perf_stats");
  is(R"({"acc_length": 2})", "vllm", "SGLang's bench_speculative: --format sglang");
  is(R"({"request_rate": Infinity, "accept_length": 2})", "vllm", "SGLang's bench_serving");
  is(R"({"endpoint_type": "openai"})", "sglang", "`vllm bench serve`: --format vllm");
  is(R"({"metrics": {"speculative_decoding": {"acceptance_histogram": [1]}}})", "sglang",
     "metrics.speculative_decoding: --format vllm");
  is(R"([{"iterLatencyMS": 3, "specDecodingStats": {}}])", "vllm", "--format trtllm");
  is(R"({"marginal_accept_rates": []})", "vllm", "speculation_profile.json: --format profile");
  is("============ Serving Benchmark Result ============\n", "sglang", "--output-file");
  is(R"({"status": "success", "data": {"resultType": "vector"}})", "vllm", "own /metrics page");
  is(R"({"internal_states": [{"avg_spec_accept_length": 3.6}]})", "sglang", "/server_info");
  is("request,context,strategy,emitted\n", "vllm", "--format csv");
}

TEST_CASE("a format's own records and unknown texts are let through") {
  check_record("f", "vllm_spec_decode_num_drafts_total 3\n", "vllm");
  check_record("f", "anything\n", "vllm");
  check_record("f", R"({"acc_length": 2})", "sglang");
  CHECK(record_kind("[INFO] vllm:num_requests_running 3") == RecordKind::kUnknown);
  CHECK(record_kind("[ {\"acc_length\": 2}]") == RecordKind::kSglangBench);
}
