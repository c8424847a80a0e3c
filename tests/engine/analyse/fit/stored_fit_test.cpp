// Fits that are kept: found again as they were, by all that they depend on; made anew where the
// file is of something else, broken or not there; kept elsewhere where the folder takes no file.
#include "engine/analyse/fit/stored_fit.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>

#include "engine/analyse/fit/fit_file.h"
#include "engine/analyse/fit/fit_report.h"
#include "model/words/error.h"
#include "tests/support/synthetic_points.h"
#include "tests/support/system_points.h"
#include "tests/support/temp_folder.h"

using namespace versieve;
using namespace versieve::engine;
using synthetic::h200;
using synthetic::joined;

namespace {

constexpr FitOptions kQuick = {.leave_out_regimes = false};

// The user's cache directory is the test's own while this lives.
class CacheFolder {
 public:
  explicit CacheFolder(const std::filesystem::path& folder)
      : before_(::getenv("XDG_CACHE_HOME")) {  // which every test program has
    ::setenv("XDG_CACHE_HOME", folder.c_str(), 1);
  }
  ~CacheFolder() { ::setenv("XDG_CACHE_HOME", before_.c_str(), 1); }

 private:
  std::string before_;
};

const std::vector<PointMeasurement>& points() {
  static const std::vector<PointMeasurement> instance = joined(
      joined(synthetic::attention_points({}, h200()), synthetic::step_points({}, h200())),
      joined(synthetic::system_points({}, h200()), synthetic::acceptance_points(0.8, 0.9, 0.95)));
  return instance;
}

FitInputs inputs_of(const std::vector<PointMeasurement>& measured) {
  return {measured, "NVIDIA H200", h200(), {"run"}};
}

const FitReport& report() {
  static const FitReport instance =
      fit_cost_model(points(), "NVIDIA H200", h200(), {"run"}, kQuick);
  return instance;
}

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// A report that differs from others by one figure.
FitReport marked(double holdout) {
  FitReport other = report();
  other.holdout = holdout;
  return other;
}

}  // namespace

TEST_CASE("a kept fit is found again as it was, in text, page and JSON") {
  const test::TempFolder folder;
  const CacheFolder cache(folder / "cache");
  const std::filesystem::path database = folder / "mine.db";
  CHECK(!find_fit(database, 7));
  keep_fit(database, 7, report());
  CHECK(std::filesystem::exists(folder / "mine.db.fit"));
  const std::optional<FitReport> found = find_fit(database, 7);
  REQUIRE(found);
  CHECK(fit_json(*found) == fit_json(report()));
  CHECK(fit_text(*found) == fit_text(report()));
  CHECK(fit_html(*found) == fit_html(report()));
  CHECK(!find_fit(database, 8));
}

TEST_CASE("a fit's key changes with each thing that it depends on, and with nothing else") {
  const std::uint64_t key = fit_key(inputs_of(points()), kQuick);
  CHECK(fit_key(inputs_of(std::vector<PointMeasurement>(points())), kQuick) == key);
  FitOptions other_threads = kQuick;
  other_threads.threads = 5;
  CHECK(fit_key(inputs_of(points()), other_threads) == key);

  std::vector<PointMeasurement> moved = points();
  moved.back().acceptance->accepted_per_step += 1e-12;
  CHECK(fit_key(inputs_of(moved), kQuick) != key);
  moved = points();
  moved.pop_back();
  CHECK(fit_key(inputs_of(moved), kQuick) != key);
  CHECK(fit_key({points(), "NVIDIA H200 NVL", h200(), {"run"}}, kQuick) != key);
  CHECK(fit_key({points(), "NVIDIA H200", h200(), {"run", "another"}}, kQuick) != key);
  HardwareSpec faster = h200();
  faster.fields[0].value += 1.0;
  CHECK(fit_key({points(), "NVIDIA H200", faster, {"run"}}, kQuick) != key);
  CHECK(fit_key(inputs_of(points()), {.holdout = 0.0, .leave_out_regimes = false}) != key);
  CHECK(fit_key(inputs_of(points()), {}) != key);
  FittedModel known = report().model;
  const std::uint64_t on_top =
      fit_key(inputs_of(points()), {.leave_out_regimes = false, .prior = &known});
  CHECK(on_top != key);
  const std::map<std::string, std::int64_t> left_out = {{"throttled", 2}};
  CHECK(fit_key(inputs_of(points()), {.leave_out_regimes = false, .left_out = &left_out}) != key);
  known.estimates[0].value *= 1.0 + 1e-12;
  CHECK(fit_key(inputs_of(points()), {.leave_out_regimes = false, .prior = &known}) != on_top);
}

TEST_CASE("the newest fits of a database are kept, each by its key") {
  const test::TempFolder folder;
  const CacheFolder cache(folder / "cache");
  const std::filesystem::path database = folder / "mine.db";
  for (std::uint64_t key = 1; key <= kFitsKept + 1; ++key) {
    keep_fit(database, key, marked(0.01 * static_cast<double>(key)));
  }
  CHECK(!find_fit(database, 1));
  for (std::uint64_t key = 2; key <= kFitsKept + 1; ++key) {
    REQUIRE(find_fit(database, key));
    CHECK(find_fit(database, key)->holdout == 0.01 * static_cast<double>(key));
  }
  keep_fit(database, 3, marked(0.5));
  CHECK(find_fit(database, 3)->holdout == 0.5);
  CHECK(find_fit(database, kFitsKept + 1));
}

TEST_CASE("a broken file of kept fits is no error: what is whole is found, all else made anew") {
  const test::TempFolder folder;
  const CacheFolder cache(folder / "cache");
  const std::filesystem::path database = folder / "mine.db";
  const std::filesystem::path file = folder / "mine.db.fit";
  keep_fit(database, 1, marked(0.1));
  keep_fit(database, 2, marked(0.2));  // comes first
  const std::string whole = content_of(file);
  for (std::size_t at = 0; at < whole.size() / 3; at += 97) {
    std::string broken = whole;
    broken[at] = static_cast<char>(broken[at] ^ 0x5a);
    write(file, broken);
    const std::optional<FitReport> found = find_fit(database, 2);
    CHECK((!found || found->holdout == 0.2));
  }
  for (std::size_t size = 0; size < whole.size(); size += 4999) {
    write(file, whole.substr(0, size));
    CHECK(!find_fit(database, 1));
  }
  write(file, whole.substr(0, whole.size() - 1));
  CHECK(find_fit(database, 2));
  write(file, "not a fit at all");
  CHECK(!find_fit(database, 2));
  keep_fit(database, 2, marked(0.3));
  CHECK(find_fit(database, 2)->holdout == 0.3);
}

TEST_CASE("where the database's folder takes no file a fit is kept in the user's cache") {
  const test::TempFolder folder;
  const CacheFolder cache(folder / "cache");
  const std::filesystem::path database = folder / "absent" / "mine.db";  // nothing can be written
  keep_fit(database, 1, marked(0.1));
  REQUIRE(find_fit(database, 1));
  CHECK(find_fit(database, 1)->holdout == 0.1);
  CHECK(!std::filesystem::exists(folder / "absent"));
  CHECK(!find_fit(folder / "absent" / "other.db", 1));
  {
    const CacheFolder none("/proc/versieve");
    CHECK_NOTHROW(keep_fit(database, 2, marked(0.2)));
    CHECK(!find_fit(database, 2));
  }
}

TEST_CASE("a fit of a packaged database is kept for the user, not among the package's files") {
  const test::TempFolder folder;
  const CacheFolder cache(folder / "cache");
  const std::filesystem::path database = "/usr/share/versieve-stored-fit-test.db";
  keep_fit(database, 1, marked(0.1));
  const std::filesystem::path beside = fit_files(database).front();
  CHECK(!std::filesystem::exists(beside));  // which root could write
  std::error_code ignored;
  std::filesystem::remove(beside, ignored);
  REQUIRE(find_fit(database, 1));
  CHECK(find_fit(database, 1)->holdout == 0.1);
}

TEST_CASE("the same question is answered by the kept fit, unless a fresh one is wanted") {
  const test::TempFolder folder;
  const CacheFolder cache(folder / "cache");
  const std::filesystem::path database = folder / "mine.db";
  const std::vector<PointMeasurement> few = synthetic::attention_points({}, h200());
  int parts = 0;
  const GoesOn goes_on = [&](double) {
    parts += 1;
    return true;
  };
  FitOptions options = kQuick;
  options.goes_on = &goes_on;
  const FitReport first = stored_or_new_fit(database, inputs_of(few), options);
  const int of_a_fit = std::exchange(parts, 0);
  CHECK(of_a_fit > 0);
  CHECK(fit_json(stored_or_new_fit(database, inputs_of(few), options)) == fit_json(first));
  CHECK(parts == 0);
  CHECK(fit_json(stored_or_new_fit(database, inputs_of(few), options, true)) == fit_json(first));
  CHECK(parts == of_a_fit);
}

TEST_CASE("a fit that was ended is not kept") {
  const test::TempFolder folder;
  const CacheFolder cache(folder / "cache");
  const GoesOn ends = [](double) { return false; };
  FitOptions options = kQuick;
  options.goes_on = &ends;
  CHECK_THROWS_AS(stored_or_new_fit(folder / "mine.db", inputs_of(points()), options), Error);
  CHECK(!find_fit(folder / "mine.db", fit_key(inputs_of(points()), kQuick)));
}
