// `versieve compare` on the measurements that ship and on tables, as a user meets it.
#include <catch2/catch.hpp>

#include "engine/analyse/plan/table_file.h"
#include "engine/io/atomic_file.h"
#include "tests/end_to_end/command.h"
#include "tests/support/tiny_table.h"

using namespace versieve;
using namespace versieve::test;

namespace {

const std::string kH100 = VERSIEVE_SOURCE_DIR "/db/measured/h100.db";
const std::string kH200 = VERSIEVE_SOURCE_DIR "/db/measured/h200.db";

std::string table_file(const TempFolder& folder, const std::string& name, const PlanTable& table) {
  const std::string path = (folder / name).string();
  engine::write_file_atomically(path, engine::plan_table_json(table));
  return path;
}

}  // namespace

TEST_CASE("two machines that ship: tuples matched, worse first, the rule with its noise") {
  const CommandResult result = run_versieve("compare --json " + kH100 + " " + kH200);
  REQUIRE(result.code == 0);
  const nlohmann::json c = nlohmann::json::parse(result.out).at("comparisons").at(0);
  CHECK(c.at("first").at("device") == "NVIDIA H100 80GB HBM3");
  CHECK(c.at("second").at("device") == "NVIDIA H200");
  CHECK(c.at("matched").get<int>() > 1000);
  CHECK(c.at("noise").at("repeats").get<int>() >= 20);
  CHECK(c.at("noise").at("share").get<double>() < 0.05);
  CHECK(c.at("better").get<int>() > c.at("worse").get<int>());  // the H200's memory is faster
  CHECK(c.at("tuples").at(0).at("change") == "worse");
  CHECK(c.at("tuples").size() == c.at("matched"));
  const CommandResult text = run_versieve("compare --rows 2 " + kH100 + " " + kH200);
  CHECK(text.out.find("Same within noise: ") != std::string::npos);
  CHECK(text.out.find("slower, 2 of ") != std::string::npos);
}

TEST_CASE("a database against itself is the same, and a gate tells by the exit code") {
  const CommandResult same = run_versieve("compare --fail-if-worse " + kH100 + " " + kH100);
  CHECK(same.code == 0);
  CHECK(same.out.find("0 slower") != std::string::npos);
  CHECK(run_versieve("compare --fail-if-worse " + kH100 + " " + kH200).code == 1);
  CHECK(run_versieve("compare --fail-if-worse --noise 50 " + kH100 + " " + kH200).code == 0);
}

TEST_CASE("tables are compared cell by cell") {
  const TempFolder folder;
  PlanTable after = tiny_table();
  after.hardware = "h200-sxm";
  after.entries[0].evaluation = told("nsa/d3k2n6/dfs/c2e/F*", 80.0);
  const std::string first = table_file(folder, "first.json", tiny_table());
  const std::string second = table_file(folder, "second.json", after);
  const CommandResult result = run_versieve("compare " + first + " " + second);
  CHECK(result.code == 0);
  CHECK(result.out.find("machine    planned for h100-sxm, then h200-sxm") != std::string::npos);
  CHECK(result.out.find("its step takes 20.0 % less (machine)") != std::string::npos);
  CHECK(run_versieve("compare --fail-if-worse " + first + " " + second).code == 1);
  CHECK(run_versieve("compare --fail-if-worse " + first + " " + first).code == 0);
}

TEST_CASE("what cannot be compared is refused in a sentence") {
  const TempFolder folder;
  const std::string table = table_file(folder, "table.json", tiny_table());
  const std::pair<std::string, int> cases[] = {
      {kH100, 2},
      {kH100 + " " + table, 2},
      {table + " " + table + " --figure bytes", 2},
      {kH100 + " " + kH200 + " --figure speed", 2},
      {kH100 + " " + kH200 + " --noise -1", 2},
      {kH100 + " " + kH200 + " --rows -1", 2},
      {kH100 + " " + kH200 + " --device a --device b --device c", 2},
      {kH100 + " " + kH200 + " --device B200", 1},
      {kH100 + " " + kH200 + " --figure tokens", 1},
      {kH100 + " " + (folder / "none.db").string(), 3},
      {table + " " + (folder / "none.json").string(), 3}};
  for (const auto& [arguments, code] : cases) {
    CAPTURE(arguments);
    const CommandResult result = run_versieve("compare " + arguments);
    CHECK(result.code == code);
    CHECK(is_one_sentence(result.err));
    CHECK(result.out.empty());
  }
}
