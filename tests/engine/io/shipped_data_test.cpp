// Shipped data is found from the executable's place, whatever the working folder.
#include "engine/io/shipped_data.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "model/words/error.h"
#include "tests/support/temp_folder.h"

using namespace versieve;
using namespace versieve::engine;
namespace fs = std::filesystem;

namespace {

void make_file(const fs::path& path) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << "x";
}

}  // namespace

TEST_CASE("a checkout above the executable, an installed prefix and the built checkout, in turn") {
  const test::TempFolder folder;
  const fs::path checkout = folder / "checkout";
  const fs::path prefix = folder / "prefix";
  const fs::path source = folder / "source";
  const auto found = [&](const fs::path& bin) { return data_beside(bin, nullptr, source, "d/x"); };
  CHECK(!found(prefix / "bin"));
  make_file(source / "d/x");
  CHECK(found(prefix / "bin") == source / "d/x");
  make_file(prefix / "share/versieve/d/x");
  CHECK(found(prefix / "bin") == prefix / "share/versieve/d/x");
  make_file(checkout / "d/x");
  CHECK(found(checkout / "build/release/bin") == source / "d/x");  // any folder may hold a d
  make_file(checkout / "CMakePresets.json");
  CHECK(found(checkout / "build/release/bin") == checkout / "d/x");
}

TEST_CASE("VERSIEVE_DATA decides alone") {
  const test::TempFolder folder;
  make_file(folder / "source/d/x");
  make_file(folder / "mine/d/x");
  const auto found = [&](const std::string& chosen) {
    return data_beside(folder / "bin", chosen.c_str(), folder / "source", "d/x");
  };
  CHECK(found((folder / "mine").string()) == folder / "mine/d/x");
  CHECK(!found((folder / "nowhere").string()));
  CHECK(found("") == folder / "source/d/x");  // as if it were not set
}

TEST_CASE("this program finds what ships with it, and names what does not") {
  CHECK(fs::exists(shipped_data("engine/demo") / "nsa/config.json"));
  CHECK(fs::exists(shipped_data("db/measured") / "h200.db"));
  CHECK(fs::exists(shipped_data("engine/measure/bench/peer_nsa_triton.py")));
  CHECK(fs::exists(shipped_data("engine/measure/bench/peer_nsa_fla.py")));
  try {
    shipped_data("no/such/thing");
    FAIL("found");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::kEnvironment);
    CHECK(std::string(error.what()).find("no/such/thing") == 0);
  }
}
