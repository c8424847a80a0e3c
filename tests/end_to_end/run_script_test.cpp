// The script ./run with a stand-in for the programs: its screen, what the second run leaves out,
// and that changed inputs bring it back. The build itself is not tried here.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>

#include "tests/end_to_end/command.h"

using namespace versieve::test;
namespace fs = std::filesystem;

namespace {

// Prints what the reports' lines look like, and notes each call.
constexpr const char* kProgram = R"(#!/bin/bash
echo "$1" >>calls
while [ $# -gt 0 ]; do
  case "$1" in
    doctor) echo 'GPU       none here'; echo 'CPU       two cores' ;;
    generate) echo 'def f(x)'; echo; echo 'nsa/d7k4n32/dfs/c1/F* (Strict): 96 tokens in 17 steps' ;;
    fit) echo '  latency      median 2.2 %, 90th 7.8 %, signed median 0.4 % (338 points)'
      echo '  90 % intervals hold 93.8 %; ranking: Kendall tau 0.970' ;;
    plan) echo 'nsa-1b (bf16) on h100-sxm: step times come from a fit'
      echo; echo '0-4096 tokens, Strict'; echo '   1  nsa/best'; echo
      for row in 'Reuse-only 3104.2 KL 0.053 nats, 94 % same' 'Approx+Reuse 3300.0 not measured' \
        'Approx-only 2900.0 KL 0.017 nats, 97 % same (of other-pair, at nsa/x)'; do
        read -r class rate price <<<"$row"
        echo "0-4096 tokens, $class"
        echo "   1  nsa/a/(FR)* $rate tok/s [2900.1, 3300.9]   6.02 tokens in   1900.1 us" \
          "latency-bound  2.44x ar, 1.61x fixed (p 1.00)  predicted  $price"
        echo
      done ;;
    --concurrency)
      echo; echo '0-4096 tokens, Strict, by requests at a time'
      echo '     1 at a time  nsa/d7k8n48/bfs/c8e/F*  10.0 tok/s [9.0, 11.0]  5.00x ar  even at 1.2'
      echo '    64 at a time  nsa/ar  20.0 tok/s [9.0, 31.0]  1.00x ar' ;;
    replay) echo 'mean gain over base: static +35.5 %, best+R +33.7 %'
      echo 'played 4 of 14 cells, 1 by their first tuple' ;;
    csv) rows='context_low,context_high,class,rank,strategy,a,us,tokens,low,high,gain
0,4096,Strict,1,nsa/d7k8n48/bfs/c8e/F*,6.59,2480,2657.4,2441,2892,2.09
0,4096,Strict,2,nsa/other,6.5,2480,2600,2441,2892,2.0' ;;
    --out) printf '%s\n' "$rows" >"$2" ;;
  esac
  shift
done
)";

// A Python that has every module, whose make.py makes the draft that no folder has yet.
constexpr const char* kPython = R"(#!/bin/bash
[ "$1" != -c ] || exit 0
echo make.py >>calls
[ ! -e fails ] || exit 3
mkdir -p "$2/nsa/draft"
[ -e "$2/nsa/draft/model.safetensors" ] || touch -d "1 minute ago" "$2/nsa/draft/model.safetensors"
)";

class Checkout {
 public:
  Checkout() {
    fs::create_directories(root() / "build/release/bin");
    fs::create_directories(root() / "tools");
    fs::create_directories(root() / "db/measured");
    fs::create_directories(root() / "engine/demo/prompts/test");
    fs::create_directories(root() / "engine/demo/smollm2");
    fs::copy_file(VERSIEVE_SOURCE_DIR "/run", root() / "run");
    write("build/release/bin/versieve", kProgram);
    write("tools/cmake", "#!/bin/sh\n");
    write("tools/nvidia-smi", "#!/bin/sh\nexit 1\n");
    write("tools/python3", kPython);
    write("db/measured/h100.db", "");
    write("engine/demo/prompts/test/code-400-0.txt", "def");
    write("engine/demo/smollm2/chat.json", R"([{"role": "user", "content": "Who?"}])");
    fs::remove(root() / "calls");
  }

  fs::path root() const { return folder_.path(); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(root() / name) << text;
    fs::permissions(root() / name, fs::perms(0755));
  }
  CommandResult run(const std::string& arguments = "") const {
    fs::remove(root() / "calls");
    return run_line("cd " + root().string() + " && PATH=" + (root() / "tools").string() +
                    ":$PATH ./run " + arguments);
  }
  // Of the last run, in their order.
  std::string calls() const { return text_of_file(root() / "calls"); }

 private:
  TempFolder folder_;
};

std::size_t lines_in(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

TEST_CASE("./run ends with one screen, and the second run makes nothing again") {
  const Checkout checkout;
  const CommandResult first = checkout.run();
  CAPTURE(first.out, first.err);
  REQUIRE(first.code == 0);
  CHECK(checkout.calls() == "doctor\ngenerate\nfit\nplan\nplan\nexport\nexport\nreplay\n");
  for (const char* part :
       {"  none here\n", "  two cores\n", "  96 tokens in 17 steps\n",
        "median 2.2 %, 90th 7.8 %; 90 % intervals hold 93.8 % of them\n",
        "nsa/d7k8n48/bfs/c8e/F*       2657  [2441, 2892]", "2.09x\n",
        "played along recorded texts, 4 of 14 cells by their best recorded strategy (replay.txt):\n"
        "  +35.5 % tokens/s over one fixed tree",
        "    Reuse-only  KL 0.053 nats, 94 % same     3104  [2900, 3301]       6.02     2.44x\n",
        "  below each the fastest class that may change tokens",
        "  context       1 at a time     64 at a time\n"
        "  0-4096        d7k8n48 5.00x   no draft\n",
        "build/release/bin/versieve-gui db/measured/h100.db"}) {
    CAPTURE(part);
    CHECK(first.out.find(part) != std::string::npos);
  }
  CHECK(first.out.find("nsa/other") == std::string::npos);
  CHECK(first.out.find("Approx+Reuse") == std::string::npos);  // of unmeasured loss
  const CommandResult second = checkout.run();
  CHECK(second.code == 0);
  CHECK(checkout.calls() == "doctor\n");
  CHECK(lines_in(second.out) <= 30);
  const CommandResult longer = checkout.run("--verbose");
  CHECK(longer.out.find("== build/run/fit.txt\n") != std::string::npos);
  CHECK(longer.out.find("Kendall tau") != std::string::npos);
}

TEST_CASE("./run makes again what is older than what it is made of, and what failed") {
  const Checkout checkout;
  REQUIRE(checkout.run().code == 0);
  const auto now = fs::file_time_type::clock::now();
  fs::last_write_time(checkout.root() / "db/measured/h100.db", now + std::chrono::seconds(5));
  REQUIRE(checkout.run().code == 0);
  CHECK(checkout.calls() == "doctor\nfit\nplan\nplan\nexport\nexport\nreplay\n");
  fs::remove(checkout.root() / "build/run/planner.json");
  fs::last_write_time(checkout.root() / "db/measured/h100.db", now - std::chrono::hours(1));
  REQUIRE(checkout.run().code == 0);
  CHECK(checkout.calls() == "doctor\nplan\nexport\nexport\nreplay\n");

  checkout.write("build/release/bin/versieve",
                 "#!/bin/sh\n[ $1 = doctor ] || { echo half; exit 4; }\n");
  CHECK(checkout.run().code == 4);
  checkout.write("build/release/bin/versieve", kProgram);
  CHECK(checkout.run().out.find("  96 tokens in 17 steps\n") != std::string::npos);
}

TEST_CASE("a GPU that cannot be fitted goes by an H100's measurements, and the screen says why") {
  const Checkout checkout;
  checkout.write("tools/nvidia-smi", "#!/bin/sh\necho 9.0\n");
  checkout.write("build/release/bin/versieve",
                 std::string("#!/bin/bash\n[[ $1 != fit || $* != *this-gpu.db* ]] || { echo "
                             "'versieve: NVIDIA H100 NVL is in no catalogue' >&2; exit 1; }\n") +
                     kProgram);
  const CommandResult result = checkout.run();
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  CHECK(result.out.find("This GPU has no fit of its own, so the figures below are an H100's: "
                        "NVIDIA H100 NVL is in no catalogue\n") != std::string::npos);
  CHECK(result.out.find("Cost model of the GPU in db/measured/h100.db\n") != std::string::npos);

  // Not even measured: the reason was printed by what was refused.
  checkout.write("build/release/bin/versieve",
                 std::string("#!/bin/bash\n[ $1 != profile ] || exit 4\n") + kProgram);
  CHECK(checkout.run().out.find("the figures below are an H100's\n") != std::string::npos);

  // Fitted, it goes by its own, and nothing is said.
  checkout.write("build/release/bin/versieve", kProgram);
  const CommandResult own = checkout.run();
  CHECK(own.out.find("an H100's") == std::string::npos);
}

TEST_CASE("./run smollm2 makes the pair, has it answer, plans, and makes nothing again") {
  const Checkout checkout;
  const CommandResult first = checkout.run("smollm2");
  CAPTURE(first.out, first.err);
  REQUIRE(first.code == 0);
  CHECK(checkout.calls() == "doctor\nmake.py\ngenerate\ngenerate\nfit\nplan\n");
  for (const char* part :
       {"  none here\n", "Asked: Who?\n", "  | def f(x)\n  96 tokens in 17 steps\n",
        "0-4096 tokens, Strict\n   1  nsa/best\n"}) {
    CAPTURE(part);
    CHECK(first.out.find(part) != std::string::npos);
  }
  const CommandResult second = checkout.run("smollm2");
  CHECK(second.code == 0);
  CHECK(checkout.calls() == "doctor\nmake.py\n");
  CHECK(lines_in(second.out) <= 30);

  const auto now = fs::file_time_type::clock::now();
  fs::last_write_time(checkout.root() / "build/run/smollm2/nsa/draft/model.safetensors",
                      now + std::chrono::seconds(5));
  REQUIRE(checkout.run("smollm2").code == 0);
  CHECK(checkout.calls() == "doctor\nmake.py\ngenerate\ngenerate\nplan\n");

  checkout.write("fails", "");
  CHECK(checkout.run("smollm2").code == 3);
  CHECK(checkout.calls() == "doctor\nmake.py\n");
}

TEST_CASE("./run refuses what it does not know") {
  const Checkout checkout;
  const CommandResult result = checkout.run("everything");
  CHECK(result.code == 2);
  CHECK(result.err == "usage: ./run [--verbose|smollm2|build|package|test]\n");
}
