// The script tests/gpu/run.sh with stand-ins for the programs: its order and table, and a run in
// pieces: chosen parts, what had passed left out, an end after so many seconds, a kill.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <vector>

#include "tests/end_to_end/command.h"

using namespace versieve::test;
namespace fs = std::filesystem;

namespace {

// Notes each call with the part's variables. A file NAME.fails, NAME.waits, NAME.matches-none or
// NAME.kills beside it makes the program of that name do so, the last to the script.
constexpr const char* kProgram = R"(#!/bin/bash
name=${0##*/}
[ "$1" != --version ] || exit 0
[ "$*" != 'bench --help' ] || exit 0
echo "$name $* ${VERSIEVE_LOSSLESS_PAIRS:-}${VERSIEVE_TEST_REDUCED:-}" >>"${0%/*}/calls"
[ "$1" != doctor ] || echo "versieve  $(cat "${0%/*}/revision"), a compiler"
[ ! -e "$0.waits" ] || sleep 60
[ ! -e "$0.kills" ] || { read -r _ _ _ script _ <"/proc/$PPID/stat"; kill -KILL "$script"; }
[ ! -e "$0.matches-none" ] || echo 'No tests ran'
[ ! -e "$0.fails" ] || { echo "it is broken"; exit 1; }
)";

class Machine {
 public:
  Machine() {
    fs::create_directories(bin());
    put("revision", "0123456789ab");
    for (const char* name :
         {"versieve", "test_gpu_ptx", "test_gpu_ops", "test_gpu_batch", "test_gpu_door_fuzz",
          "test_gpu_unheard_of", "test_lossless", "checker"}) {
      put(name, kProgram);
      fs::permissions(bin() / name, fs::perms::owner_all);
    }
  }
  fs::path bin() const { return folder_ / "build" / "bin"; }
  fs::path table() const { return folder_ / "out" / "summary.txt"; }
  void put(const std::string& name, const std::string& text) const {
    std::ofstream(bin() / name) << text;
  }
  // From a folder of no git, so that the programs are of no other revision than the tree.
  CommandResult run(const std::string& options = "",
                    const std::string& folders = "build out") const {
    return run_line("cd " + folder_.path().string() +
                    " && COMPUTE_SANITIZER=" + (bin() / "checker").string() +
                    " " VERSIEVE_SOURCE_DIR "/tests/gpu/run.sh " + options + " " + folders);
  }
  // Since the last time: the programs that ran, the checker's by its tool and program.
  std::vector<std::string> calls() const {
    std::vector<std::string> out;
    std::ifstream file(bin() / "calls");
    for (std::string call; std::getline(file, call);) {
      out.push_back(call);
    }
    fs::remove(bin() / "calls");
    return out;
  }
  // Part: what became of it.
  std::map<std::string, std::string> verdicts() const {
    std::map<std::string, std::string> out;
    std::ifstream file(table());
    for (std::string row; std::getline(file, row);) {
      const std::string name = row.substr(0, row.find(' '));
      const std::size_t verdict = row.find_first_not_of(' ', name.size());
      REQUIRE(verdict != std::string::npos);
      out[name] = row.substr(verdict, row.find("  ", verdict) - verdict);
    }
    return out;
  }

 private:
  TempFolder folder_;
};

std::ptrdiff_t place_of(const std::string& part, const std::vector<std::string>& calls) {
  return std::find_if(calls.begin(), calls.end(),
                      [&](const std::string& call) { return call.find(part) == 0; }) -
         calls.begin();
}

std::size_t count_of(const std::map<std::string, std::string>& verdicts,
                     const std::string& verdict) {
  return static_cast<std::size_t>(std::count_if(
      verdicts.begin(), verdicts.end(), [&](const auto& row) { return row.second == verdict; }));
}

}  // namespace

TEST_CASE("every part is run, what is cheap and tells most first, and listed with its verdict") {
  const Machine machine;
  const CommandResult result = machine.run();
  CAPTURE(result.out, result.err);
  CHECK(result.code == 0);
  const std::vector<std::string> calls = machine.calls();
  std::ptrdiff_t before = -1;
  for (const char* part :
       {"versieve doctor", "test_gpu_ptx", "test_gpu_ops", "test_gpu_batch", "test_gpu_unheard_of",
        "versieve profile", "test_lossless", "checker --tool memcheck", "versieve bench all",
        "checker --tool racecheck", "checker --tool synccheck",
        "test_gpu_batch *alone \\[long\\] - Bf16 -c NSA", "test_gpu_door_fuzz"}) {
    CAPTURE(part);
    CHECK(place_of(part, calls) > before);
    CHECK(place_of(part, calls) < std::ssize(calls));
    before = place_of(part, calls);
  }
  CHECK(place_of("test_lossless [sample] 2000", calls) < std::ssize(calls));
  const auto verdicts = machine.verdicts();
  CHECK(verdicts.at("programs") == "0123456789ab");
  CHECK(verdicts.at("memcheck_test_gpu_batch") == "passed");
  CHECK(count_of(verdicts, "passed") + 1 == verdicts.size());
  CHECK(result.out.find(text_of_file(machine.table())) != std::string::npos);
}

TEST_CASE("what failed is shown, and alone run again") {
  const Machine machine;
  machine.put("test_gpu_ops.fails", "");
  const CommandResult result = machine.run("--parts '^test_gpu'");
  CHECK(result.code == 1);
  CHECK(result.out.find("it is broken") != std::string::npos);
  CHECK(machine.verdicts().at("test_gpu_ops") == "failed");
  CHECK(count_of(machine.verdicts(), "passed") == 5);  // and the doctor
  machine.calls();
  CHECK(machine.run("--resume --parts ptx").code == 1);  // the table has it still
  CHECK(machine.calls().size() == 1);                    // the doctor
  fs::remove(machine.bin() / "test_gpu_ops.fails");
  CHECK(machine.run("--resume --parts '^test_gpu'").code == 0);
  const std::vector<std::string> calls = machine.calls();
  CHECK(calls.size() == 2);
  CHECK(place_of("test_gpu_ops", calls) == 1);
  CHECK(count_of(machine.verdicts(), "passed") == 6);
  // Of other programs nothing has passed.
  machine.put("revision", "ba9876543210");
  const CommandResult anew = machine.run("--resume --parts '^test_gpu'");
  CHECK(anew.code == 0);
  CHECK(anew.out.find("nothing of revision ba9876543210 to resume") != std::string::npos);
  CHECK(machine.calls().size() == 6);
  // Without --resume the table is of this run alone.
  CHECK(machine.run("--parts ptx$").code == 0);
  CHECK(machine.verdicts().count("test_gpu_ops") == 0);
}

TEST_CASE("a program whose filter matches no test has not passed") {
  const Machine machine;
  machine.put("test_gpu_ops.matches-none", "");
  const CommandResult result = machine.run("--parts '^test_gpu_(ops|ptx)$'");
  CAPTURE(result.out, result.err);
  CHECK(result.code == 1);
  CHECK(machine.verdicts()["test_gpu_ops"] == "failed");
  CHECK(machine.verdicts()["test_gpu_ptx"] == "passed");
}

TEST_CASE("a run that is over in time lists what was not run, and the next one goes on there") {
  const Machine machine;
  machine.put("test_gpu_batch.waits", "");
  CHECK(machine.run("--seconds 6 --parts '^test_gpu|lossless'").code == 3);
  const auto verdicts = machine.verdicts();
  CHECK(verdicts.at("test_gpu_ops") == "passed");
  for (const char* part : {"test_gpu_batch", "test_gpu_unheard_of", "lossless"}) {
    CHECK(verdicts.at(part) == "not run");
  }
  fs::remove(machine.bin() / "test_gpu_batch.waits");
  machine.calls();
  CHECK(machine.run("--seconds 300 --resume --parts '^test_gpu|lossless'").code == 0);
  const std::vector<std::string> calls = machine.calls();
  CHECK(place_of("test_gpu_ops", calls) == std::ssize(calls));
  CHECK(place_of("test_gpu_batch", calls) == 1);
  CHECK(count_of(machine.verdicts(), "not run") == 0);
}

TEST_CASE("a run that is killed has listed what passed") {
  const Machine machine;
  CHECK(machine.run("--parts ptx$").code == 0);
  machine.put("test_gpu_batch.kills", "");
  CHECK(machine.run("--resume --parts '^test_gpu'").code == 128 + 9);
  CHECK(machine.verdicts().at("test_gpu_ops") == "passed");
  CHECK(machine.verdicts().count("test_gpu_batch") == 0);
  fs::remove(machine.bin() / "test_gpu_batch.kills");
  machine.calls();
  CHECK(machine.run("--resume --parts '^test_gpu'").code == 0);
  const std::vector<std::string> calls = machine.calls();
  CHECK(place_of("test_gpu_ptx", calls) == std::ssize(calls));
  CHECK(place_of("test_gpu_ops", calls) == std::ssize(calls));
  CHECK(place_of("test_gpu_batch", calls) == 1);
}

TEST_CASE("words that the GPU tests do not know are a usage error") {
  const Machine machine;
  const std::pair<const char*, const char*> wrong[] = {
      {"--part ops", "no option --part"},
      {"--parts", "--parts needs a value"},
      {"--parts '('", "regular expression"},
      {"--seconds 1.5", "a whole number, not 1.5"},
      {"--parts nothing_like_it", "no part is named like --parts nothing_like_it"},
      {"a b", "one word too many"}};
  for (const auto& [options, part] : wrong) {
    const bool lacks_value = options == std::string("--parts");
    const CommandResult result = machine.run(options, lacks_value ? "" : "build out");
    CAPTURE(options, result.err);
    CHECK(result.code == 2);
    CHECK(is_one_sentence(result.err));
    CHECK(result.err.find(part) != std::string::npos);
  }
}
