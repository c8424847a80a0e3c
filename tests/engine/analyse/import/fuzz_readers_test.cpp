// Records broken at random: every reader gives points that can be, or one sentence, in little time.
// A seed of one's own and more cases: VERSIEVE_SEED, VERSIEVE_FUZZ_CASES (cases a record).
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>

#include "tests/engine/analyse/import/reader_samples.h"
#include "tests/support/errors.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

std::uint64_t number_of(const char* variable, std::uint64_t usual) {
  const char* given = std::getenv(variable);
  return given == nullptr ? usual : std::strtoull(given, nullptr, 10);
}

class Breaker {
 public:
  explicit Breaker(std::uint64_t seed) : random_(seed) {}

  std::size_t below(std::size_t end) {
    return std::uniform_int_distribution<std::size_t>(0, end - 1)(random_);
  }
  std::string broken(std::string text, const std::string& other) {
    for (std::size_t times = 1 + below(3); times > 0; --times) {
      break_once(text, other);
    }
    return text;
  }

 private:
  // A number that stands somewhere, as bounds.
  std::pair<std::size_t, std::size_t> number_in(const std::string& text) {
    const std::size_t from = text.empty() ? 0 : below(text.size());
    const std::size_t begin = std::min(text.find_first_of("0123456789", from), text.size());
    return {begin, std::min(text.find_first_not_of("0123456789.eE+-", begin), text.size())};
  }
  void break_once(std::string& text, const std::string& other) {
    static const char* const kNumbers[] = {
        "NaN",  "-1",    "-0",   "1e308", "1e-308",    "Infinity", "null",
        "true", "[]",    "{}",   "\"3\"", "0",         "2.5",      "9223372036854775807",
        "",     "00012", "0x10", "1e18",  "4294967296"};
    static const char* const kPieces[] = {
        "\r\n", "\xEF\xBB\xBF", "\xC3\x28", "\x1B[31m", "\t", "{", "]", "\"", ",",
        "#",    "}}",           "\n\n",     "nan",      "-"};
    const std::size_t at = text.empty() ? 0 : below(text.size());
    const std::size_t length = text.empty() ? 0 : std::min(text.size() - at, 1 + below(40));
    switch (below(9)) {
      case 0:
        text.resize(at);
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, text.substr(at, length));  // a key or a line twice
        break;
      case 3: {
        const auto [begin, end] = number_in(text);
        text.replace(begin, end - begin, kNumbers[below(std::size(kNumbers))]);
        break;
      }
      case 4:
        text.insert(at, kPieces[below(std::size(kPieces))]);
        break;
      case 5:
        text.insert(at, other.substr(0, other.empty() ? 0 : below(other.size())));
        break;
      case 6:
        text.insert(at, std::string(1 + below(300), "[{(\"9"[below(5)]));
        break;
      case 7:
        if (!text.empty()) {
          text[at] = static_cast<char>(below(256));
        }
        break;
      default:
        text += text;
    }
  }

  std::mt19937_64 random_;
};

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::string repeated(const std::string& text, std::size_t bytes) {
  std::string out;
  out.reserve(bytes + text.size());
  while (out.size() < bytes) {
    out += text;
  }
  return out;
}

}  // namespace

TEST_CASE("records broken at random give points that can be, or one sentence") {
  const test::TempFolder folder;
  const std::uint64_t seed = number_of("VERSIEVE_SEED", 20261128);
  const std::uint64_t cases = number_of("VERSIEVE_FUZZ_CASES", 120);
  Breaker breaker(seed);
  const std::vector<test::ReaderSample> all = test::reader_samples();
  for (const test::ReaderSample& sample : all) {
    for (std::uint64_t i = 0; i < cases; ++i) {
      const std::string text = breaker.broken(sample.text, all[breaker.below(all.size())].text);
      INFO(sample.name << ", seed " << seed << ", case " << i << "\n" << text.substr(0, 2000));
      test::check_survives(sample, text, folder);
    }
  }
}

// Bytes that a folder of files may hold; a reader that looked at them again and again would take
// minutes here.
TEST_CASE("large files of one kind, and large lines, take seconds") {
  const test::TempFolder folder;
  constexpr std::size_t kBytes = 8 << 20;
  constexpr double kMostSeconds = 30.0;  // a sanitizer's build, too
  for (const test::ReaderSample& sample : test::reader_samples()) {
    std::string line = sample.text;
    std::erase(line, '\n');
    for (const std::string& text :
         {repeated(sample.text + (sample.text.ends_with('\n') ? "" : "\n"), kBytes / 8),
          repeated(line, kBytes), sample.text + std::string(kBytes, 'x'),
          std::string(kBytes, '[') + sample.text, "{\"a\": " + std::string(kBytes, '9')}) {
      CAPTURE(sample.name, text.substr(0, 60));
      CHECK(seconds_of([&] { test::check_survives(sample, text, folder); }) < kMostSeconds);
    }
  }
}
