// Planner tables as files: JSON and CSV come back as they went, the C++ header compiles alone and
// says the same, foreign files are refused in a sentence.
#include "engine/analyse/plan/table_file.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "model/plan/guarded_plan.h"
#include "model/words/error.h"
#include "tests/support/paths.h"
#include "tests/support/planned.h"

using namespace versieve;
using namespace versieve::engine;
namespace fs = std::filesystem;

namespace {

// Without rows of one class, as a target has them that cannot run it.
PlanTable made_table() {
  PlanTable t =
      plan(synthetic::fitted_by_hand(), hardware_by_key("h200-sxm"), named_llm_shape("nsa-1b"), {});
  t.entries.erase(std::remove_if(t.entries.begin(), t.entries.end(),
                                 [](const PlanEntry& e) {
                                   return e.precision == PrecisionClass::kApproxReuse;
                                 }),
                  t.entries.end());
  t.entries[1].baseline = "fixed";
  for (std::int64_t bucket = 0; bucket < 4; ++bucket) {
    t.unavailable.push_back(
        {bucket, PrecisionClass::kApproxReuse, "Approx+Reuse is not yet available"});
  }
  return t;
}

// Planned once, handed out as often as a case changes it.
PlanTable table() {
  static const PlanTable once = made_table();
  return once;
}

fs::path folder() {
  const fs::path path = fs::path(VERSIEVE_BINARY_DIR) / "test_engine_plan";
  fs::create_directories(path);
  return path;
}

std::string written(const std::string& name, const std::string& text) {
  const fs::path path = folder() / name;
  std::ofstream(path, std::ios::binary) << text;
  return path.string();
}

std::vector<std::string> csv_fields(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') {
      const bool doubled = quoted && i + 1 < line.size() && line[i + 1] == '"';
      fields.back() += doubled ? "\"" : "";
      i += doubled ? 1 : 0;
      quoted = doubled ? quoted : !quoted;
    } else if (line[i] == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += line[i];
    }
  }
  return fields;
}

// By g++, and by clang++ where there is one: a warning is an error. `what`: options and sources.
bool compiled(const std::string& what, const std::string& standard) {
  static const bool has_clang = std::system("clang++ --version >/dev/null 2>&1") == 0;
  bool all = true;
  for (const std::string& compiler : {std::string(VERSIEVE_CXX), std::string("clang++")}) {
    const std::string line = "cd " + folder().string() + " && " + compiler + " -std=c++" +
                             standard + " -Wall -Wextra -Wpedantic -Wshadow -Werror " + what;
    const bool is_absent = compiler == "clang++" && !has_clang;
    all = all && (is_absent || std::system(line.c_str()) == 0);
  }
  return all;
}

void check_refused(const std::string& name, const std::string& text, const std::string& part) {
  const std::string path = written(name, text);
  try {
    read_plan_table(path);
    FAIL("accepted " + name);
  } catch (const Error& e) {
    CAPTURE(e.what());
    CHECK(e.code() == ExitCode::kBadInput);
    CHECK(std::string(e.what()).find(part) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("a table comes back from JSON as it went") {
  const std::string text = plan_table_json(table());
  CHECK(plan_table_json(read_plan_table(written("table.json", text))) == text);
}

TEST_CASE("a table says which settings of the other systems it goes over, where not the usual") {
  CHECK(plan_table_json(table()).find("resa_block_sizes") == std::string::npos);
  PlanTable t = table();
  t.systems = {.resa_key_blocks = {32},
               .resa_active_ratios = {0.05},
               .resa_periods = {24},
               .specattn_shares = {0.96}};
  const std::string json = plan_table_json(t);
  const PlanTable back = read_plan_table(written("systems.json", json));
  CHECK(back.systems == t.systems);
  CHECK(plan_table_json(back) == json);
}

TEST_CASE("a table says how many requests its intervals are of, an older one does not") {
  PlanTable t = table();
  t.requests = 4;
  t.texts_note = "as the 32 that the pair decoded";
  t.entries[0].evaluation.same_texts_interval = {9.0, 11.0};
  t.entries[0].evaluation.text_log_error = 0.25;
  const std::string text = plan_table_json(t);
  const PlanTable again = read_plan_table(written("requests.json", text));
  CHECK(again.requests == 4);
  CHECK(again.texts_note == t.texts_note);
  CHECK(again.entries[0].evaluation.same_texts_interval.high == 11.0);
  CHECK(again.entries[0].evaluation.text_log_error == 0.25);
  const char* const sentence =
      "Intervals hold 90 % of the mean of 4 requests. How texts differ: as the 32 that the pair "
      "decoded.";
  CHECK(intervals_text(again) == sentence);
  CHECK_THAT(plan_table_text(again, 1), Catch::Contains(sentence));
  nlohmann::json older = nlohmann::json::parse(text);
  older.erase("requests");
  older["provenance"].erase("texts_note");
  for (nlohmann::json& entry : older["entries"]) {
    entry.erase("same_texts_interval");
    entry.erase("text_log_error");
  }
  const PlanTable old = read_plan_table(written("older.json", older.dump()));
  CHECK(old.requests == 0);
  CHECK(intervals_text(old) == "Intervals hold 90 % of the mean over the measured texts.");
  const Evaluation& e = old.entries[0].evaluation;
  CHECK(compared_interval(e).low == e.throughput_interval.low);
  CHECK(interval_for(e, old.requests, 1).high == e.throughput_interval.high);
  older["requests"] = -1;
  CHECK_THROWS_WITH(read_plan_table(written("bad.json", older.dump())),
                    Catch::Contains("intervals are of -1 requests"));
}

TEST_CASE("the JSON form has the promised keys") {
  const nlohmann::json json = nlohmann::json::parse(plan_table_json(table()));
  for (const char* key : {"schema", "hardware", "model", "provenance", "buckets", "classes",
                          "guard", "entries", "unavailable", "baselines"}) {
    CAPTURE(key);
    CHECK(json.contains(key));
  }
  for (const char* key : {"alpha", "drop_ratio", "warmup", "hysteresis", "max_transitions"}) {
    CHECK(json["guard"].contains(key));
  }
  for (const nlohmann::json& entry : json["entries"]) {
    for (const char* key : {"bucket", "class", "rank", "strategy", "expected_accepted",
                            "step_latency_us", "throughput", "interval", "source", "why"}) {
      CHECK(entry.contains(key));
    }
    CHECK(entry["interval"].size() == 2);
  }
  CHECK(json["unavailable"][0]["status"] == "not yet available");
  CHECK(json["buckets"] ==
        nlohmann::json::parse("[[0,4096],[4096,8192],[8192,12288],[12288,16384]]"));
}

TEST_CASE("a table read back says whose its numbers are, and an older one says nothing") {
  PlanTable t = table();
  t.sources = PlanSources{.pair = PairId{"mine", std::string(64, 'a')},
                          .acceptance = EvidenceFrom::kOwn,
                          .overlap = EvidenceFrom::kAssumed,
                          .times = EvidenceFrom::kBorrowed,
                          .acceptance_sha256 = std::string(64, 'a'),
                          .overlap_of = {},
                          .times_of = "nsa-1b",
                          .timed_steps = 3,
                          .chosen_share = EvidenceFrom::kOwn,
                          .sigmoid_acceptance = EvidenceFrom::kAssumed,
                          .remark = "a remark"};
  const std::string text = plan_table_json(t);
  CHECK(plan_table_json(read_plan_table(written("sources.json", text))) == text);
  CHECK(sources_text(t) ==
        "mine (sha256 aaaaaaaaaaaa): acceptance own; overlap assumed; times borrowed from nsa-1b "
        "with synthetic weights, by the machine's cost model; SpecAttn's share of the context own; "
        "acceptance under sigmoids assumed; losses not measured; a remark");
  nlohmann::json json = nlohmann::json::parse(text);
  json["provenance"]["sources"]["times"] = "stolen";
  CHECK_THROWS_WITH(read_plan_table(written("sources.json", json.dump())),
                    Catch::Contains("the word 'stolen' is unknown"));
  json = nlohmann::json::parse(text);
  json["provenance"]["sources"].erase("chosen_share");
  json["provenance"]["sources"]["sigmoid_acceptance"] = nullptr;
  const PlanTable without = read_plan_table(written("sources.json", json.dump()));
  CHECK(!without.sources->chosen_share);
  CHECK(!without.sources->sigmoid_acceptance);
  json["provenance"].erase("sources");
  const PlanTable older = read_plan_table(written("sources.json", json.dump()));
  CHECK(!older.sources);
  CHECK(sources_text(older).empty());
}

namespace {

// One entry each that is exact, not measured, measured and measured of a neighbour.
PlanTable priced() {
  PlanTable t = table();
  t.entries.resize(4);
  t.entries[0].price = price_by_construction();
  for (std::size_t i = 1; i < t.entries.size(); ++i) {
    t.entries[i].evaluation.strategy = Strategy::parse("nsa/d8k8n64/bfs/c8a/F*");
  }
  t.entries[1].price = {};
  t.entries[1].price.unmeasured_because = "nobody \"measured\" it";
  LossPrice& own = t.entries[2].price = {.from = PriceFrom::kOwn,
                                         .pair = {"mine", std::string(64, 'a')},
                                         .sets = "texts: all",
                                         .split = "test",
                                         .tokens = 4096,
                                         .kl_nats = {0.011, 0.009, 0.013},
                                         .rise_nats = {-0.001, -0.004, 0.002},
                                         .same_token = {0.97, 0.96, 0.98}};
  own.tasks = {{"recall",
                {.questions = 50,
                 .right = 40,
                 .gained = 1,
                 .lost = 3,
                 .accuracy = {0.8, 0.67, 0.89},
                 .change = {-0.04, -0.12, 0.04}}}};
  t.entries[3].price = own;
  t.entries[3].price.from = PriceFrom::kBorrowed;
  t.entries[3].price.price_of = "nsa/d7k8n48/bfs/c8a/F*";
  t.max_loss = 0.05;
  return t;
}

}  // namespace

TEST_CASE("JSON carries what an entry's choice costs, and what nobody measured is null") {
  const std::string text = plan_table_json(priced());
  CHECK(plan_table_json(read_plan_table(written("priced.json", text))) == text);
  const nlohmann::json json = nlohmann::json::parse(text);
  const nlohmann::json& entries = json["entries"];
  CHECK(json["provenance"]["max_loss_nats"] == 0.05);
  CHECK(entries[0]["price"]["from"] == "construction");
  CHECK(entries[0]["price"]["kl_nats"] == 0.0);
  CHECK(entries[1]["price"].is_null());
  CHECK(entries[1]["price_unmeasured"] == "nobody \"measured\" it");
  const nlohmann::json& own = entries[2]["price"];
  CHECK(own["from"] == "own");
  CHECK(own["kl_nats"] == 0.011);
  CHECK(own["kl_nats_95"] == nlohmann::json({0.009, 0.013}));
  CHECK(own["loss_rise_nats"] == -0.001);
  CHECK(own["same_token"] == 0.97);
  CHECK(own["tokens"] == 4096);
  CHECK(own["pair_sha256"] == std::string(64, 'a'));
  CHECK(own["price_of"].is_null());
  CHECK(own["tasks"][0]["set"] == "recall");
  CHECK(own["tasks"][0]["accuracy_change_95"] == nlohmann::json({-0.12, 0.04}));
  CHECK(entries[2]["price_unmeasured"].is_null());
  CHECK(entries[3]["price"]["price_of"] == "nsa/d7k8n48/bfs/c8a/F*");
}

TEST_CASE("a table older than prices is read: exact tuples are exact, of others nobody knows") {
  nlohmann::json json = nlohmann::json::parse(plan_table_json(table()));
  for (nlohmann::json& entry : json["entries"]) {
    entry.erase("price");
    entry.erase("price_unmeasured");
  }
  json["provenance"].erase("max_loss_nats");
  const PlanTable older = read_plan_table(written("older.json", json.dump()));
  CHECK(!older.max_loss);
  std::int64_t unknown = 0;
  for (const PlanEntry& e : older.entries) {
    CHECK(e.price.is_known() == !e.lossy);
    CHECK(e.price.unmeasured_because.empty() == e.price.is_known());
    unknown += e.price.is_known() ? 0 : 1;
  }
  CHECK(unknown > 0);
}

TEST_CASE("a broken price is refused in a sentence") {
  const std::string good = plan_table_json(priced());
  const auto changed = [&](const char* pointer, const nlohmann::json& value) {
    nlohmann::json other = nlohmann::json::parse(good);
    other[nlohmann::json::json_pointer(pointer)] = value;
    return other.dump();
  };
  check_refused("p1.json", changed("/entries/2/price/from", "not measured"), "is unknown");
  check_refused("p2.json", changed("/entries/2/price/kl_nats", 7.0), "does not hold its value");
  check_refused("p3.json", changed("/entries/2/price/tokens", -1), "a count is needed");
  check_refused("p4.json", changed("/entries/2/price/tasks/0/lost", 0.5), "a count is needed");
  check_refused("p5.json", changed("/entries/2/price", 0.0), "another type");
}

TEST_CASE("text, CSV and the header say what a choice costs, and what was not measured") {
  const PlanTable t = priced();
  const std::string text = plan_table_text(t, 12);
  for (const char* part :
       {"  exact", "  not measured", "  KL 0.011 nats, 97 % same\n",
        "  KL 0.011 nats, 97 % same (of mine, at nsa/d7k8n48/bfs/c8a/F*)",
        "At most 0.05 nats a token of KL are lost",
        "losses own and borrowed from mine (sha256 aaaaaaaaaaaa), in part not measured"}) {
    CAPTURE(part, text);
    CHECK(text.find(part) != std::string::npos);
  }
  std::istringstream csv(plan_table_csv(t));
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(csv, line);) {
    rows.push_back(csv_fields(line));
  }
  const auto at = [&](std::size_t row, const std::string& name) {
    const auto column = std::find(rows[0].begin(), rows[0].end(), name) - rows[0].begin();
    return rows[row].at(static_cast<std::size_t>(column));
  };
  CHECK(at(1, "kl_nats") == "0");
  CHECK(at(2, "kl_nats").empty());
  CHECK(at(2, "same_token").empty());
  CHECK(at(2, "price_unmeasured") == "nobody \"measured\" it");
  CHECK(at(3, "kl_nats_high") == "0.013");
  CHECK(at(3, "price_tasks") == "recall: 50 questions, right -4.0 % [-12.0, 4.0]");
  CHECK(at(4, "price") == "borrowed");
  CHECK(at(4, "price_of") == "nsa/d7k8n48/bfs/c8a/F*");
  written("priced.h", plan_table_cpp(t));
  written("priced_user.cpp",
          "#include \"priced.h\"\n#include <string_view>\nusing namespace versieve_plan;\n"
          "static_assert(kEntries[0].kl_nats <= 0.0 && kEntries[0].same_token >= 1.0);\n"
          "static_assert(!(kEntries[1].kl_nats_high <= 1e9));\n"
          "static_assert(kEntries[2].kl_nats_high < 0.0131 && kEntries[2].price_tokens == 4096);\n"
          "static_assert(std::string_view(kEntries[3].price_of) == \"nsa/d7k8n48/bfs/c8a/F*\");\n"
          "static_assert(std::string_view(kEntries[1].price) == \"not measured\");\n"
          "int main() {}\n");
  CHECK(compiled("-fsyntax-only priced_user.cpp", "17"));
}

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
  CHECK(names.size() == 53);
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
  }
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
          << "assert all(len(r) == 53 and None not in r.values() for r in rows)\n"
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

TEST_CASE("foreign, older and broken tables are refused in a sentence") {
  const std::string good = plan_table_json(table());
  nlohmann::json json = nlohmann::json::parse(good);
  check_refused("empty.json", "", "empty.json");
  check_refused("half.json", good.substr(0, good.size() / 2), "half.json");
  check_refused("list.json", "[]", "list.json");
  check_refused("other.json", "{\"schema\": 1}", "not a planner table");
  json["schema"] = 99;
  check_refused("newer.json", json.dump(), "schema 99");
  std::string latin = good;
  latin[latin.find("nsa-1b")] = '\xe4';
  check_refused("latin.json", latin, "no UTF-8");
  json = nlohmann::json::parse(good);
  json["entries"][0].erase("throughput");
  check_refused("missing.json", json.dump(), "a key is missing");
  json = nlohmann::json::parse(good);
  json["entries"][0]["bucket"] = 17;
  check_refused("bucket.json", json.dump(), "bucket");
  json = nlohmann::json::parse(good);
  json["entries"][0]["strategy"] = "nsa/what";
  check_refused("strategy.json", json.dump(), "nsa/what");
  json = nlohmann::json::parse(good);
  json["entries"][0]["source"] = "guessed";
  check_refused("source.json", json.dump(), "guessed");
  json = nlohmann::json::parse(good);
  json["entries"][0]["step_latency_us"] = 0.0;
  check_refused("time.json", json.dump(), "step time");
  json = nlohmann::json::parse(good);
  json["guard"]["alpha"] = 0.0;
  check_refused("guard.json", json.dump(), "alpha");
  const auto changed = [&](const char* pointer, const nlohmann::json& value) {
    nlohmann::json other = nlohmann::json::parse(good);
    other[nlohmann::json::json_pointer(pointer)] = value;
    return other.dump();
  };
  check_refused("wrapped.json", changed("/provenance/fit_points", 9223372036854775808ULL),
                "where an integer is needed");
  check_refused("cut.json", changed("/buckets/0/1", 1e308), "where an integer is needed");
  check_refused("rank.json", changed("/entries/0/rank", 0), "rank 0");
  check_refused("upside.json", changed("/buckets/1/1", 100), "ascending");
  check_refused("overlap.json", changed("/buckets/1/0", 100), "ascending");
  check_refused("below.json", changed("/buckets/0/0", -1), "ascending");
  CHECK_THROWS_AS(read_plan_table((folder() / "absent.json").string()), Error);
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
