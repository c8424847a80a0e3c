// `cmake --install`, the prefix moved elsewhere, and the programs run from the root folder.
#include <catch2/catch.hpp>

#include "tests/end_to_end/command.h"

using namespace versieve::test;
namespace fs = std::filesystem;

namespace {

// Installed and moved.
fs::path installed(const TempFolder& folder) {
  const CommandResult result =
      run_line("cmake --install " VERSIEVE_BINARY_DIR " --prefix " + (folder / "first").string());
  CAPTURE(result.err);
  REQUIRE(result.code == 0);
  fs::rename(folder / "first", folder / "moved");
  return folder / "moved";
}

}  // namespace

TEST_CASE("a moved copy of what was installed finds its data from any folder") {
  const TempFolder folder;
  const fs::path prefix = installed(folder);
  const std::string versieve = "cd / && " + (prefix / "bin/versieve").string() + " ";
  CHECK(fs::exists(prefix / "share/doc/versieve/LICENSE"));
  CHECK(fs::exists(prefix / "share/versieve/engine/io/prompt/render_chat.py"));
  const fs::path data = prefix / "share/versieve";

  const CommandResult doctor = run_line(versieve + "doctor --json");
  CHECK(doctor.code == 0);
  CHECK(nlohmann::json::parse(doctor.out).at("data") == data.string());

  const std::string text = (data / "engine/demo/prompts/test/code-400-0.txt").string();
  const CommandResult text_made =
      run_line(versieve + "generate --backend cpu --max-new-tokens 4 --strategy nsa/ar --model " +
               (data / "engine/demo/nsa").string() + " --prompt-file " + text);
  CAPTURE(text_made.err);
  CHECK(text_made.code == 0);
  CHECK(run_line(versieve + "diagnose --db " + (data / "db/measured/h200.db").string()).code == 0);
  // A plan without measurements says which there are.
  const CommandResult plan = run_line(versieve + "plan");
  CHECK(plan.code == 2);
  CHECK(is_one_sentence(plan.err));
  CHECK(plan.err.find("--db " + (data / "db/measured/h100.db").string()) != std::string::npos);
}

TEST_CASE("a sweep of the shipped pair starts from any folder, and says where it looked") {
  const TempFolder folder;
  const fs::path prefix = installed(folder);
  const std::string database = (folder / "points.db").string();
  // Its points take minutes each here: stopped once it has begun.
  const CommandResult begun =
      run_line("cd / && timeout --signal KILL 5 " + (prefix / "bin/versieve").string() +
               " profile --backend cpu --threads 1 --sweep demo-acceptance --db " + database);
  CAPTURE(begun.err);
  CHECK(begun.err.find("engine/demo") == std::string::npos);
  CHECK(fs::exists(database));

  fs::remove_all(prefix / "share");
  const CommandResult nowhere = run_line(
      "VERSIEVE_DATA=" + folder.path().string() + " " + (prefix / "bin/versieve").string() +
      " profile --backend cpu --sweep demo-acceptance --db " + database + ".2");
  CHECK(nowhere.code == 4);
  CHECK(is_one_sentence(nowhere.err));
  CHECK(nowhere.err.find("engine/demo") != std::string::npos);
  CHECK(!fs::exists(database + ".2"));
}
