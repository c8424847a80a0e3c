#include "tests/engine/analyse/import/reader_samples.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>

#include "model/words/error.h"

namespace versieve::test {

using engine::ImportRequest;

namespace {

ReaderSample sample(const char* name, const char* format, const std::string& text,
                    std::optional<std::string> draft = {}) {
  ImportRequest request{.format = format, .device = "X", .model = "m"};
  if (std::string(format) != "csv") {
    request.context_len = 2048;
  }
  request.draft = std::move(draft);
  if (std::string(format) == "sequoia") {
    request.steps = 1000;
  }
  return {name, request, text};
}

}  // namespace

std::vector<ReaderSample> reader_samples() {
  const std::string decode =
      "[2026-01-02 10:00:01 TP0] Decode batch, #running-req: 3, #token: 4000, token usage: 0.01, "
      "accept len: 2.50, accept rate: 0.50, cuda graph: True, gen throughput (token/s): 100.00, "
      "#queue-req: 0\n";
  return {
      sample("csv", "csv",
             "request,context,strategy,emitted,step_us,concurrency\n"
             "a,1500,nsa/d3k1n4/bfs/c1/F*,2,900.5,1\na,1502,nsa/d3k1n4/bfs/c1/F*,4,905,8\n"),
      sample("sglang log", "sglang", decode + decode, "d3k1n4"),
      sample("sglang plain log", "sglang",
             "Decode batch, #running-req: 3, #token: 4000, gen throughput (token/s): 100.00\n"
             "Decode batch, #running-req: 3, #token: 4000, gen throughput (token/s): 102.00\n",
             "ar"),
      sample("bench_speculative", "sglang",
             R"({"batch_size": 4, "steps": 3, "topk": 1, "num_draft_tokens": 4, "acc_length": 2.5,)"
             R"("step_time": 0.01, "completion_tokens": 512})"),
      sample("bench_serving", "sglang",
             R"({"backend": "sglang", "max_concurrency": 16, "server_info": )"
             R"({"speculative_num_steps": 3, "speculative_eagle_topk": 1,)"
             R"("speculative_num_draft_tokens": 4}, "completed": 10, "total_input_tokens": 40000,)"
             R"("total_output_tokens": 3600, "median_tpot_ms": 5.5, "accept_length": 2.5})"),
      sample("sglang responses", "sglang",
             R"({"meta_info": {"spec_verify_ct": 4, "spec_num_proposed_drafts": 12,)"
             R"("spec_correct_drafts_histogram": [1, 0, 2, 1]}})",
             "d3k1n4"),
      sample("sglang page", "sglang",
             "sglang:spec_verify_calls_total{model_name=\"m\"} 500.0\n"
             "sglang:generation_tokens_total{model_name=\"m\"} 1250.0\n"
             "sglang:num_requests_total{model_name=\"m\"} 10.0\n"
             "sglang:spec_num_steps{tp_rank=\"0\"} 3.0\n"
             "sglang:spec_num_draft_tokens{tp_rank=\"0\"} 4.0\n"),
      sample("vllm page", "vllm",
             "vllm:spec_decode_num_drafts_total{engine=\"0\",model_name=\"m\"} 1000.0\n"
             "vllm:spec_decode_num_draft_tokens_total{engine=\"0\",model_name=\"m\"} 2000.0\n"
             "vllm:spec_decode_num_accepted_tokens_total{engine=\"0\",model_name=\"m\"} 900.0\n"
             "vllm:spec_decode_num_accepted_tokens_per_pos_total{engine=\"0\",model_name=\"m\","
             "position=\"0\"} 600.0\n"
             "vllm:spec_decode_num_accepted_tokens_per_pos_total{engine=\"0\",model_name=\"m\","
             "position=\"1\"} 300.0\n"),
      sample("vllm plain log", "vllm",
             "Engine 000: Avg generation throughput: 340.0 tokens/s, Running: 4 reqs, Waiting: 0\n"
             "Engine 000: Avg generation throughput: 345.0 tokens/s, Running: 4 reqs, Waiting: 0\n",
             "ar"),
      sample(
          "vllm log", "vllm",
          "Engine 000: Avg generation throughput: 330.0 tokens/s, Running: 4 reqs\n"
          "Engine 000: Avg generation throughput: 340.0 tokens/s, Running: 4 reqs\n"
          "SpecDecoding metrics: Mean acceptance length: 2.40, Accepted throughput: 140.00 "
          "tokens/s, Drafted throughput: 300.00 tokens/s, Accepted: 1400 tokens, Drafted: 3000 "
          "tokens, Per-position acceptance rate: 0.700, 0.450, 0.250, Avg Draft acceptance rate: "
          "46.7%\n"),
      sample("vllm bench", "vllm",
             R"({"endpoint_type": "openai", "max_concurrency": 4, "completed": 8,)"
             R"("total_input_tokens": 16000, "total_output_tokens": 800, "median_tpot_ms": 6.5,)"
             R"("spec_decode_num_drafts": 1000, "spec_decode_draft_tokens": 3000,)"
             R"("spec_decode_accepted_tokens": 1630,)"
             R"("spec_decode_per_position_acceptance_rates": [0.74, 0.52, 0.37]})"),
      sample("vllm responses", "vllm",
             R"({"metrics": {"speculative_decoding": {"acceptance_histogram": [39, 1, 0, 3],)"
             R"("num_spec_steps": 43, "num_accepted_draft_tokens": 10, "num_draft_tokens": 129,)"
             R"("num_spec_tokens": 3, "per_step_drafted": null}}})"),
      sample("aiperf records", "vllm",
             R"({"spec_decode_acceptance": {"engine": "vllm", "acceptance_histogram": {"0": 1,)"
             R"("2": 1}, "num_spec_steps": 2, "num_accepted_draft_tokens": 2,)"
             R"("num_draft_tokens": 4, "num_spec_tokens": null, "per_step_drafted": [2, 2]}})"),
      sample(
          "aiperf summary", "vllm",
          R"({"aiperf_version": "0.13.0", "input_config": {"phases": [{"concurrency": 8}]},)"
          R"("inter_token_latency": {"avg": 9.0, "p50": 5.0}, "total_draft_tokens": {"avg": 60},)"
          R"("pooled_spec_decode_acceptance_histogram": {"0": 8, "2": 6, "3": 6}})",
          "d3k1n4"),
      sample("trtllm responses", "trtllm",
             R"({"choices": [{"speculative_decoding": {"acceptance_rate": 0.5,)"
             R"("total_accepted_draft_tokens": 4, "total_draft_tokens": 8, "num_spec_steps": 4,)"
             R"("acceptance_histogram": [1, 2, 1], "num_spec_tokens": 2}}]})"),
      sample("trtllm", "trtllm",
             R"({"iter": 1, "iterLatencyMS": 9.5, "specDecodingStats": {"numDraftTokens": 12,)"
             R"("numAcceptedTokens": 5, "numRequestsWithDraftTokens": 4}})",
             "d3k1n4"),
      sample("profile", "profile",
             R"({"schema_version": "1.0", "measured": true, "num_speculative_tokens": 3,)"
             R"("acceptance_length_histogram": {"1": 10, "2": 20, "4": 5},)"
             R"("conditional_accept_rates": [0.7]})"),
      sample("sequoia", "sequoia", "tensor([0.0000, 0.5500, 0.2500, 0.2000])\n"),
  };
}

void check_survives(const ReaderSample& s, const std::string& text, const TempFolder& folder) {
  ImportRequest request = s.request;
  request.file = folder / "its.name";
  std::ofstream(request.file, std::ios::binary) << text;
  try {
    for (const PointMeasurement& point : engine::read_import(request).points) {
      CHECK(point.key.context_len > 0);
      CHECK((point.acceptance || !point.time_ns.empty()));
      if (point.acceptance) {
        CHECK(point.acceptance->steps > 0);
        CHECK(point.acceptance->accepted_per_step >= 1.0);
        CHECK(point.acceptance->accepted_per_step < 1e6);
      }
      for (const double ns : point.time_ns) {
        CHECK((ns > 0.0 && std::isfinite(ns)));
      }
    }
  } catch (const Error& error) {
    const std::string what = error.what();
    INFO(what);
    CHECK((error.code() == ExitCode::kBadInput || error.code() == ExitCode::kUsage));
    CHECK(what.size() > 10);
    CHECK(what.find('\n') == std::string::npos);
  }
}

}  // namespace versieve::test
