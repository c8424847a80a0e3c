// What to draft by requests and context: from timed steps, from the roofline, and as files.
#include <catch2/catch.hpp>
#include <cmath>

#include "engine/analyse/serve/serving_deployment.h"
#include "engine/analyse/serve/serving_file.h"
#include "engine/analyse/serve/serving_text.h"
#include "engine/io/atomic_file.h"
#include "tests/end_to_end/command.h"
#include "tests/engine/analyse/serve/serving_case.h"
#include "tests/support/errors.h"

using namespace versieve;
using namespace versieve::engine;
using namespace versieve::test;

namespace {

constexpr const char* kChain = "dense/d3k1n4/bfs/c1/F*";
constexpr const char* kTree = "dense/d5k4n32/bfs/c1/F*";
constexpr const char* kPlain = "dense/ar";

const ServingCell& cell_at(const ServingSchedule& s, std::int64_t requests,
                           std::int64_t context = 1000) {
  for (const ServingCell& cell : s.cells) {
    if (cell.context_low < context && context <= cell.context_high &&
        cell.requests_low <= requests && requests <= cell.requests_high) {
      return cell;
    }
  }
  throw std::runtime_error("no cell");
}

const ServingChoice& choice_of(const ServingCell& cell, const std::string& draft) {
  for (const ServingChoice& c : cell.choices) {
    if (draft_text(c.draft) == draft) {
      return c;
    }
  }
  throw std::runtime_error("no choice " + draft);
}

// Pays at one request and at 8, not at 32.
ServerEvidence timed_server() {
  ServerEvidence out;
  for (const auto& [requests, drafted, plain] :
       {std::tuple(1, 12.0, 10.0), std::tuple(8, 12.65, 11.0), std::tuple(32, 100.0, 20.0)}) {
    out.accept(kChain, requests, 2.4, {0, 200, 350, 300, 150});
    out.time(kChain, requests, 1000.0 * drafted);
    out.time(kPlain, requests, 1000.0 * plain);
  }
  return out;
}

}  // namespace

TEST_CASE("timed steps say at how many requests a draft pays, and from how many tokens on") {
  const ServingSchedule s = timed_server().schedule();
  const ServingChoice& one = choice_of(cell_at(s, 1), "d3k1n4");
  CHECK(one.times == StepTimes::kTimed);
  CHECK(one.tokens == Approx(2.4));
  CHECK(one.break_even == Approx(1.2));
  CHECK(one.break_even_interval.low < 1.2);
  CHECK(one.break_even_interval.high > 1.2);
  CHECK(one.break_even_interval.high < 1.3);
  CHECK(one.loses < 1e-6);
  CHECK(cell_at(s, 1).plain_step_us == Approx(10000.0));
  CHECK(choice_of(cell_at(s, 8), "d3k1n4").break_even == Approx(1.15));
  const ServingCell& many = cell_at(s, 32);
  CHECK(!many.best().draft.speculates());
  CHECK(choice_of(many, "d3k1n4").loses > 0.999);
  CHECK(contains(serving_text(s), "how to read it: d3k1n4 drafts 3 tokens deep, 1 a level"));
  CHECK(contains(serving_text(s), "\n  timed: steps with the draft and without one"));
  CHECK(cell_at(s, 3).requests_low == 2);  // no gap is left
  CHECK(s.cells.back().requests_high == 32);
}

// Beside its own slow plain steps a draft gains most, and no server runs them.
TEST_CASE("steps of this project's own slow attention are left out and counted") {
  ServerEvidence evidence = timed_server();
  const std::string slow = "/form=vanilla";
  evidence.time("nsa/d3k1n4/bfs/c1/F*" + slow, 1, 20100.0);
  evidence.time("nsa/ar/bfs/c1/F*" + slow, 1, 20000.0);
  const ServingSchedule s = evidence.schedule();
  CHECK(choice_of(cell_at(s, 1), "d3k1n4").break_even == Approx(1.2));
  CHECK(contains(serving_text(s), "2 timed steps are of form=vanilla"));
}

TEST_CASE("a shorter chain comes from the histogram, its time from the line to the longer one") {
  const ServingSchedule s = timed_server().schedule();
  const ServingChoice& cut = choice_of(cell_at(s, 1), "d1k1n2");
  CHECK(cut.token_source == TokenSource::kCut);
  CHECK(cut.tokens == Approx(1.8));  // 200 of 1,000 steps emitted one token
  CHECK(cut.times == StepTimes::kBetween);
  CHECK(cut.break_even == Approx(1.0 + 0.2 / 3.0));

  ServerEvidence mean = timed_server();
  for (PointMeasurement& m : mean.input.acceptance) {
    m.acceptance->accepted_histogram.clear();
    m.acceptance->accepted_per_step = 1.0 + 0.5 + 0.25 + 0.125;
  }
  const ServingChoice guessed = choice_of(cell_at(mean.schedule(), 1), "d2k1n3");
  CHECK(guessed.token_source == TokenSource::kGeometric);
  CHECK(guessed.tokens == Approx(1.75));
}

TEST_CASE("without timed steps the machine's roofline stands in, and says so") {
  ServerEvidence server;
  server.accept(kTree, 1, 3.0);
  server.accept(kChain, 1, 2.4, {0, 200, 350, 300, 150});
  server.input.hardware = hardware_for_device("NVIDIA H100 80GB HBM3");
  REQUIRE(server.input.hardware != nullptr);
  const ServingSchedule s = server.schedule();
  CHECK(s.cells.back().requests_high == kMostRequests);
  const ServingChoice& tree = choice_of(cell_at(s, 1), "d5k4n32");
  CHECK(tree.times == StepTimes::kRoofline);
  CHECK(tree.break_even == Approx(kOverRoofline * (1.0 + 5 * kLevelShare)));
  CHECK(tree.break_even_interval.low == 1.0);
  CHECK(tree.break_even_interval.high == Approx(kMostOverRoofline * (1.0 + 5 * kLevelShare)));
  CHECK(contains(serving_text(s), "should pay"));
  CHECK(contains(serving_text(s), "roofline: no such step was timed"));
  CHECK(!contains(serving_text(s), "\n  timed:"));
  // Where every row costs its arithmetic, a step of four rows takes four plain ones.
  CHECK(choice_of(cell_at(s, 256), "d5k4n32").break_even > 20.0);
  CHECK(!cell_at(s, 256).best().draft.speculates() == (cell_at(s, 256).best().gain() <= 1.0));
  std::string notes;
  for (const std::string& note : s.notes) {
    notes += note;
  }
  CHECK(contains(notes, "no step was timed"));
  CHECK(contains(notes, "does not say how many requests ran"));

  ServerEvidence timed = timed_server();
  timed.input.hardware = server.input.hardware;
  const ServingSchedule both = timed.schedule();
  CHECK(both.cells.back().requests_high == kMostRequests);
  // Never better than where it was timed and lost.
  CHECK(!cell_at(both, 64).best().draft.speculates());
}

TEST_CASE("a draft that was measured at other requests alone stands beside those measured here") {
  ServerEvidence server;
  server.accept(kTree, 1, 3.0);
  server.accept(kChain, 8, 2.4);
  server.input.hardware = hardware_for_device("NVIDIA H100 80GB HBM3");
  const ServingSchedule s = server.schedule();
  CHECK(choice_of(cell_at(s, 1), "d3k1n4").tokens == Approx(2.4));
  CHECK(choice_of(cell_at(s, 8), "d5k4n32").tokens == Approx(3.0));
  CHECK(contains(serving_files(s, "vllm", {.draft_model = "/d"}).settings, "[[1, "));
}

TEST_CASE("what cannot be scheduled is refused with what is missing") {
  ServerEvidence none;
  none.accept(kChain, 1, 2.4);
  const Error no_machine = error_of([&] { none.schedule(); });
  CHECK(no_machine.code() == ExitCode::kAnswerNo);
  CHECK(contains(no_machine.what(), "import a log of the server without speculation"));
  ServerEvidence lossy;
  lossy.accept("nsa/d3k1n4/bfs/c1/(FR)*", 1, 2.4);
  CHECK(contains(error_of([&] { lossy.schedule(); }).what(), "no measured draft of class Strict"));
}

TEST_CASE(
    "drafts that were cut short keep their lower bound, and no shorter chain is made of them") {
  ServerEvidence server = timed_server();
  for (PointMeasurement& m : server.input.acceptance) {
    m.reliability = Reliability::kAtLeast;
  }
  const ServingSchedule s = server.schedule();
  CHECK(choice_of(cell_at(s, 1), "d3k1n4").at_least);
  CHECK_THROWS(choice_of(cell_at(s, 1), "d1k1n2"));
  CHECK(contains(serving_text(s), "at least 2.40"));
}

TEST_CASE("a schedule is read back as it was written, and wrong files are refused by the field") {
  const TempFolder folder;
  const std::string path = (folder / "s.json").string();
  const ServingSchedule s = timed_server().schedule();
  const std::string text = serving_schedule_json(s);
  write_file_atomically(path, text);
  CHECK(is_serving_schedule(path));
  CHECK(serving_schedule_json(read_serving_schedule(path)) == text);
  CHECK(serving_schedule_csv(read_serving_schedule(path)) == serving_schedule_csv(s));

  const auto refusal = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const std::size_t at = changed.find(from);
    REQUIRE(at != std::string::npos);
    write_file_atomically(path, changed.replace(at, from.size(), to));
    const Error error = error_of([&] { read_serving_schedule(path); });
    CHECK(error.code() == ExitCode::kBadInput);
    return std::string(error.what());
  };
  CHECK(contains(refusal("\"schema\": 1", "\"schema\": 7"), "schema 7"));
  CHECK(contains(refusal("\"tokens\": 2.", "\"tokens\": 92."), "tokens is no number from 1"));
  CHECK(contains(refusal("\"break_even\": 1", "\"break_even\": -1"), "break_even is no number"));
  CHECK(contains(refusal("\"break_even\": 1", "\"break_even\": \"x\", \"y\": 1"), "break_even"));
  CHECK(contains(refusal("\"nodes\": 4", "\"nodes\": 4.5"), "nodes is no whole number"));
  CHECK(
      contains(refusal("\"times\": \"timed\"", "\"times\": \"told\""), "times has no such value"));
  CHECK(contains(refusal("\"loses\"", "\"lost\""), "lacks the field loses"));
  CHECK(contains(refusal("\"requests\": [\n    1,\n    1", "\"requests\": [\n    2,\n    2"),
                 "does not go on"));
  write_file_atomically(path, "");
  CHECK(!is_serving_schedule(path));
  write_file_atomically(path, text.substr(0, text.size() / 2));
  CHECK(error_of([&] { read_serving_schedule(path); }).code() == ExitCode::kBadInput);
}

TEST_CASE("the header of C++ compiles alone and finds a cell by context and requests") {
  const TempFolder folder;
  ServingSchedule s = timed_server().schedule();
  s.pair =
      "p\\\n#error ?"
      "?/";
  write_file_atomically(folder / "s.h", serving_schedule_cpp(s, "mine"));
  write_file_atomically(
      folder / "main.cpp",
      "#include \"s.h\"\nstatic_assert(versieve_plan::mine::find_serving(900, 1)->depth == 3);\n"
      "static_assert(versieve_plan::find_serving(900, 32)->nodes == 1);\n"
      "static_assert(versieve_plan::find_serving(900, 33) == nullptr);\nint main() {}\n");
  const CommandResult built = run_line("cd " + folder.path().string() +
                                       " && c++ -std=c++17 -Wall -Wextra -Werror -o m main.cpp");
  INFO(built.err);
  CHECK(built.code == 0);
  CHECK(error_of([&] { serving_schedule_cpp(s, "class"); }).code() == ExitCode::kUsage);
}

TEST_CASE("each engine gets what it can carry, in its own words") {
  const ServingSchedule s = timed_server().schedule();
  const ServingWish wish{.draft_model = "/d", .tiers_file = "/t.json"};
  const ServingFiles vllm = serving_files(s, "vllm", wish);
  CHECK(contains(vllm.settings,
                 "  num_speculative_tokens: 3\n"
                 "  num_speculative_tokens_per_batch_size: [[1, "));
  CHECK(contains(vllm.settings, ", 8192, 0]]\n"));
  CHECK(!contains(vllm.settings, "adaptive_verification: "));
  const ServingFiles sglang = serving_files(s, "sglang", wish);
  CHECK(contains(sglang.settings,
                 "speculative-num-steps: 3\nspeculative-eagle-topk: 1\nspeculative-adaptive: true\n"
                 "speculative-adaptive-config: \"/t.json\"\n"));
  CHECK(!contains(sglang.settings, "\nspeculative-num-draft-tokens:"));
  const nlohmann::json tiers = nlohmann::json::parse(sglang.tiers);
  CHECK(tiers.at("1").at("candidate_steps") == nlohmann::json::array({3}));
  CHECK(tiers.at("9").at("candidate_steps") == nlohmann::json::array({0}));
  const ServingFiles trtllm = serving_files(s, "trtllm", wish);
  CHECK(contains(trtllm.settings, "  max_draft_len: 3\n  max_concurrency: 8\n"));
  CHECK(!contains(trtllm.settings, "\n  draft_len_schedule"));
  for (const ServingFiles& files : {vllm, sglang, trtllm}) {
    CHECK(files.speculates);
    CHECK(!contains(files.settings, "threshold:"));
    CHECK(contains(files.settings, "loses with p"));
  }
  CHECK(contains(serving_files(s, "vllm", {}).settings, "NOT COMPLETE"));
  CHECK(error_of([&] { serving_files(s, "vllm", {.context = 5000}); }).code() ==
        ExitCode::kAnswerNo);
}

TEST_CASE("a tree that is best is a loss for engines of chains, and the file says how great") {
  ServerEvidence server;
  server.accept(kTree, 1, 3.6);
  server.accept(kChain, 1, 2.4, {0, 200, 350, 300, 150});
  server.time(kTree, 1, 13000.0);
  server.time(kChain, 1, 12000.0);
  server.time(kPlain, 1, 10000.0);
  const ServingSchedule s = server.schedule();
  CHECK(draft_text(cell_at(s, 1).best().draft) == "d5k4n32");
  const ServingFiles vllm = serving_files(s, "vllm", {.draft_model = "/d"});
  REQUIRE(!vllm.lost.empty());
  CHECK(contains(vllm.lost.front(), "the best is d5k4n32, and the chain taken yields 27.8 % less"));
  const ServingFiles sglang = serving_files(s, "sglang", {.draft_model = "/d"});
  CHECK(sglang.lost.empty());
  CHECK(sglang.tiers.empty());
  CHECK(contains(sglang.settings,
                 "speculative-num-steps: 5\nspeculative-eagle-topk: 4\n"
                 "speculative-num-draft-tokens: 32\n"));
  const ServingFiles trtllm = serving_files(s, "trtllm", {.draft_model = "/d"});
  CHECK(contains(trtllm.settings, "max_total_draft_tokens: 20\n"));
  CHECK(contains(trtllm.lost.front(), "20 in place of 31"));
}

TEST_CASE("where no draft pays nothing is set") {
  ServerEvidence server;
  server.accept(kChain, 1, 1.1);
  server.time(kChain, 1, 20000.0);
  server.time(kPlain, 1, 10000.0);
  const ServingSchedule s = server.schedule();
  for (const char* format : {"vllm", "sglang", "trtllm"}) {
    const ServingFiles files = serving_files(s, format, {.draft_model = "/d"});
    CHECK(!files.speculates);
    CHECK(contains(files.settings, "\n{}\n"));
    CHECK(files.tiers.empty());
  }
}

TEST_CASE("requests at a time are read out of a regime, and other words are none") {
  CHECK(requests_of("chat, concurrency 4") == RequestRange{4, 4});
  CHECK(requests_of("concurrency 5 to 8") == RequestRange{5, 8});
  for (const char* text : {"chat", "", "concurrency", "concurrency x", "concurrency 0",
                           "concurrency 5 to 4", "concurrency 99999999999999999999"}) {
    CHECK(!requests_of(text));
  }
}

TEST_CASE("a mean that a server counts a little too high stays within its draft") {
  ServerEvidence server;
  server.accept(kChain, 1, 4.02);
  server.input.hardware = hardware_for_device("NVIDIA H100 80GB HBM3");
  const ServingSchedule s = server.schedule();
  const ServingChoice& chain = choice_of(cell_at(s, 1), "d3k1n4");
  CHECK(chain.tokens == 4.0);
  CHECK(chain.tokens_interval.high == 4.0);
  const TempFolder folder;
  write_file_atomically(folder / "s.json", serving_schedule_json(s));
  CHECK(read_serving_schedule((folder / "s.json").string()).cells.size() == s.cells.size());
}

TEST_CASE("a step with a draft that took less time than a plain one is worth a token, and said") {
  ServerEvidence server;
  server.accept(kChain, 1, 2.4, {0, 200, 350, 300, 150});
  server.time(kChain, 1, 6000.0);
  server.time(kPlain, 1, 10000.0);
  server.input.hardware = hardware_for_device("NVIDIA H100 80GB HBM3");
  const ServingSchedule s = server.schedule();
  for (const ServingCell& cell : s.cells) {
    for (const ServingChoice& c : cell.choices) {
      CAPTURE(cell.requests_high, draft_text(c.draft));
      CHECK(c.break_even >= 1.0);
      CHECK(c.break_even_interval.low >= 1.0);
      CHECK(c.break_even_interval.high >= c.break_even);
    }
  }
  CHECK(choice_of(cell_at(s, 1), "d3k1n4").times == StepTimes::kTimed);
  const std::string text = serving_text(s);
  CHECK(contains(text,
                 "note: steps with a draft took less time than steps without one (d3k1n4 at "
                 "up to 1 requests and 1024 tokens of context took 0.60 of theirs)"));
  CHECK(!contains(serving_text(timed_server().schedule()), "took less time"));
}

TEST_CASE("of requests that share a draft the figures of those that lose likeliest stand too") {
  ServerEvidence server;
  for (const auto& [requests, drafted] :
       {std::pair(1, 12.0), std::pair(2, 16.0), std::pair(4, 21.0), std::pair(8, 40.0)}) {
    server.accept(kChain, requests, 2.4);
    server.time(kChain, requests, 1000.0 * drafted);
    server.time(kPlain, requests, 10000.0);
  }
  ServingSchedule s = server.schedule();
  for (ServingCell& cell : s.cells) {  // of this chain alone
    std::erase_if(cell.choices, [](const ServingChoice& c) { return c.draft.nodes < 4; });
    cell.choices.push_back({});
    std::stable_sort(
        cell.choices.begin(), cell.choices.end(),
        [](const ServingChoice& a, const ServingChoice& b) { return a.gain() > b.gain(); });
  }
  std::string settings = serving_files(s, "vllm", {.draft_model = "/d"}).settings;
  for (std::size_t at = 0; (at = settings.find("\n#   ", at)) != std::string::npos;) {
    settings.replace(at, 5, " ");
  }
  INFO(settings);
  CHECK(contains(settings, "# 1 to 4 at a time: d3k1n4, 2.40 tokens a step"));
  CHECK(contains(settings,
                 "breaks even at 1.20 [1.18, 1.22] (timed), loses with p = 0.00; at 3 to 4: "));
  CHECK(contains(settings, "breaks even at 2.10 [2.07, 2.13] (timed), loses with p = 0.00."));
  CHECK(contains(settings, "# 5 to 8 at a time: no draft."));
}

TEST_CASE("between requests that were timed a ratio lies between theirs") {
  ServerEvidence server;
  server.input.hardware = &hardware_by_key("h100-sxm");
  server.accept("dense/d3k1n4/bfs/c1/F*", 4, 2.4);
  const std::pair<std::int64_t, double> ratios[] = {{4, 1.1}, {32, 1.8}};
  for (const auto& [requests, ratio] : ratios) {
    server.time("dense/d3k1n4/bfs/c1/F*", requests, 1000.0 * ratio);
    server.time("dense/ar", requests, 1000.0);
  }
  const ServingSchedule s = server.schedule();
  const auto even = [&s](std::int64_t requests) {
    const ServingChoice& chain = choice_of(cell_at(s, requests), "d3k1n4");
    CHECK(chain.times == StepTimes::kRoofline);
    return chain.break_even;
  };
  // Up to 32 requests of 4 rows the roofline is the same: a third, then two, of the way.
  CHECK(even(8) == Approx(1.1 * std::cbrt(1.8 / 1.1)));
  CHECK(even(16) == Approx(1.1 * std::pow(1.8 / 1.1, 2.0 / 3.0)));
  CHECK(even(1) == Approx(1.1));
  CHECK(even(64) == Approx(1.8));
  const auto reach = [&s](std::int64_t requests) {
    const Interval i = choice_of(cell_at(s, requests), "d3k1n4").break_even_interval;
    return std::log(i.high / i.low);
  };
  CHECK(reach(128) > reach(64));
  CHECK(reach(64) > reach(32));
}

// A server's pause, or its start, within one line's interval: the median does not see it.
TEST_CASE("an interval of a step's time is not as wide as the one sample that a pause spoilt") {
  ServerEvidence server;
  server.accept("dense/d3k1n4/bfs/c1/F*", 1, 2.4);
  server.time("dense/d3k1n4/bfs/c1/F*", 1, 1200.0);
  server.time("dense/ar", 1, 1000.0);
  server.input.steps[0].time_ns[7] = 1e9;
  server.input.steps[1].time_ns[3] = 5e8;
  const ServingChoice& chain = choice_of(cell_at(server.schedule(), 1), "d3k1n4");
  CHECK(chain.break_even == Approx(1.2).epsilon(0.01));
  CHECK(chain.break_even_interval.high < 1.23);
  CHECK(chain.loses < 0.01);
  // Of two samples nearly all is unknown, of three and four less.
  const auto reach = [](std::vector<double> us) {
    ServerEvidence few;
    few.accept("dense/d3k1n4/bfs/c1/F*", 1, 2.4);
    few.time("dense/d3k1n4/bfs/c1/F*", 1, 1200.0);
    few.time("dense/ar", 1, 1000.0);
    few.input.steps[1].time_ns.clear();
    for (const double t : us) {
      few.input.steps[1].time_ns.push_back(1e3 * t);
    }
    return choice_of(cell_at(few.schedule(), 1), "d3k1n4").break_even_interval.high;
  };
  CHECK(reach({900, 1100}) > reach({900, 1000, 1100}));
  CHECK(reach({900, 1000, 1100}) > reach({900, 1000, 1000, 1100}));
  CHECK(reach({900, 1000, 1000, 1100}) >
        reach({900, 990, 1000, 1010, 1100, 1000, 995, 1005, 1000}));
}

TEST_CASE(
    "steps are held against plain ones that ran alike, and tuples of one draft by the fastest") {
  const auto timed = [](const char* strategy, LaunchMode launch, double us) {
    ServerEvidence one;
    one.time(strategy, 1, us);
    one.input.steps[0].key.launch = launch;
    return one.input.steps[0];
  };
  constexpr const char* kNsa = "nsa/d3k1n4/bfs/c1/F*";
  ServerEvidence server;
  server.accept(kNsa, 1, 2.4);
  server.input.steps = {timed("nsa/ar", LaunchMode::kGraph, 700.0),
                        timed("nsa/ar", LaunchMode::kStream, 840.0),
                        timed("nsa/ar/bfs/c1/F*/form=vanilla", LaunchMode::kStream, 2400.0),
                        timed("dense/ar", LaunchMode::kGraph, 500.0),
                        timed(kNsa, LaunchMode::kGraph, 1127.0),
                        timed("nsa/d3k1n4/bfs/c4e/F*", LaunchMode::kGraph, 1050.0),
                        timed(kNsa, LaunchMode::kStream, 2000.0)};
  const ServingSchedule s = server.schedule();
  const ServingChoice& chain = choice_of(cell_at(s, 1), "d3k1n4");
  CHECK(chain.break_even == Approx(1.5));
  CHECK(chain.break_even_interval.high < 1.53);
  CHECK(chain.times == StepTimes::kTimed);
  // Plain decoding of another attention alone was timed: nothing to hold it against.
  server.input.steps.erase(server.input.steps.begin(), server.input.steps.begin() + 3);
  CHECK_THROWS_AS(server.schedule(), Error);
}
