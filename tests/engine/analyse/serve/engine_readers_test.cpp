// Files for serving engines through the engines' own readers (fetch_engine_readers.sh brings them):
// every batch gets the length that the schedule chose, and no key is unknown.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "engine/analyse/plan/deployment.h"
#include "engine/analyse/serve/planned_schedule.h"
#include "engine/analyse/serve/serving_deployment.h"
#include "engine/io/atomic_file.h"
#include "model/words/error.h"
#include "tests/end_to_end/command.h"
#include "tests/engine/analyse/serve/planned_case.h"
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

std::int64_t falling_length(std::int64_t requests) {
  return requests == 1 ? 5 : requests <= 4 ? 3 : requests <= 8 ? 1 : 0;
}

// The longest gain among plain decoding and chains, in the cell of so many requests: beyond the
// last cell, nothing was planned and nothing is drafted.
std::int64_t chosen_length(const ServingSchedule& schedule, std::int64_t context,
                           std::int64_t requests) {
  for (const ServingCell& cell : schedule.cells) {
    if (cell.context_low < context && context <= cell.context_high &&
        cell.requests_low <= requests && requests <= cell.requests_high) {
      const auto best = std::find_if(cell.choices.begin(), cell.choices.end(),
                                     [](const ServingChoice& c) { return c.draft.width <= 1; });
      return best == cell.choices.end() ? 0 : best->draft.levels();
    }
  }
  return 0;
}

bool are_there(const std::string& needs) {
  if (std::filesystem::exists(readers() + "/" + needs)) {
    return true;
  }
  std::printf(
      "SKIPPED: %s is not there: tests/engine/analyse/serve/fetch_engine_readers.sh says "
      "how to get it\n",
      needs.c_str());
  return false;
}

// What the engine's reader drafts by requests at a time, of a file.
nlohmann::json lengths_of(const char* format, const std::filesystem::path& file) {
  const CommandResult run =
      run_line("python3 " VERSIEVE_SOURCE_DIR "/tests/engine/analyse/serve/engine_readers.py " +
               readers() + " " + format + " " + file.string());
  INFO(text_of_file(file) << run.err);
  REQUIRE(run.code == 0);
  nlohmann::json lengths = nlohmann::json::parse(run.out);
  CHECK(lengths.size() == 18);
  return lengths;
}

void check_read(const char* format, const ServingSchedule& schedule,
                const std::function<std::int64_t(std::int64_t)>& expected) {
  const TempFolder folder;
  const ServingFiles files = serving_files(
      schedule, format,
      {.context = 1000, .draft_model = "/d", .tiers_file = (folder / "s.tiers.json").string()});
  write_file_atomically(folder / "s.yaml", files.settings);
  if (!files.tiers.empty()) {
    write_file_atomically(folder / "s.tiers.json", files.tiers);
  }
  const nlohmann::json lengths = lengths_of(format, folder / "s.yaml");
  for (const auto& [batch, length] : lengths.items()) {
    const int requests = std::stoi(batch);
    CAPTURE(requests);
    CHECK(length == expected(requests));
  }
}

// Files of a table of one request at a time: of each class the draft that the engine takes.
void check_classes(const char* format) {
  const TempFolder folder;
  std::vector<PrecisionClass> classes;
  for (int i = 0; i < kPrecisionClassCount; ++i) {
    classes.push_back(static_cast<PrecisionClass>(i));
  }
  PlanOptions options{.classes = classes};
  options.buckets = {{0, 4096}, {4096, 8192}};
  const PlanTable table = plan(synthetic::fitted_by_hand(0.8, 0.9, true),
                               hardware_by_key("h200-sxm"), named_llm_shape("nsa-1b"), options);
  int taken = 0;
  for (const PrecisionClass precision : classes) {
    const DeploymentWish wish{.precision = precision, .context = 1000, .draft_model = "/d"};
    const ServingEngine& engine = *serving_engine(format);
    std::string file;
    try {
      file = deployment_file(table, engine, wish);
    } catch (const Error& error) {  // it has nothing like this class, and says so
      CHECK(error.code() == ExitCode::kAnswerNo);
      CHECK(precision != PrecisionClass::kStrict);
      continue;
    }
    CAPTURE(name_of(precision));
    write_file_atomically(folder / "s.yaml", file);
    const DraftChoice draft = chosen_deployment(table, engine, wish).draft;
    const nlohmann::json lengths = lengths_of(format, folder / "s.yaml");
    CHECK(lengths.at("1") == draft.levels());
    taken += 1;
  }
  CHECK(taken >= 3);
}

// Of a server's own evidence, and of a planner table.
void check_all(const char* format, const std::string& needs) {
  if (!are_there(needs)) {
    return;
  }
  check_read(format, falling_schedule(), falling_length);
  const ServingSchedule planned = planned_schedule(planned_table());
  check_read(format, planned,
             [&](std::int64_t requests) { return chosen_length(planned, 1000, requests); });
  check_classes(format);
}

}  // namespace

TEST_CASE("vLLM's reader takes the schedule and drafts what it says") {
  check_all("vllm", "vllm/v1/spec_decode/dynamic/utils.py");
}
TEST_CASE("SGLang's reader takes the tiers and drafts what they say") {
  check_all("sglang", "sglang/srt/speculative/adaptive_spec_params.py");
}
TEST_CASE("TensorRT-LLM's reader takes the schedule and drafts what it says") {
  check_all("trtllm", "tensorrt_llm/llm_args.py");
}
