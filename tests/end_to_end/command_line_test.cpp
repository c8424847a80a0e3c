// The frame of the command: help, version, usage, and a standard output that fails.
#include <catch2/catch.hpp>
#include <sstream>
#include <utility>

#include "tests/end_to_end/command.h"
#include "tests/support/errors.h"
#include "tests/support/paths.h"

using namespace versieve::test;

TEST_CASE("help and version are answers, in text and in JSON") {
  CHECK(contains(run_versieve("--help").out, "kernel"));
  CHECK(contains(run_versieve("kernel --help").out, "--variant"));
  CHECK(run_versieve("--version").out == "versieve 0.1.0\n");
  CHECK(nlohmann::json::parse(run_versieve("--version --json").out)["version"] == "0.1.0");
  CHECK(nlohmann::json::parse(run_versieve("--json --help").out).contains("help"));
}

TEST_CASE("a wrong command line is one sentence and exit 2") {
  for (const char* arguments : {"", "nonsense", "--nonsense", "kernel --list extra words", "''"}) {
    CAPTURE(arguments);
    const CommandResult run = run_versieve(arguments);
    CHECK(run.code == 2);
    CHECK(is_one_sentence(run.err));
    CHECK(run.out.empty());
  }
  const CommandResult json = run_versieve("nonsense --json");
  CHECK(json.code == 2);
  CHECK(nlohmann::json::parse(json.out)["code"] == 2);
  CHECK(is_one_sentence(json.err));
  CHECK(contains(json.err, "unknown command 'nonsense'"));
}

TEST_CASE("a number is decimal, finite and fits, whatever the option") {
  const std::string simulate =
      "simulate --hardware h100-sxm --strategy 'nsa/d2k2n4/bfs/c1/F*' --context 1024 ";
  CHECK(run_versieve(simulate + "--overlap 5e-1").code == 0);
  for (const char* wrong :
       {"--overlap nan", "--overlap=-nan", "--overlap 0x1p-1", "--every 010", "--every 0x10"}) {
    CAPTURE(wrong);
    const CommandResult run = run_versieve(simulate + wrong);
    CHECK(run.code == 2);
    CHECK(is_one_sentence(run.err));
    CHECK(contains(run.err, "decimal"));
  }
  // Too large for 64 bits: refused, not taken for the largest number that fits.
  const CommandResult run = run_versieve(
      "generate --model x --prompt-file x --strategy nsa/ar --max-new-tokens 9223372036854775808");
  CHECK(run.code == 2);
  CHECK(contains(run.err, "decimal integer that fits"));
}

TEST_CASE("a kernel of more rows than a simulation ends with is refused with the bound") {
  const std::string topk = "simulate --workload topk --strategy topk:gvr/k64/hint0 --context ";
  for (const char* wrong : {"8192 --rows 4097", "8192 --rows 1048576", "1048576 --rows 513"}) {
    CAPTURE(wrong);
    const CommandResult run = run_versieve(topk + wrong);
    CHECK(run.code == 2);
    CHECK(is_one_sentence(run.err));
    CHECK(contains(run.err, "at most 4096 --rows"));
  }
  const CommandResult taken = run_versieve(topk + "8192 --rows 4096");
  CHECK(taken.code == 0);
  CHECK(contains(taken.out, "share of right hints moves no byte"));
}

TEST_CASE("a standard output that is full or closed is exit 4 with a sentence") {
  const TempFolder folder;
  const std::string err = (folder / "err").string();
  const std::string versieve = VERSIEVE_BINARY_DIR "/bin/versieve kernel --list --json ";
  for (const char* redirection : {">/dev/full", ">&-"}) {
    CAPTURE(redirection);
    const int status = std::system((versieve + redirection + " 2>" + err).c_str());
    CHECK(WEXITSTATUS(status) == 4);
    CHECK(is_one_sentence(text_of_file(err)));
  }
  // A reader that leaves at once: no signal kills the command.
  const int status = std::system(
      ("{ sleep 0.1; " + versieve + " 2>/dev/null; echo $? >" + err + "; } | true").c_str());
  CHECK(WIFEXITED(status));
  CHECK(text_of_file(err) == "4\n");
}

// Every option that names a file to write says so, which is what the next test rests on.
TEST_CASE("an option that names an output has a file in its help") {
  for (const auto& [command, options] : {std::pair{"plan", "--out"},
                                         {"schedule", "--out"},
                                         {"fit", "--out --report"},
                                         {"quality", "--out"},
                                         {"figures", "--csv"},
                                         {"export", "--out"},
                                         {"bench", "--out --list-steps"},
                                         {"profile", "--hardware-out"},
                                         {"replay", "--record"},
                                         {"generate", "--out"},
                                         {"kernel", "--out"},
                                         {"calibrate", "--out"},
                                         {"align", "--out"}}) {
    const std::string help = run_versieve(std::string(command) + " --help").out;
    std::istringstream words(options);
    for (std::string option; words >> option;) {
      CAPTURE(command, option);
      CHECK(contains(help, option + " FILE"));
    }
  }
}

TEST_CASE("a file that goes to standard output has it alone, the report goes to standard error") {
  const TempFolder folder;
  const std::string plan = (folder / "t.json").string(), kept = (folder / "kept").string();
  REQUIRE(run_versieve("plan --db " VERSIEVE_SOURCE_DIR
                       "/db/measured/h100-survey.db --model nsa-1b --buckets 0-4096 --class Strict "
                       "--assume-acceptance 0.6 --out " +
                       plan)
              .code == 0);
  const std::string csv = "export --format csv --table " + plan + " --out ";
  REQUIRE(run_versieve(csv + kept).code == 0);
  const std::string whole = text_of_file(kept);
  for (const char* name : {"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"}) {
    CAPTURE(name);
    const CommandResult run = run_versieve(csv + name);
    CHECK(run.code == 0);
    CHECK(run.out == whole);
    CHECK(contains(run.err, "entries written to"));
    CHECK(run_line(VERSIEVE_BINARY_DIR "/bin/versieve " + csv + name + " | cat").out == whole);
  }
  // What others write there stays, and a file's own name is as good as the stream's.
  CHECK(run_line("echo before; " VERSIEVE_BINARY_DIR "/bin/versieve " + csv +
                 "/dev/stdout; echo after")
            .out == "before\n" + whole + "after\n");
  REQUIRE(run_line(VERSIEVE_BINARY_DIR "/bin/versieve " + csv + kept + " >" + kept).code == 0);
  CHECK(text_of_file(kept) == whole);
  // Its table is the same, with the command's screen beside it.
  const CommandResult planned =
      run_versieve("plan --db " VERSIEVE_SOURCE_DIR
                   "/db/measured/h100-survey.db --model nsa-1b --buckets "
                   "0-4096 --class Strict --assume-acceptance 0.6 --out /dev/stdout");
  CHECK(planned.out == text_of_file(plan));
  CHECK(contains(planned.err, "0-4096 tokens, Strict"));

  const CommandResult json = run_versieve(csv + "/dev/stdout --json");
  CHECK(json.code == 2);
  CHECK(nlohmann::json::parse(json.out).at("code") == 2);
  CHECK(contains(json.err, "where --json prints its object"));
  const CommandResult full =
      run_line(VERSIEVE_BINARY_DIR "/bin/versieve " + csv + "/dev/stdout >/dev/full");
  CHECK(full.code == 4);
  CHECK(is_one_sentence(full.err));
  CHECK(contains(full.err, "cannot be written: No space left on device"));
  const CommandResult left = run_line("{ sleep 0.1; " VERSIEVE_BINARY_DIR "/bin/versieve " + csv +
                                      "/dev/stdout; echo $? >&2; } "
                                      "| true");
  CHECK(contains(left.err, "/dev/stdout: cannot be written: Broken pipe\n4\n"));
}

TEST_CASE("a file name that is no text is printed, not crashed on") {
  const CommandResult run = run_versieve("kernel topk --json --in $(printf '\\377x') --out y");
  CHECK(run.code == 3);
  CHECK(nlohmann::json::parse(run.out)["code"] == 3);
}

TEST_CASE("a bench of prompts times each way to read them, and refuses none and too many tokens") {
  const CommandResult run = run_versieve(
      "bench prefill --backend cpu --geometry demo --context 300 --rows 0,300 --samples 6 --json");
  REQUIRE(run.code == 0);
  const nlohmann::json rows = nlohmann::json::parse(run.out).at("rows");
  REQUIRE(rows.size() == 2);
  for (const nlohmann::json& row : rows) {
    CHECK(row.at("prompt") == 300);
    CHECK(row.at("time_ms").at("median") > 0.0);
    CHECK(row.at("tokens_per_second").get<double>() ==
          Approx(3e5 / row.at("time_ms").at("median").get<double>()));
  }
  for (const char* wrong : {"--context 0", "--rows -1", "--samples 5", "--context 100000000"}) {
    CAPTURE(wrong);
    CHECK(run_versieve(std::string("bench prefill --backend cpu --geometry demo ") + wrong).code ==
          2);
  }
}

TEST_CASE("a bench refuses options that would change nothing") {
  for (const auto& [wrong, sentence] :
       {std::pair{"prefill --requests 3", "bench prefill takes no --requests"},
        {"prefill --energy", "which is of batch"},
        {"plan --samples 8", "bench plan takes no --samples"},
        {"step --dense", "bench step takes no --dense"},
        {"verify --seed 3", "which is of planner"},
        {"batch --class Strict", "which is of batch --table"},
        {"batch --table t --strategy nsa/ar", "bench batch --table takes no --strategy"},
        {"batch --table t --yield 2", "takes no --yield"},
        {"batch --cache warm", "which is of verify, all"},
        {"planner --list-steps s --table t --rounds 3", "planner --list-steps takes no --rounds"},
        {"batch --backend cpu --energy", "by the GPU's own count"},
        {"verify --peer-script s", "--peer-path names"},
        {"batch --geometry demo --strategy nsa/d2k2n4/bfs/c1/F* --yield 4", "yields at most 3"}}) {
    CAPTURE(wrong);
    const CommandResult run = run_versieve(std::string("bench ") + wrong);
    CHECK(run.code == 2);
    CHECK(is_one_sentence(run.err));
    CHECK(contains(run.err, sentence));
  }
}

TEST_CASE("a bench needs a GPU or says that it was asked for the CPU") {
  const CommandResult run = run_versieve(
      "bench verify --backend cpu --geometry demo --n 4 --context 600 --overlap 0.5 --group c1 "
      "--samples 6 --json");
  REQUIRE(run.code == 0);
  const nlohmann::json json = nlohmann::json::parse(run.out);
  CHECK(json["backend"] == "cpu");
  CHECK(json["cells"][0]["variants"].size() == 3);
  CHECK(run_versieve("bench verify --backend cpu --geometry demo --peer-path /x").code == 2);
  // An absent peer is a sentence of the answer.
  const CommandResult alone = run_versieve(
      "bench verify --backend cpu --geometry demo --n 4 --context 600 --overlap 0.5 --group c1 "
      "--samples 6 --heads 32/2 --compression 64/64 --fla-path /no/such/folder --json");
  REQUIRE(alone.code == 0);
  const nlohmann::json absent_peer = nlohmann::json::parse(alone.out)["fla_same_run"];
  CHECK(is_one_sentence(absent_peer["missing_because"].get<std::string>() + "\n"));
  for (const char* heads : {"64", "64/", "/4", "64/0", "64/4/2", "6x/4", "64/5"}) {
    CAPTURE(heads);
    const CommandResult wrong =
        run_versieve(std::string("bench verify --backend cpu --geometry demo --heads ") + heads);
    CHECK(wrong.code == 2);
    CHECK(is_one_sentence(wrong.err));
  }
  for (const char* what : {"verify", "step"}) {  // before a GPU is looked for
    const CommandResult unknown = run_versieve(std::string("bench ") + what + " --geometry nope");
    CHECK(unknown.code == 2);
    CHECK(unknown.err.find("unknown geometry 'nope'") != std::string::npos);
  }
  CHECK(run_versieve("bench everything").code == 2);
  if (nlohmann::json::parse(run_versieve("doctor --json").out)["gpu"].is_null()) {
    const CommandResult absent = run_versieve("bench step");
    CHECK(absent.code == 4);
    CHECK(is_one_sentence(absent.err));
    CHECK(absent.out.empty());
  }
}
