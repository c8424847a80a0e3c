// What a choice costs in quality, in every form of a planner table.
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
