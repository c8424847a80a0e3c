// The built `versieve quality --strategy`: what it answers, stores and refuses.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "db/store.h"
#include "tests/end_to_end/refusals.h"
#include "tests/support/tiny_model.h"

using namespace versieve;
using namespace versieve::test;
namespace fs = std::filesystem;

TEST_CASE("quality of strategies refuses sets, strategies and counts that are none") {
  const TempFolder folder;
  write_tiny_target(folder / "model", TinyModel{});
  const fs::path set = folder / "set.json";
  const auto write_set = [&](const std::string& question) {
    std::ofstream(set) << R"({"format": "versieve task set", "schema": 1, "name": "made",)"
                       << R"( "contexts": [{"text": "one two three", "questions": [)" << question
                       << "]}]}";
  };
  const fs::path out = folder / "out.json";
  const std::string command = "quality --backend cpu --threads 1 --model " +
                              (folder / "model").string() + " --tasks " + set.string() + " --out " +
                              out.string();
  check_refused(command, 3, "set.json");
  const std::pair<const char*, const char*> wrong[] = {
      {R"({"choices": ["a", "b"], "answer": 2})", "answer is 2"},
      {R"({"choices": ["a", "b"]})", "the field answer is missing"},
      {R"({"choices": ["a"], "answer": 0})", "two choices or more"},
      {"", "questions must be a list that holds something"},
      {"{\"choices\": [\"\xff\", \"b\"], \"answer\": 0}", "UTF-8"}};
  for (const auto& [question, part] : wrong) {
    write_set(question);
    check_refused(command, 3, part);
  }
  write_set(R"({"choices": [" four", " cats"], "answer": 0})");
  check_refused(command + " --strategy dense/ar", 1, "dense/ar");
  check_refused(command + " --strategy nsa/ar/bfs", 2, "nsa/ar/bfs");
  check_refused(command + " --decoded -1", 2, "--decoded");
  check_refused(command + " --questions 99999999999", 2, "--questions");
  check_refused(command + " --p 0.9", 2, "--p");
  check_refused("quality --backend cpu --model " + (folder / "model").string() +
                    " --strategy nsa/ar/bfs/c1/FRR",
                2, "--tasks FILE or --text FILE");
  // What cannot be kept is said before a model is read.
  check_refused(command + " --strategy nsa/ar/bfs/c1/FRR --db /nonexistent/quality.db", 4,
                "/nonexistent/quality.db");
  const CommandResult full = run_versieve(
      command + " --strategy nsa/ar/bfs/c1/FRR --db " + (folder / "quality.db").string(),
      "ulimit -f 8; ");
  CHECK(full.code == 4);
  CHECK(is_one_sentence(full.err));  // and no progress before it
  CHECK(!fs::exists(folder / "quality.db"));
  CHECK(!fs::exists(out));
  const CommandResult done = run_versieve(command + " --strategy nsa/ar/bfs/c1/FRR --json");
  CAPTURE(done.err);
  REQUIRE(done.code == 0);
  const nlohmann::json answer = nlohmann::json::parse(done.out);
  CHECK(nlohmann::json::parse(text_of_file(out)) == answer);
  CHECK(answer.at("sets")[0].at("rows")[1].at("strategy") == "nsa/ar/bfs/c1/FRR");
  CHECK(answer.at("sets")[0].at("rows")[1].at("questions") == 1);
  const std::string into = " --db " + (folder / "quality.db").string();
  CHECK(run_versieve(command + into + " --split calibration").code == 0);
  CHECK(run_versieve(command + into).code == 0);  // another run beside it
  const db::Store store =
      db::Store::open((folder / "quality.db").string(), db::OpenMode::kReadOnly);
  REQUIRE(store.runs().size() == 2);
  CHECK(store.runs()[0].record.kind == "quality");
  CHECK(store.runs()[0].record.status == RunStatus::kComplete);
  const std::vector<QualityPoint> stored = store.quality();
  REQUIRE(stored.size() == 2);  // the exact run's alone
  CHECK(stored[0].strategy == "nsa/ar");
  CHECK(stored[0].set == "made");
  CHECK(stored[0].pair.sha256.size() == 64);
  CHECK(stored[0].split == "calibration");
  CHECK(stored[1].split == "test");
  CHECK(stored[0].answers->questions == 1);
  std::ofstream(folder / "other.db") << "no database";
  check_refused(command + " --db " + (folder / "other.db").string(), 3, "other.db");
  check_refused(command + " --split test", 2, "--db");
}
