// Planner tables of several requests at a time as files: each form carries the axis, tables of one
// request stay as they were, and what does not fit together is refused.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/analyse/plan/prefill_file.h"
#include "engine/analyse/plan/table_file.h"
#include "engine/io/formatted.h"
#include "model/plan/concurrency.h"
#include "model/words/error.h"
#include "tests/support/paths.h"
#include "tests/support/planned.h"
#include "tests/support/temp_folder.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

PlanTable made(std::vector<std::int64_t> concurrency) {
  PlanOptions options;
  options.buckets = {{0, 4096}, {12288, 16384}};
  options.classes = {PrecisionClass::kStrict, PrecisionClass::kReuseOnly};
  options.schedules = {"F*", "(FR)*"};
  options.concurrency = std::move(concurrency);
  return plan(synthetic::fitted_by_hand(0.8, 0.9, true), hardware_by_key("rtx4090"),
              named_llm_shape("nsa-8b"), options);
}

// Of 1, 4 and 128 requests, of which the last do not fit at the longer contexts.
const PlanTable& table() {
  static const PlanTable once = made({1, 4, 128});
  return once;
}

PlanTable read_back(const std::string& text) {
  const test::TempFolder folder;
  const std::string path = (folder / "table.json").string();
  std::ofstream(path) << text;
  return read_plan_table(path);
}

std::string refusal_of(const std::string& text) {
  try {
    read_back(text);
  } catch (const Error& e) {
    CHECK(e.code() == ExitCode::kBadInput);
    return e.what();
  }
  return "accepted";
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) {
    out.push_back(line);
  }
  return out;
}

}  // namespace

TEST_CASE("JSON carries requests at a time, and a table of one request is as it was") {
  const std::string text = plan_table_json(table());
  CHECK(plan_table_json(read_back(text)) == text);
  const nlohmann::json json = nlohmann::json::parse(text);
  CHECK(json["schema"] == 2);
  CHECK(json["concurrency"] == nlohmann::json::parse("[1,4,128]"));
  CHECK(json["memory"].size() == 2);
  CHECK(json["memory"][1]["requests"] == table().memory[1].requests());
  CHECK(json["several_requests"].get<std::string>().find("assumptions") != std::string::npos);
  for (const nlohmann::json& entry : json["entries"]) {
    for (const char* key : {"concurrency", "request_throughput", "inter_token_ms",
                            "inter_token_ms_interval", "break_even", "loses"}) {
      CHECK(entry.contains(key));
    }
  }
  for (const nlohmann::json& point : json["operating_points"]) {
    CHECK(point["concurrency"].get<int>() >= 1);
  }
  const nlohmann::json one = nlohmann::json::parse(plan_table_json(made({1})));
  CHECK(one["schema"] == 1);
  for (const char* key : {"concurrency", "memory", "switch_points", "operating_points"}) {
    CHECK(!one.contains(key));
  }
  CHECK(!one["entries"][0].contains("concurrency"));
}

TEST_CASE("whoever asks a table of several requests for one finds the plan of one") {
  const PlanTable read = read_back(plan_table_json(table()));
  CHECK(read.concurrency == 1);
  const std::vector<const PlanEntry*> own = entries_of(read, 0, PrecisionClass::kStrict);
  const std::vector<const PlanEntry*> planned = entries_of(table(), 0, PrecisionClass::kStrict);
  REQUIRE(own.size() == planned.size());
  for (std::size_t i = 0; i < own.size(); ++i) {
    CHECK(own[i]->evaluation.strategy == planned[i]->evaluation.strategy);
  }
  REQUIRE(read.batched.size() == 2);
  CHECK(read.batched[0].concurrency == 4);
  CHECK(read.batched[0].entries.size() == table().batched[0].entries.size());
}

TEST_CASE("rows of requests that a table does not list are refused in a sentence") {
  const nlohmann::json good = nlohmann::json::parse(plan_table_json(table()));
  const auto changed = [&](const char* pointer, const nlohmann::json& value) {
    nlohmann::json other = good;
    other[nlohmann::json::json_pointer(pointer)] = value;
    return refusal_of(other.dump());
  };
  CHECK_THAT(changed("/entries/0/concurrency", 8), Catch::Contains("of 8 requests at a time"));
  CHECK_THAT(changed("/baselines/0/concurrency", 0), Catch::Contains("of 0 requests at a time"));
  CHECK_THAT(changed("/concurrency", nlohmann::json::parse("[4,1]")), Catch::Contains("ascend"));
  CHECK_THAT(changed("/concurrency", nlohmann::json::array()), Catch::Contains("names no number"));
  CHECK_THAT(changed("/concurrency/2", 100000), Catch::Contains("ascend"));
  CHECK_THAT(changed("/schema", 3), Catch::Contains("schema 3"));
  CHECK_THAT(changed("/memory/0/request_bytes", 0), Catch::Contains("memory"));
  nlohmann::json without = good;
  without["entries"][0].erase("concurrency");
  CHECK_THAT(refusal_of(without.dump()), Catch::Contains("a key is missing"));
}

TEST_CASE("CSV has a line an entry of every number of requests, one request's as it was") {
  const std::vector<std::string> lines = lines_of(plan_table_csv(table()));
  std::size_t entries = 0;
  for (const PlanTable* of : by_concurrency(table())) {
    entries += of->entries.size();
  }
  CHECK(lines.size() == entries + 1);
  const std::string last =
      ",break_even_low,break_even_high,loses,objective,ttft_ms,ttft_ms_low,ttft_ms_high,"
      "tokens_per_joule,tokens_per_joule_low,tokens_per_joule_high,watts,itl_limit_ms,"
      "ttft_limit_ms";
  CHECK(lines[0].substr(lines[0].size() - last.size()) == last);
  const std::string unknown = ",tokens,,,,,,,,,";  // no prompts, no sampled power, no limits
  CHECK(lines[1].substr(lines[1].size() - unknown.size()) == unknown);
  const std::vector<std::string> one = lines_of(plan_table_csv(made({1})));
  CHECK(one[0].find("concurrency") == std::string::npos);
  REQUIRE(lines[0].find(one[0]) == 0);
}

TEST_CASE("the C++ header finds an entry by requests at a time too") {
  const test::TempFolder folder;
  const PlanEntry* four = best_of(table().batched[0], 0, PrecisionClass::kStrict);
  REQUIRE(four != nullptr);
  std::ofstream(folder / "plan.h") << plan_table_cpp(table());
  std::ofstream(folder / "user.cpp")
      << "#include \"plan.h\"\n#include <string_view>\nusing namespace versieve_plan;\n"
         "constexpr const Entry* four = find_for(100, \"Strict\", 3);\n"
         "static_assert(four->requests_low == 2 && four->requests_high == 4);\n"
         "static_assert(std::string_view(four->strategy) == \""
      << four->evaluation.strategy.text()
      << "\");\n"
         "static_assert(four->break_even_low <= four->break_even && four->loses < 1.0);\n"
         "static_assert(find(100, \"Strict\")->requests_high == 1);\n"
         "static_assert(find_for(16000, \"Strict\", 100) == nullptr);\n"
         "static_assert(find_for(100, \"Strict\", 129) == nullptr);\n";
  const std::string line = "cd " + folder.path().string() + " && " + VERSIEVE_CXX +
                           " -std=c++17 -Wall -Wextra -Wpedantic -Werror -c user.cpp";
  CHECK(std::system(line.c_str()) == 0);
}

TEST_CASE("the C++ header says of how many requests a range is limited") {
  PlanTable limited = table();
  limited.batched[0].unavailable.push_back({0, PrecisionClass::kStrict, "no tuple keeps it"});
  CHECK(plan_table_cpp(limited).find("// Limited is 0-4096, 4 at a time: no tuple keeps it.\n") !=
        std::string::npos);
}

TEST_CASE("text says of each number of requests what pays, what fits and what is assumed") {
  const std::string text = plan_table_text(table(), 1);
  for (const char* part : {"   4 at a time  ", "even at ", "loses p ", "ms a token",
                           "Memory: ", "assumptions", "128 requests of 16384 tokens do not fit"}) {
    CAPTURE(part);
    CHECK(text.find(part) != std::string::npos);
  }
  CHECK(plan_table_text(made({1}), 1).find("at a time") == std::string::npos);
}

namespace {

// What `bench prefill --out` writes, of 512 tokens in a forward, others and the slow form.
std::string prefill_json() {
  return R"({"bench": "prefill", "device": "NVIDIA H200", "geometry": "nsa-8b", "attention": "nsa",
    "rows": [
      {"prompt": 4096, "rows": 512, "time_ms": {"median": 200, "low": 198, "high": 203}},
      {"prompt": 1024, "rows": 512, "time_ms": {"median": 50, "low": 49, "high": 51}},
      {"prompt": 4096, "rows": 2048, "time_ms": {"median": 160, "low": 159, "high": 162}},
      {"prompt": 4096, "rows": 256, "time_ms": {"median": 240, "low": 239, "high": 241}},
      {"prompt": 4096, "rows": 0, "time_ms": {"median": 190, "low": 189, "high": 191}}]})";
}

PromptTimes prompts_of(const std::string& text) {
  const test::TempFolder folder;
  const std::string path = (folder / "prefill.json").string();
  std::ofstream(path) << text;
  return read_prompt_times(path);
}

std::string with(std::string text, const std::string& from, const std::string& to) {
  REQUIRE(text.find(from) != std::string::npos);
  return text.replace(text.find(from), from.size(), to);
}

}  // namespace

TEST_CASE("prompts are read as bench prefill writes them, in the pieces that a batch reads") {
  const PromptTimes times = prompts_of(prefill_json());
  CHECK(times.rows == 512);
  CHECK(times.warning.empty());
  CHECK(times.device == "NVIDIA H200");
  REQUIRE(times.points.size() == 2);
  CHECK(times.points[0].tokens == 1024);
  CHECK(times.points[1].ms == 200.0);
  require_prompts_of(times, named_llm_shape("nsa-8b"), "h200-sxm");
  CHECK_THROWS_AS(require_prompts_of(times, named_llm_shape("nsa-1b"), "h200-sxm"), Error);
  CHECK_THROWS_AS(require_prompts_of(times, named_llm_shape("nsa-8b"), "h100-sxm"), Error);
  const PromptTimes dense =
      prompts_of(with(prefill_json(), R"("attention": "nsa")", R"("attention": "dense")"));
  CHECK(dense.geometry == "dense-8b");
  CHECK(dense.rows == 256);
  CHECK(dense.points.at(0).ms == 240.0);
  CHECK(prompts_of(with(prefill_json(), "nsa-8b", "dense-8b")).rows == 256);  // by its name alone
  for (const auto& [from, to] :
       {std::pair{R"("bench": "prefill")", R"("bench": "batch")"},
        std::pair{R"("median": 200)", R"("median": -1)"},
        std::pair{R"("median": 200)", R"("median": 300)"}, std::pair{R"("prompt": 4096,)", ""},
        std::pair{R"("low": 198)", R"("low": "x")"}}) {
    CAPTURE(from);
    CHECK_THROWS_AS(prompts_of(with(prefill_json(), from, to)), Error);
  }
}

TEST_CASE("prompts in other pieces than a batch reads are taken to last longer, and it is said") {
  std::string text = prefill_json();
  for (int i = 0; i < 2; ++i) {
    text = with(text, R"("rows": 512)", R"("rows": 0)");
  }
  text = with(text, R"("rows": 256)", R"("rows": 0)");
  PromptTimes times = prompts_of(text);
  CHECK(times.rows == 512);  // two halvings of 2,048
  REQUIRE(times.points.size() == 1);
  CHECK(times.points[0].ms == Approx(160.0 * std::exp(2 * 0.16)));
  const Interval& i = times.points[0].interval;
  CHECK(std::log(i.high / i.low) > 2 * 1.96 * 2 * 0.16);
  CHECK(times.warning.find("holds no forwards of 512 tokens") != std::string::npos);
  date_against({}, times);  // another warning stands behind it
  CHECK(times.warning.find("holds no forwards") == 10);
  CHECK(times.warning.find("; --prefill says neither when") != std::string::npos);
  // Of 256 and 1,024 as near the fewer.
  CHECK(prompts_of(with(with(prefill_json(), R"("prompt": 4096, "rows": 512)",
                             R"("prompt": 4096, "rows": 1024)"),
                        R"("rows": 512)", R"("rows": 0)"))
            .points.at(0)
            .ms == Approx(240.0 * std::exp(-0.16)));
  // A forward holds no more than its prompt: one of 1,024 tokens is halved once, one of 300 never.
  text = with(text, R"("prompt": 4096, "rows": 2048)", R"("prompt": 1024, "rows": 2048)");
  CHECK(prompts_of(text).points[0].ms == Approx(160.0 * std::exp(0.16)));
  text = with(text, R"("prompt": 1024, "rows": 2048)", R"("prompt": 300, "rows": 2048)");
  times = prompts_of(text);
  CHECK(times.points[0].ms == 160.0);
  CHECK(times.rows == 512);  // longer ones are read so
  CHECK(times.warning.find("holds no forwards") == std::string::npos);
}

TEST_CASE("prompts that may be of an older engine than the database's points are said to be") {
  const RunRecord newest{
      .device = "NVIDIA H200", .started_utc = "2026-11-28T01:02:03Z", .revision = "abc1234"};
  const auto warned = [&](const std::string& keys, std::optional<RunRecord> run) {
    PromptTimes times =
        prompts_of(with(prefill_json(), R"("bench": "prefill",)", R"("bench": "prefill",)" + keys));
    date_against(run, times);
    return times;
  };
  const PromptTimes nothing = warned("", newest);
  CHECK(nothing.warning.find("neither when nor with which revision") != std::string::npos);
  CHECK(nothing.warning.find("newest points are of revision abc1234, 2026-11-28") !=
        std::string::npos);
  CHECK(warned("", {}).warning.find("neither when") != std::string::npos);
  CHECK(origin_text(nothing) == "NVIDIA H200");

  const std::string old = R"("revision": "0ld0ld0", "measured_utc": "2026-11-20T10:00:00Z",)";
  const PromptTimes older = warned(old, newest);
  CHECK(origin_text(older) == "NVIDIA H200 (revision 0ld0ld0, 2026-11-20)");
  CHECK(older.warning.find("before the database's newest points (revision abc1234, 2026-11-28)") !=
        std::string::npos);
  CHECK(warned(old, {}).warning.empty());  // a fit's file does not say when its points are of

  CHECK(warned(R"("revision": "abc1234", "measured_utc": "2026-11-20T10:00:00Z",)", newest)
            .warning.empty());
  CHECK(warned(R"("revision": "newer12", "measured_utc": "2026-11-29T10:00:00Z",)", newest)
            .warning.empty());
  CHECK(warned(R"("revision": "0ld0ld0",)", newest).warning.find("says not when") !=
        std::string::npos);
}

// Planned for the most tokens a joule within bounds, of 1 and 8 requests.
PlanTable table_with_aims() {
  FittedModel fit = synthetic::fitted_by_hand(0.8, 0.9, true);
  fit.energy = {.points = 12,
                .watts = 200.0,
                .joules_per_byte = 8e-11,
                .joules_per_flop = 6e-13,
                .log_error = 0.05,
                .most_requests = 64};
  PlanOptions options;
  options.buckets = {{0, 4096}};
  options.classes = {PrecisionClass::kStrict};
  options.schedules = {"F*"};
  options.concurrency = {1, 8};
  options.aims = {.objective = Objective::kEnergy,
                  .itl_ms = 50.0,
                  .ttft_ms = 400.0,
                  .prompts = prompts_of(with(prefill_json(), R"("bench": "prefill",)",
                                             R"("bench": "prefill", "revision": "0ld0ld0",
                                                "measured_utc": "2026-11-20T10:00:00Z",)"))};
  date_against(RunRecord{.started_utc = "2026-11-28T01:02:03Z", .revision = "abc1234"},
               *options.aims.prompts);
  return plan(fit, hardware_by_key("h200-sxm"), named_llm_shape("nsa-8b"), options);
}

TEST_CASE("CSV and the C++ header carry the first token's time and the energy that JSON carries") {
  const PlanTable made = table_with_aims();
  const PlanTable& eight = made.batched.at(0);
  const PlanEntry* best = best_of(eight, 0, PrecisionClass::kStrict);
  REQUIRE(best != nullptr);
  const EnergyYield energy = energy_yield(eight.energy, best->evaluation, 8);
  const FirstToken first = first_token(*eight.aims.prompts, best->evaluation, 8, 4096);
  std::string expected = ",energy";
  for (const double number :
       {first.ms, first.interval.low, first.interval.high, energy.tokens_per_joule,
        energy.interval.low, energy.interval.high, energy.watts}) {
    expected += "," + exact_decimal(number);
  }
  expected += ",50,400";  // the limits
  const std::vector<std::string> lines = lines_of(plan_table_csv(made));
  CHECK(std::count_if(lines.begin(), lines.end(), [&](const std::string& line) {
          return line.size() > expected.size() &&
                 line.substr(line.size() - expected.size()) == expected;
        }) == 1);

  const test::TempFolder folder;
  std::ofstream(folder / "plan.h") << plan_table_cpp(made, "aims");
  std::ofstream(folder / "no_aims.h") << plan_table_cpp(table(), "no_aims");
  std::ofstream(folder / "user.cpp")
      << "#include \"plan.h\"\n#include \"no_aims.h\"\n#include <string_view>\n"
         "namespace aims = versieve_plan::aims;\n"
         "static_assert(std::string_view(aims::kObjective) == \"energy\");\n"
         "static_assert(aims::kItlLimitMs == 50.0 && aims::kTtftLimitMs == 400.0);\n"
         "static_assert(versieve_plan::no_aims::kItlLimitMs > 1e300);\n"
         "constexpr const aims::Entry* eight = aims::find_for(100, \"Strict\", 8);\n"
         "static_assert(eight->tokens_per_joule == "
      << exact_decimal(energy.tokens_per_joule)
      << " && eight->watts == " << exact_decimal(energy.watts)
      << " && eight->ttft_ms_high == " << exact_decimal(first.interval.high)
      << ");\n"
         "constexpr double none = versieve_plan::no_aims::kEntries[0].tokens_per_joule;\n"
         "static_assert(none != none);\n";
  const std::string line = "cd " + folder.path().string() + " && " + VERSIEVE_CXX +
                           " -std=c++17 -Wall -Wextra -Wpedantic -Werror -c user.cpp";
  CHECK(std::system(line.c_str()) == 0);
}

TEST_CASE("a plan within bounds has the objective that its option named, in every form") {
  PlanTable bounded = table_with_aims();
  for (PlanTable* of : {&bounded, &bounded.batched.at(0)}) {
    of->aims.objective = Objective::kTokens;
    of->aims.ttft_ms.reset();
  }
  const std::string text = plan_table_json(bounded);
  CHECK(nlohmann::json::parse(text)["objective"] == "latency");
  const PlanTable again = read_back(text);
  CHECK(again.aims.objective == Objective::kTokens);
  CHECK(plan_table_json(again) == text);
  CHECK(plan_table_csv(bounded).find(",latency,") != std::string::npos);
  CHECK(plan_table_csv(bounded).find(",50,\n") != std::string::npos);  // none to the first token
  CHECK(plan_table_cpp(bounded).find("kObjective = \"latency\"") != std::string::npos);
  // As tables were written before, and one whose word is not its bounds'.
  nlohmann::json older = nlohmann::json::parse(text);
  older.erase("objective");
  CHECK(read_back(older.dump()).aims.itl_ms == 50.0);
  older["itl_ms"] = nullptr;
  older["objective"] = "latency";
  CHECK(refusal_of(older.dump()).find("objective 'latency'") != std::string::npos);
}

TEST_CASE("a table's bounds, objective, prompts and energy go through its file") {
  const std::string text = plan_table_json(table_with_aims());
  const PlanTable again = read_back(text);
  CHECK(plan_table_json(again) == text);
  CHECK(again.aims.objective == Objective::kEnergy);
  CHECK(again.aims.ttft_ms == 400.0);
  CHECK(again.energy.watts == 200.0);
  const nlohmann::json json = nlohmann::json::parse(text);
  CHECK(json["objective"] == "energy");
  for (const nlohmann::json& entry : json["entries"]) {
    CHECK(entry["ttft_ms_interval"][1].get<double>() <= 400.0);
    CHECK(entry["tokens_per_joule"].get<double>() > 0.0);
  }
  const std::string shown = plan_table_text(again, 3);
  for (const char* part : {"first token in", "tokens/J", "most tokens a joule within 50 ms a token",
                           "Energy by a law fitted to 12 sampled steps",
                           "as NVIDIA H200 (revision 0ld0ld0, 2026-11-20) took",
                           "Warning: the prompts of --prefill were measured on NVIDIA H200"}) {
    CAPTURE(part);
    CHECK(shown.find(part) != std::string::npos);
  }
  // Ranks and what they are compared with: each by what it is ranked by.
  for (const PlanEntry* e : entries_of(again, 0, PrecisionClass::kStrict)) {
    if (e->rank <= 3) {
      CHECK(shown.find(formatted(
                "%7.1f tok/s [%.1f, %.1f]  %.1f tokens/J  ", e->evaluation.throughput,
                e->evaluation.throughput_interval.low, e->evaluation.throughput_interval.high,
                energy_yield(again.energy, e->evaluation, 1).tokens_per_joule)) !=
            std::string::npos);
    }
  }
  const Evaluation& plain = *plain_of(again, 0);
  CHECK(shown.find(formatted("%7.1f tok/s  %.1f tokens/J\n", plain.throughput,
                             energy_yield(again.energy, plain, 1).tokens_per_joule)) !=
        std::string::npos);
  CHECK(refusal_of(with(text, R"("objective": "energy")", R"("objective": "speed")"))
            .find("objective 'speed'") != std::string::npos);
  CHECK(refusal_of(with(text, R"("watts": 200.0)", R"("watts": -1.0)")).find("law of energy") !=
        std::string::npos);
  CHECK(refusal_of(with(text, "\"prompts\"", "\"other\"")).find("rests on prompts") !=
        std::string::npos);
}
