// Planner tables as JSON: they come back as they went, older ones are read, foreign files are
// refused in a sentence.
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
