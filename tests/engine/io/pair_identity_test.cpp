// Which pair a folder holds: every file that decides what it writes counts, its name does not.
#include "engine/io/pair_identity.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "engine/io/sha256.h"
#include "model/words/error.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

using namespace versieve;
using namespace versieve::engine;
namespace fs = std::filesystem;

namespace {

// Another byte in the middle of the file.
void change(const fs::path& path) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  const std::streamoff middle = static_cast<std::streamoff>(fs::file_size(path) / 2);
  file.seekg(middle);
  const int before = file.get();
  file.seekp(middle);
  file.put(static_cast<char>(before ^ 1));
}

}  // namespace

TEST_CASE("the byte pair that ships is the one that older measurements name") {
  CHECK(pair_identity(fs::path(VERSIEVE_SOURCE_DIR) / "engine/demo/nsa") == byte_pair());
}

TEST_CASE("a pair's hash is that of its files' digests, as sha256sum prints them") {
  const test::TempFolder folder;
  test::write_tiny_pair(folder / "p", {.shards = 2});
  std::string lines;
  for (const char* name : {"config.json", "model-1.safetensors", "model-2.safetensors",
                           "tokenizer.json", "draft/config.json", "draft/model.safetensors"}) {
    lines += sha256_of_file(folder / "p" / name) + "  " + name + "\n";
  }
  CHECK(pair_identity(folder / "p").sha256 == sha256_hex(lines));
}

TEST_CASE("every file of a pair counts, its folder's name does not") {
  const test::TempFolder folder;
  test::write_tiny_pair(folder / "p", {});
  const PairId own = pair_identity(folder / "p");
  CHECK(own.name == "p");
  CHECK(own.sha256.size() == 64);
  fs::copy(folder / "p", folder / "q", fs::copy_options::recursive);
  CHECK(pair_identity(folder / "q").sha256 == own.sha256);
  CHECK(pair_identity(folder / "q").name == "q");
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.json",
                           "draft/config.json", "draft/model.safetensors"}) {
    fs::remove_all(folder / "r");
    fs::copy(folder / "p", folder / "r", fs::copy_options::recursive);
    if (fs::path(name).extension() == ".json") {
      std::ofstream(folder / "r" / name, std::ios::app) << "\n";
    } else {
      change(folder / "r" / name);
    }
    CAPTURE(name);
    CHECK(pair_identity(folder / "r").sha256 != own.sha256);
  }
  std::ofstream(folder / "q" / "README.md") << "words";
  CHECK(pair_identity(folder / "q").sha256 == own.sha256);
  fs::remove_all(folder / "q" / "draft");
  CHECK(pair_identity(folder / "q").sha256 != own.sha256);
}

TEST_CASE("a pair is called by its config, or by its folder and what that stands in") {
  const test::TempFolder folder;
  for (const auto& [place, config, name] :
       {std::array{"smollm2/nsa", "{}", "smollm2-nsa"}, std::array{"my pair", "{}", "my-pair"},
        std::array{"x/dense", R"({"_name_or_path": "org/Some-1B/"})", "Some-1B"},
        std::array{"y", R"({"_name_or_path": ""})", "y"},
        std::array{"z", R"({"_name_or_path": 3})", "z"}}) {
    fs::create_directories(folder / place);
    std::ofstream(folder / place / "config.json") << config;
    CHECK(pair_name(folder / place) == name);
  }
  CHECK(pair_name(fs::path(VERSIEVE_SOURCE_DIR) / "engine/demo/nsa/") == "demo-nsa");
}

TEST_CASE("a folder that is no model's has no identity") {
  const test::TempFolder folder;
  fs::create_directories(folder / "empty");
  CHECK_THROWS_WITH(pair_identity(folder / "none"), Catch::Contains("is not a model directory"));
  CHECK_THROWS_WITH(pair_identity(folder / "empty"), Catch::Contains("config.json"));
  std::ofstream(folder / "empty/config.json") << "{}";
  CHECK_THROWS_WITH(pair_identity(folder / "empty"), Catch::Contains("holds neither"));
}
