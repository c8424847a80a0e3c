// Task sets from other hands: each mistake is one sentence that names the context and question.
#include "engine/io/task_file.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "tests/support/errors.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"

namespace versieve::engine {
namespace {

using nlohmann::json;
using test::contains;

json good_set() {
  return {{"format", "versieve task set"},
          {"schema", 1},
          {"name", "made"},
          {"contexts",
           {{{"text", "caf\u00e9 has a door"},
             {"questions",
              {{{"at", 5}, {"choices", {" a", " b"}}, {"answer", 0}},
               {{"ask", "? "}, {"choices", {"x", "y", "z"}}, {"answer", 2}, {"evidence", 0}}}}}}}};
}

TaskSet read(const std::string& text) {
  const test::TempFolder folder;
  std::ofstream(folder / "set.json") << text;
  return read_task_set(folder / "set.json");
}

Error refusal(const std::function<void(json& set, json& question)>& change) {
  json set = good_set();
  change(set, set["contexts"][0]["questions"][1]);
  return test::error_of([&] { read(set.dump()); });
}

}  // namespace

TEST_CASE("a task set is read whole, what is left out by its rule") {
  const TaskSet set = read(good_set().dump());
  CHECK(set.name == "made");
  CHECK(set.question_count() == 2);
  const std::vector<TaskQuestion>& questions = set.contexts.at(0).questions;
  CHECK(questions[0].at == 5);
  CHECK(questions[0].ask.empty());
  CHECK(!questions[0].evidence);
  CHECK(questions[1].at == 16);  // the text's end, in bytes
  CHECK(questions[1].choices == std::vector<std::string>{"x", "y", "z"});
  CHECK(questions[1].answer == 2);
  CHECK(questions[1].evidence == 0);
}

TEST_CASE("each wrong field of a task set is named with its question") {
  using Change = std::function<void(json&, json&)>;
  const std::vector<std::pair<std::string, Change>> cases = {
      {"answer is 3, and there are 3", [](json&, json& q) { q["answer"] = 3; }},
      {"answer must be an integer", [](json&, json& q) { q["answer"] = -1; }},
      {"the field answer is missing", [](json&, json& q) { q.erase("answer"); }},
      {"the field choices is missing", [](json&, json& q) { q.erase("choices"); }},
      {"choices must be a list", [](json&, json& q) { q["choices"] = "xy"; }},
      {"two choices or more",
       [](json&, json& q) {
         q["choices"] = {"x"};
         q["answer"] = 0;
       }},
      {"choices must be texts",
       [](json&, json& q) {
         q["choices"] = {"x", ""};
       }},
      {"choices must be texts",
       [](json&, json& q) {
         q["choices"] = {"x", 7};
       }},
      {"two choices are the same",
       [](json&, json& q) {
         q["choices"] = {"x", "y", "x"};
       }},
      {"at is 17, beyond the text's end at 16", [](json&, json& q) { q["at"] = 17; }},
      {"at must be an integer", [](json&, json& q) { q["at"] = 0; }},
      {"at is 4, which is within a character", [](json&, json& q) { q["at"] = 4; }},
      {"evidence must stand before", [](json&, json& q) { q["evidence"] = 16; }},
      {"must be an object", [](json& set, json&) { set["contexts"][0]["questions"][1] = 4; }},
  };
  for (const auto& [part, change] : cases) {
    const Error error = refusal(change);
    CAPTURE(part, error.what());
    CHECK(error.code() == ExitCode::kBadInput);
    CHECK(contains(error.what(), part));
    CHECK(contains(error.what(), "context 1, question 2"));
  }
}

TEST_CASE("a file that is no task set, an empty one and one of broken UTF-8 are refused") {
  using Change = std::function<void(json&, json&)>;
  const std::vector<std::pair<std::string, Change>> cases = {
      {"no task set of schema 1", [](json& set, json&) { set.erase("format"); }},
      {"no task set of schema 1", [](json& set, json&) { set["schema"] = 2; }},
      {"the field name is missing", [](json& set, json&) { set.erase("name"); }},
      {"the field contexts is missing", [](json& set, json&) { set.erase("contexts"); }},
      {"contexts must be a list that holds",
       [](json& set, json&) { set["contexts"] = json::array(); }},
      {"questions must be a list", [](json& set, json&) { set["contexts"][0]["questions"] = {}; }},
      {"text is empty", [](json& set, json&) { set["contexts"][0]["text"] = ""; }},
      {"the field text is missing", [](json& set, json&) { set["contexts"][0].erase("text"); }},
  };
  for (const auto& [part, change] : cases) {
    const Error error = refusal(change);
    CAPTURE(part, error.what());
    CHECK(error.code() == ExitCode::kBadInput);
  }
  std::string broken = good_set().dump();
  broken.replace(broken.find("door"), 1, "\xff");
  for (const std::string& text : {std::string(), std::string("[]"), broken}) {
    CHECK(test::error_of([&] { read(text); }).code() == ExitCode::kBadInput);
  }
  CHECK(test::error_of([] { read_task_set("/nonexistent"); }).code() == ExitCode::kBadInput);
}

TEST_CASE("the task sets that ship are read") {
  const std::filesystem::path folder =
      std::filesystem::path(VERSIEVE_SOURCE_DIR) / "engine/demo/tasks";
  for (const char* name : {"continuation", "next_line", "recall"}) {
    const TaskSet set = read_task_set(folder / (std::string(name) + ".json"));
    CHECK(set.name == name);
    CHECK(set.question_count() >= 80);
  }
}

}  // namespace versieve::engine
