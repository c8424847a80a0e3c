// From a server's log to a file that the server loads: the README's three commands as they stand
// there, the same with plain decoding's log, and what goes wrong.
#include <catch2/catch.hpp>

#include "tests/end_to_end/command.h"
#include "tests/support/errors.h"

using namespace versieve::test;
namespace fs = std::filesystem;

namespace {

// A server's log as SGLang 0.5.23 writes it: at each number of requests some lines of about such a
// step time; plain if no length is given.
std::string server_log(double length_one, double step_ms_one, double grows) {
  std::string out;
  if (length_one > 0.0) {
    out +=
        "[2026-11-20 10:00:00] server_args={'model_path': 'm', 'speculative_num_steps': 3, "
        "'speculative_eagle_topk': 1, 'speculative_num_draft_tokens': 4, 'decode_log_interval': "
        "40}\n";
  }
  for (const int requests : {1, 2, 4, 8, 16, 32, 64}) {
    for (int line = 0; line < 12; ++line) {
      const double length = length_one > 0.0 ? length_one + 0.05 * (line % 3 - 1) : 1.0;
      const double step_ms = step_ms_one + grows * requests + 0.02 * (line % 5 - 2);
      char text[512];
      std::snprintf(text, sizeof text,
                    "[2026-11-20 10:%02d:%02d TP0] Decode batch, #running-req: %d, #token: %d, "
                    "token usage: 0.10, %scuda graph: True, gen throughput (token/s): %.2f, "
                    "#queue-req: 0, \n",
                    requests % 60, line, requests, 3000 * requests,
                    length_one > 0.0
                        ? ("accept len: " + std::to_string(length) +
                           ", accept rate: " + std::to_string((length - 1.0) / 3.0) + ", ")
                              .c_str()
                        : "",
                    1e3 * requests * length / step_ms);
      out += text;
    }
  }
  return out;
}

class Folder {
 public:
  fs::path path(const std::string& name) const { return folder_ / name; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }
  // A line as a user types it here, with `versieve` on the path.
  CommandResult run(const std::string& line) const {
    return run_line("cd " + folder_.path().string() +
                    " && PATH=" VERSIEVE_BINARY_DIR "/bin:$PATH && " + line);
  }
  std::string text(const std::string& name) const { return text_of_file(folder_ / name); }

 private:
  TempFolder folder_;
};

std::vector<std::string> readme_commands() {
  std::istringstream lines(text_of_file(VERSIEVE_SOURCE_DIR "/README.md"));
  std::vector<std::string> out;
  bool is_there = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("## ", 0) == 0) {
      is_there = line == "## Your own server";
    }
    if (is_there && line.rfind("versieve ", 0) == 0) {
      out.push_back(line);
    }
  }
  return out;
}

const std::string kImport =
    "versieve import --format sglang --db d.db --model p --device 'NVIDIA H100 80GB HBM3' "
    "--context 4096 ";

}  // namespace

TEST_CASE("the README's three commands lead from a log to a server's file") {
  const Folder folder;
  folder.write("server.log", server_log(2.5, 9.0, 0.3));
  const std::vector<std::string> commands = readme_commands();
  REQUIRE(commands.size() == 3);
  for (const std::string& command : commands) {
    const CommandResult run = folder.run(command);
    INFO(command << "\n" << run.out << run.err);
    CHECK(run.code == 0);
  }
  const std::string settings = folder.text("sglang.yaml");
  INFO(settings);
  CHECK(contains(settings, "speculative-draft-model-path: \"/models/eagle3\""));
  CHECK(contains(settings, "speculative-adaptive-config: \"" +
                               folder.path("sglang.tiers.json").string() + "\""));
  const nlohmann::json tiers = nlohmann::json::parse(folder.text("sglang.tiers.json"));
  CHECK(tiers.at("1").at("candidate_steps").at(0) == 3);
  // No step of plain decoding was timed: the roofline says so.
  CHECK(contains(settings, "(roofline)"));
  CHECK(!contains(settings, "NOT COMPLETE"));
}

TEST_CASE("with plain decoding's log the switch points are the server's own") {
  const Folder folder;
  folder.write("spec.log", server_log(2.5, 9.0, 0.5));
  folder.write("plain.log", server_log(0.0, 8.0, 0.05));
  REQUIRE(folder.run(kImport + "spec.log").code == 0);
  const CommandResult plain = folder.run(kImport + "--draft ar plain.log");
  INFO(plain.err);
  REQUIRE(plain.code == 0);
  // (9 + 0.5 B) / (8 + 0.05 B) reaches 2.5 at B = 29.
  const CommandResult made = folder.run("versieve schedule --db d.db --pair p --out s.json --json");
  INFO(made.err);
  REQUIRE(made.code == 0);
  const nlohmann::json schedule = nlohmann::json::parse(made.out);
  for (const nlohmann::json& cell : schedule.at("cells")) {
    const int most = cell.at("requests").at(1);
    CAPTURE(most, cell.dump());
    const nlohmann::json& best = cell.at("choices").at(0);
    if (most <= 8) {
      CHECK(best.at("draft") == "d3k1n4");
      CHECK(best.at("times") == "timed");
      CHECK(best.at("tokens").get<double>() == Approx(2.5).epsilon(0.02));
      CHECK(best.at("break_even").get<double>() ==
            Approx((9.0 + 0.5 * most) / (8.0 + 0.05 * most)).epsilon(0.02));
      CHECK(best.at("loses").get<double>() < 0.1);
    }
    if (most == 64) {
      CHECK(best.at("loses").get<double>() == 0.0);
      CHECK(best.at("nodes") == 1);
    }
  }
  for (const char* format : {"vllm", "trtllm", "sglang"}) {
    const CommandResult exported =
        folder.run(std::string("versieve export --table s.json --format ") + format +
                   " --draft-model /d --out f.yaml --json");
    INFO(exported.err);
    REQUIRE(exported.code == 0);
    const nlohmann::json answer = nlohmann::json::parse(exported.out);
    CHECK(answer.at("speculates") == true);
    CHECK(answer.at("tiers").is_null() == (std::string(format) != "sglang"));
  }
  for (const char* format : {"json", "csv", "cpp"}) {
    const CommandResult exported =
        folder.run(std::string("versieve export --table s.json --out t --format ") + format);
    CHECK(exported.code == 0);
  }
  const CommandResult diagnosed = folder.run("versieve diagnose --db d.db --pair p");
  INFO(diagnosed.out << diagnosed.err);
  CHECK(diagnosed.code == 0);
  CHECK(contains(diagnosed.out, "does it pay, by requests at a time and context"));
  CHECK(contains(diagnosed.out, "33 to 64 requests"));
  CHECK(contains(diagnosed.out, "does not pay"));
}

TEST_CASE("what cannot be scheduled or exported is said in a sentence, and nothing is written") {
  const Folder folder;
  folder.write("spec.log", server_log(2.5, 9.0, 0.5));
  REQUIRE(folder.run(kImport + "spec.log").code == 0);
  REQUIRE(folder.run("versieve schedule --db d.db --pair p --out s.json").code == 0);
  folder.write("cut.json", folder.text("s.json").substr(0, 900));
  folder.write("other.json", R"({"format": "versieve serving schedule", "schema": 99})");
  struct Case {
    std::string line;
    int code;
    const char* part;
  };
  const Case cases[] = {
      {"versieve schedule --db none.db --out t.json", 3, "none.db"},
      {"versieve schedule --db d.db --pair q --out t.json", 1, "no acceptance of a pair 'q'"},
      {"versieve schedule --db d.db --hardware h999 --out t.json", 2, "h999"},
      {"versieve schedule --db d.db --steps q --out t.json", 1, "no timed step of a model 'q'"},
      {"versieve schedule --db d.db --out /nowhere/t.json", 4, "/nowhere"},
      {"versieve schedule --db d.db --out d.db", 2, "d.db"},
      {"versieve export --table s.json --format vllm --out t.json", 2, ".yaml"},
      {"versieve export --table s.json --format vllm --class Reuse-only --out t.yaml", 2, "Strict"},
      {"versieve export --table s.json --format vllm --context 999999 --out t.yaml", 1, "buckets"},
      {"versieve export --table s.json --format csv --context 5 --out t.csv", 2, "--context"},
      {"versieve export --table s.json --format toml --out t.toml", 2, "unknown format"},
      {"versieve export --table s.json --format cpp --name class --out t.h", 2, "class"},
      {"versieve export --table cut.json --format csv --out t.csv", 3, "cut.json"},
      {"versieve export --table other.json --format csv --out t.csv", 3, "schema 99"},
  };
  for (const Case& c : cases) {
    const CommandResult run = folder.run(c.line);
    INFO(c.line << ": " << run.err);
    CHECK(run.code == c.code);
    CHECK(is_one_sentence(run.err));
    CHECK(contains(run.err, c.part));
    for (const char* name : {"t.json", "t.yaml", "t.csv", "t.toml", "t.h"}) {
      CHECK(!fs::exists(folder.path(name)));
    }
  }
}

TEST_CASE("a database without acceptance is named as such, by whoever asks") {
  const Folder folder;
  folder.write("plain.log", server_log(0.0, 8.0, 0.05));
  REQUIRE(folder.run(kImport + "--draft ar plain.log").code == 0);
  for (const char* line :
       {"versieve schedule --db d.db --out s.json", "versieve diagnose --db d.db"}) {
    const CommandResult run = folder.run(line);
    CAPTURE(line, run.err);
    CHECK(run.code == 1);
    CHECK(contains(run.err, "d.db holds no acceptance to go by: it holds no acceptance at all"));
  }
}

TEST_CASE("a log that speculated is no plain one, and a plain one is only taken as such") {
  const Folder folder;
  folder.write("spec.log", server_log(2.5, 9.0, 0.5));
  folder.write("plain.log", server_log(0.0, 8.0, 0.05));
  const CommandResult spec = folder.run(kImport + "--draft ar spec.log");
  CHECK(spec.code == 3);
  CHECK(contains(spec.err, "leave --draft ar out"));
  const CommandResult plain = folder.run(kImport + "plain.log");
  CHECK(plain.code == 3);
  CHECK(contains(plain.err, "--draft ar takes its times"));
  folder.write("page", "vllm:spec_decode_num_drafts 3\n");
  const CommandResult page = folder.run(
      "versieve import --format vllm --db d.db --model p --device X --context 9 --draft ar page");
  CHECK(page.code == 2);
  CHECK(contains(page.err, "times of a server without speculation"));
}

TEST_CASE("tiers are not left beside settings that could not be written") {
  const Folder folder;
  folder.write("spec.log", server_log(2.5, 9.0, 0.5));
  REQUIRE(folder.run(kImport + "spec.log").code == 0);
  REQUIRE(folder.run("versieve schedule --db d.db --pair p --out s.json").code == 0);
  fs::create_directory(folder.path("f.yaml"));
  const CommandResult run =
      folder.run("versieve export --table s.json --format sglang --draft-model /d --out f.yaml");
  CHECK(run.code == 4);
  CHECK(is_one_sentence(run.err));
  CHECK(!fs::exists(folder.path("f.tiers.json")));
}

TEST_CASE("a log of two starts of a server is both drafts of one schedule") {
  const Folder folder;
  std::string deeper = server_log(3.5, 9.0, 0.5);
  const auto replace = [&deeper](const std::string& from, const std::string& to) {
    deeper.replace(deeper.find(from), from.size(), to);
  };
  replace("num_steps': 3", "num_steps': 5");
  replace("draft_tokens': 4", "draft_tokens': 6");
  for (std::size_t at = 0; (at = deeper.find("accept rate: ", at)) != std::string::npos; ++at) {
    deeper.replace(at, 21, "accept rate: 0.500000");  // 2.5 of 5
  }
  folder.write("both.log", server_log(2.5, 9.0, 0.5) + deeper);
  const CommandResult imported = folder.run(kImport + "both.log");
  INFO(imported.out << imported.err);
  REQUIRE(imported.code == 0);
  const CommandResult made = folder.run("versieve schedule --db d.db --pair p --out s.json --json");
  REQUIRE(made.code == 0);
  const nlohmann::json one = nlohmann::json::parse(made.out).at("cells").at(0);
  double three = 0.0, five = 0.0;
  for (const nlohmann::json& choice : one.at("choices")) {
    three = choice.at("draft") == "d3k1n4" ? choice.at("tokens").get<double>() : three;
    five = choice.at("draft") == "d5k1n6" ? choice.at("tokens").get<double>() : five;
  }
  CHECK(three == Approx(2.5).epsilon(0.02));
  CHECK(five == Approx(3.5).epsilon(0.02));
}

TEST_CASE("a measured pair's schedule is of its greedy texts, and of steps that ran alike") {
  const Folder folder;
  const std::string database = VERSIEVE_SOURCE_DIR "/db/measured/h100.db";
  const CommandResult diagnosed = folder.run("versieve diagnose --db " + database);
  INFO(diagnosed.out << diagnosed.err);
  REQUIRE(diagnosed.code == 0);
  // The pair's points at temperatures 0.6 and 1 are none of the 234.
  CHECK(contains(diagnosed.out, "smollm2-nsa (measured, 234 points"));
  CHECK(contains(diagnosed.out, "of 234 points are of classes that may change the text"));
  const CommandResult made =
      folder.run("versieve schedule --db " + database + " --out s.json --json");
  REQUIRE(made.code == 0);
  const nlohmann::json schedule = nlohmann::json::parse(made.out);
  bool is_there = false;
  for (const nlohmann::json& cell : schedule.at("cells")) {
    for (const nlohmann::json& choice : cell.at("choices")) {
      if (choice.at("draft") == "d5k4n16" && choice.at("times") == "timed") {
        is_there = true;
        // 1,108 and 1,169 us beside plain steps of 700 and 686, all recorded.
        CHECK(choice.at("break_even").get<double>() > 1.55);
        CHECK(choice.at("break_even").get<double>() < 1.75);
        CHECK(choice.at("tokens").get<double>() > 4.4);
      }
    }
  }
  CHECK(is_there);
}
