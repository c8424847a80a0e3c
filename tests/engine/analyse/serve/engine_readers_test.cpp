// Files for serving engines through the engines' own readers (fetch_engine_readers.sh brings them):
// every batch gets the length that the schedule chose, and no key is unknown.
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>

#include "engine/analyse/serve/serving_deployment.h"
#include "engine/io/atomic_file.h"
#include "tests/end_to_end/command.h"
#include "tests/engine/analyse/serve/serving_case.h"

using namespace versieve;
using namespace versieve::engine;
using namespace versieve::test;

namespace {

std::string readers() {
  const char* given = std::getenv("VERSIEVE_ENGINE_READERS");
  return given != nullptr ? given : VERSIEVE_SOURCE_DIR "/build/engine-readers";
}

// 5 at one request, 3 up to 4, 1 up to 8, none from 9 on.
ServingSchedule falling_schedule() {
  ServerEvidence server;
  struct Row {
    std::int64_t requests;
    double us[3];
  };
  const std::pair<const char*, double> drafts[] = {{"dense/d5k1n6/bfs/c1/F*", 3.0},
                                                   {"dense/d3k1n4/bfs/c1/F*", 2.4},
                                                   {"dense/d1k1n2/bfs/c1/F*", 1.7}};
  for (const Row& row : {Row{1, {11, 10.8, 10.5}}, Row{2, {16, 12, 11}}, Row{4, {16, 12, 11}},
                         Row{8, {32, 25, 12}}, Row{16, {60, 40, 20}}, Row{32, {60, 40, 20}}}) {
    for (std::size_t i = 0; i < 3; ++i) {
      server.accept(drafts[i].first, row.requests, drafts[i].second);
      server.time(drafts[i].first, row.requests, 1e3 * row.us[i]);
    }
    server.time("dense/ar", row.requests, 10000.0);
  }
  return server.schedule();
}

void check_read(const char* format, const std::string& needs) {
  if (!std::filesystem::exists(readers() + "/" + needs)) {
    std::printf(
        "SKIPPED: %s is not there: tests/engine/analyse/serve/fetch_engine_readers.sh says "
        "how to get it\n",
        needs.c_str());
    return;
  }
  const TempFolder folder;
  const ServingFiles files =
      serving_files(falling_schedule(), format,
                    {.draft_model = "/d", .tiers_file = (folder / "s.tiers.json").string()});
  write_file_atomically(folder / "s.yaml", files.settings);
  if (!files.tiers.empty()) {
    write_file_atomically(folder / "s.tiers.json", files.tiers);
  }
  const CommandResult run =
      run_line("python3 " VERSIEVE_SOURCE_DIR "/tests/engine/analyse/serve/engine_readers.py " +
               readers() + " " + format + " " + (folder / "s.yaml").string());
  INFO(files.settings << run.err);
  REQUIRE(run.code == 0);
  const nlohmann::json lengths = nlohmann::json::parse(run.out);
  CHECK(lengths.size() == 18);
  for (const auto& [batch, length] : lengths.items()) {
    const int requests = std::stoi(batch);
    CAPTURE(requests);
    CHECK(length == (requests == 1 ? 5 : requests <= 4 ? 3 : requests <= 8 ? 1 : 0));
  }
}

}  // namespace

TEST_CASE("vLLM's reader takes the schedule and drafts what it says") {
  check_read("vllm", "vllm/v1/spec_decode/dynamic/utils.py");
}
TEST_CASE("SGLang's reader takes the tiers and drafts what they say") {
  check_read("sglang", "sglang/srt/speculative/adaptive_spec_params.py");
}
TEST_CASE("TensorRT-LLM's reader takes the schedule and drafts what it says") {
  check_read("trtllm", "tensorrt_llm/llm_args.py");
}
