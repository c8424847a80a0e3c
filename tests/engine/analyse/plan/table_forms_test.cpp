// Planner tables in the forms of other programs: CSV comes back as it went, the C++ header compiles
// alone and says the same.
#include "engine/analyse/plan/table_file.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "model/plan/guarded_plan.h"
#include "model/words/error.h"
#include "tests/engine/analyse/plan/table_case.h"
#include "tests/support/paths.h"
#include "tests/support/planned.h"

using namespace versieve;
using namespace versieve::engine;
using namespace versieve::engine::table_case;
namespace fs = std::filesystem;

TEST_CASE("CSV begins with its header and carries every entry, numbers exactly") {
  PlanTable t = table();
  t.entries[0].note = "a \"quoted\", note";
  std::istringstream text(plan_table_csv(t));
  std::vector<std::string> rows;
  for (std::string line; std::getline(text, line);) {
    rows.push_back(line);
  }
  REQUIRE(rows.size() == t.entries.size() + 1);
  CHECK(rows[0].rfind("context_low,context_high,class,rank,strategy,", 0) == 0);
  const std::vector<std::string> names = csv_fields(rows[0]);
  CHECK(names.size() == 54);
  CHECK(std::set<std::string>(names.begin(), names.end()).size() == names.size());
  for (std::size_t i = 0; i < t.entries.size(); ++i) {
    const std::vector<std::string> f = csv_fields(rows[i + 1]);
    REQUIRE(f.size() == names.size());
    const PlanEntry& e = t.entries[i];
    CHECK(std::stoll(f[0]) == t.buckets[static_cast<std::size_t>(e.bucket)].low);
    CHECK(f[2] == name_of(e.precision));
    CHECK(f[4] == e.evaluation.strategy.text());
    CHECK(std::strtod(f[5].c_str(), nullptr) == e.evaluation.expected_accepted);
    CHECK(std::strtod(f[6].c_str(), nullptr) == e.evaluation.cost->time_us);
    CHECK(std::strtod(f[7].c_str(), nullptr) == e.evaluation.throughput);
    CHECK(f[17] == e.note);
    CHECK(f[18] == e.baseline);
    CHECK(std::stoll(f[21]) == e.evaluation.strategy.draft.nodes);
    CHECK(std::stoll(f[22]) == e.evaluation.strategy.group_size);
    CHECK(f[23] == t.hardware);
    CHECK(f[27] == t.provenance_note);
    CHECK(f[28] == acceptance_text(t));
    CHECK(f[29] == "counted");
    CHECK(f[30] == run_condition(t, e.bucket, e.precision));
    CHECK(f[31] == sources_text(t));
    CHECK(!f[31].empty());
    CHECK(f[32] == name_of(e.price.from));
    CHECK(f[33].empty() == !e.price.is_known());  // not measured is no zero
    CHECK((f[49].empty() || f[49] == e.price.unmeasured_because));
    CHECK(std::stoll(f[50]) == t.requests);
    CHECK(std::strtod(f[51].c_str(), nullptr) == compared_interval(e.evaluation).low);
    CHECK(std::strtod(f[52].c_str(), nullptr) == compared_interval(e.evaluation).high);
    CHECK(f[53].empty());  // no limit to what is lost
  }
  PlanTable limited = t;
  limited.max_loss = 0.05;
  const std::string csv = plan_table_csv(limited);
  const std::string first = csv.substr(csv.find('\n') + 1);
  CHECK(csv_fields(first.substr(0, first.find('\n')))[53] == "0.05");
  CHECK(plan_table_cpp(limited).find("kMaxLossNats = 0.05;") != std::string::npos);
}

TEST_CASE("CSV is read by Python's csv as it is, whatever its texts hold") {
  PlanTable t = table();
  const std::string note = "line\r\nbreak, \"quotes\" and \xc3\xa4\t;";
  t.entries[0].note = note;
  t.entries[1].note = " spaces around ";
  t.hardware = "my, \"own\"\nmachine";
  written("odd.csv", plan_table_csv(t));
  std::ostringstream program;
  program << "import csv\nrows = list(csv.DictReader(open('" << (folder() / "odd.csv").string()
          << "', newline='', encoding='utf-8'), strict=True))\n"
          << "assert len(rows) == " << t.entries.size() << ", len(rows)\n"
          << "assert all(len(r) == 54 and None not in r.values() for r in rows)\n"
          << "assert rows[0]['note'] == 'line\\r\\nbreak, \"quotes\" and \\u00e4\\t;'\n"
          << "assert rows[1]['note'] == ' spaces around '\n"
          << "assert rows[0]['hardware'] == 'my, \"own\"\\nmachine'\n"
          << "assert all(float(r['throughput']) > 0 and int(r['nodes']) > 0 for r in rows)\n";
  written("read_csv.py", program.str());
  if (std::system("python3 -c pass 2>/dev/null") != 0) {
    WARN("there is no python3 here");
    return;
  }
  CHECK(std::system(("python3 " + (folder() / "read_csv.py").string()).c_str()) == 0);
}

TEST_CASE("the C++ header compiles alone and says the same") {
  const PlanTable t = table();
  written("plan.h", plan_table_cpp(t));
  const Strategy& best = t.entries[0].evaluation.strategy;
  std::ostringstream program;
  program << "#include \"plan.h\"\n#include <cstring>\nusing namespace versieve_plan;\n"
          << "static_assert(kEntries.size() == " << t.entries.size() << ");\n"
          << "static_assert(kBaselines.size() == " << t.baselines.size() << ");\n"
          << "static_assert(kEntries[0].depth == " << best.draft.depth
          << " && kEntries[0].width == " << best.draft.width
          << " && kEntries[0].nodes == " << best.draft.nodes
          << " && kEntries[0].group == " << best.group_size << ");\n"
          << "static_assert(find(4097, \"Strict\")->context_low == 4096);\n"
          << "static_assert(find(4097, \"Strict\", 2)->rank == 2);\n"
          << "static_assert(find(0, \"Strict\") == nullptr && find(99, \"Lax\") == nullptr);\n"
          << "int main() { return std::strcmp(versieve_plan::kEntries[0].strategy, \""
          << best.text() << "\"); }\n";
  written("plan_user.cpp", program.str());
  for (const char* standard : {"17", "20"}) {
    CHECK(compiled("-o plan_user plan_user.cpp", standard));
    CHECK(std::system((folder() / "plan_user").string().c_str()) == 0);
  }
}

TEST_CASE("no text of a table leaves its place in the header") {
  PlanTable t = table();
  t.hardware = "mine\n#error left the comment \\";
  t.provenance_note = "a /* b */ \?\?/\n#error\r\n";
  t.entries[0].note = "\"; #error \\ \?\?= \xe2\x80\xae \n\x01";
  t.entries[1].note = "4.02";
  t.unavailable[0].reason = "ends in \\";
  written("odd.h", plan_table_cpp(t));
  written("odd_user.cpp",
          "#include \"odd.h\"\n#include <string_view>\n"
          "static_assert(std::string_view(versieve_plan::kEntries[1].note) == \"4.02\");\n"
          "int main() { return std::string_view(versieve_plan::kEntries[0].note).size() == " +
              std::to_string(t.entries[0].note.size()) + " ? 0 : 1; }\n");
  REQUIRE(compiled("-o odd_user odd_user.cpp", "17"));
  CHECK(std::system((folder() / "odd_user").string().c_str()) == 0);
  t.entries.clear();
  t.baselines.clear();
  written("odd.h", plan_table_cpp(t));
  written("empty_user.cpp",
          "#include \"odd.h\"\nint main() { return versieve_plan::find(1, \"Strict\") == "
          "nullptr ? 0 : 1; }\n");
  REQUIRE(compiled("-o empty_user empty_user.cpp", "17"));
  CHECK(std::system((folder() / "empty_user").string().c_str()) == 0);
}

TEST_CASE("two headers in one program answer each from its own table") {
  const PlanTable one = table();
  PlanTable other = table();  // of the same machine and geometry: another pair, say
  other.entries[0].evaluation.throughput += 1000.0;
  const auto user = [](const std::string& header, const std::string& function) {
    return "#include \"" + header + "\"\ndouble " + function +
           "() { return versieve_plan::find(1, \"Strict\")->throughput; }\n";
  };
  for (const std::string name : {"", "served"}) {
    written("one.h", plan_table_cpp(one, name));
    written("other.h", plan_table_cpp(other, name));
    written("one.cpp", user("one.h", "one"));
    written("other.cpp", user("other.h", "other"));
    written("both_main.cpp",
            "double one();\ndouble other();\n"
            "int main() {\n  const double more = other() - one();\n"
            "  return more > 999.99 && more < 1000.01 ? 0 : 1;\n}\n");
    REQUIRE(compiled("-c one.cpp other.cpp both_main.cpp", "17"));
    for (const char* order : {"one.o other.o", "other.o one.o"}) {
      REQUIRE(compiled(std::string("-o both both_main.o ") + order, "17"));
      CHECK(std::system((folder() / "both").string().c_str()) == 0);
    }
  }
  written("one.h", plan_table_cpp(one, "first"));
  written("other.h", plan_table_cpp(other, "second"));
  written("one_unit.cpp",
          "#include \"one.h\"\n#include \"other.h\"\n#include \"one.h\"\n"
          "static_assert(versieve_plan::second::find(1, \"Strict\")->throughput - "
          "versieve_plan::first::find(1, \"Strict\")->throughput > 999.99);\nint main() {}\n");
  CHECK(compiled("-fsyntax-only one_unit.cpp", "17"));
  // Without names, of the same machine and geometry, in one unit.
  written("one.h", plan_table_cpp(one));
  written("other.h", plan_table_cpp(other));
  written("unnamed.cpp", "#include \"one.h\"\n#include \"other.h\"\nint main() {}\n");
  CHECK(compiled("-fsyntax-only unnamed.cpp", "20"));
}

TEST_CASE("a name that C++ cannot take is a usage error") {
  for (const char* name : {"class", "1st", "a-b", "a b", "_x", "a__b", "std", "t\xc3\xa4"}) {
    CAPTURE(name);
    CHECK_THROWS_AS(plan_table_cpp(table(), name), Error);
  }
  CHECK_NOTHROW(check_cpp_name("llama_3_70B"));
}

TEST_CASE(
    "every form says where the numbers come from, and those that can which classes have no rows") {
  const PlanTable t = table();
  for (const std::string& text : {plan_table_csv(t), plan_table_cpp(t), plan_table_text(t, 3)}) {
    CHECK(text.find("NVIDIA H200") != std::string::npos);
    CHECK(text.find("demo-nsa") != std::string::npos);
  }
  for (const std::string& text : {plan_table_cpp(t), plan_table_text(t, 3)}) {
    CHECK(text.find("not yet available") != std::string::npos);
  }
}

TEST_CASE("every form says that the bonus token is counted and what a run of a cell must keep to") {
  PlanTable t = table();
  t.entries[0].evaluation.strategy = Strategy::parse("nsa/d3k1n4/bfs/c1/F*/sampling=sigmoid");
  const std::string condition = "generate --table runs this cell above temperature 0";
  REQUIRE(run_condition(t, 0, t.entries[0].precision) == condition);
  const nlohmann::json json = nlohmann::json::parse(plan_table_json(t));
  CHECK(json["provenance"]["bonus_token"] == "counted");
  CHECK(plan_table_cpp(t).find("kBonusToken = \"counted\"") != std::string::npos);
  CHECK(plan_table_text(t, 1).find("count the bonus token") != std::string::npos);
  for (const std::string& text :
       {plan_table_json(t), plan_table_csv(t), plan_table_cpp(t), plan_table_text(t, 1)}) {
    CHECK(text.find(condition) != std::string::npos);
  }
}

TEST_CASE("an unknown format is a usage error") {
  const PlanTable t = table();
  const auto code_of = [&](const char* format) {
    try {
      exported_table(t, format);
    } catch (const Error& e) {
      return e.code();
    }
    return ExitCode::kDone;
  };
  CHECK(code_of("csv") == ExitCode::kDone);
  CHECK(code_of("vllm") == ExitCode::kDone);
  CHECK(code_of("xml") == ExitCode::kUsage);
}
