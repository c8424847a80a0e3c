// Every reader on what goes wrong with files: cut off anywhere, numbers that are none, negative or
// endless, two records in one, bytes that are no text. Each gives points that can be, or one
// sentence.
#include <catch2/catch.hpp>
#include <cctype>
#include <fstream>

#include "tests/engine/analyse/import/reader_samples.h"

using namespace versieve;
using namespace versieve::engine;

TEST_CASE("every sample is one that its reader takes") {
  const test::TempFolder folder;
  for (const test::ReaderSample& s : test::reader_samples()) {
    CAPTURE(s.name);
    ImportRequest request = s.request;
    request.file = folder / "its.name";
    std::ofstream(request.file, std::ios::binary) << s.text;
    CHECK(!read_import(request).points.empty());
  }
}

TEST_CASE("a record that is cut off anywhere gives points that can be, or one sentence") {
  const test::TempFolder folder;
  for (const test::ReaderSample& s : test::reader_samples()) {
    for (std::size_t part = 0; part < 41; ++part) {
      CAPTURE(s.name, part);
      test::check_survives(s, s.text.substr(0, s.text.size() * part / 41), folder);
    }
  }
}

TEST_CASE("a number that is none, negative, endless or missing is refused or does no harm") {
  const test::TempFolder folder;
  for (const test::ReaderSample& s : test::reader_samples()) {
    for (std::size_t at = 0; at < s.text.size(); ++at) {
      const bool begins =
          std::isdigit(static_cast<unsigned char>(s.text[at])) != 0 &&
          (at == 0 || std::isalnum(static_cast<unsigned char>(s.text[at - 1])) == 0);
      if (!begins) {
        continue;
      }
      const std::size_t end = s.text.find_first_not_of("0123456789.", at);
      const std::string after = end == std::string::npos ? "" : s.text.substr(end);
      for (const char* number : {"NaN", "-7", "1e999", "99999999999999999999", "", "0", "null"}) {
        CAPTURE(s.name, at, number);
        test::check_survives(s, s.text.substr(0, at) + number + after, folder);
      }
    }
  }
}

TEST_CASE("two records in one file, and bytes that are no text, are refused or do no harm") {
  const test::TempFolder folder;
  const std::vector<test::ReaderSample> all = test::reader_samples();
  for (const test::ReaderSample& s : all) {
    for (const test::ReaderSample& other : all) {
      CAPTURE(s.name, other.name);
      test::check_survives(s, s.text + other.text, folder);
      test::check_survives(s, other.text, folder);
    }
    CAPTURE(s.name);
    test::check_survives(s, s.text + std::string(1, '\0') + s.text, folder);
    test::check_survives(s, "\xFF\xFE" + s.text, folder);
    test::check_survives(s, s.text + std::string(1 << 20, '7'), folder);
    test::check_survives(s, s.text + std::string(100000, '['), folder);
    test::check_survives(s, "\xEF\xBB\xBF" + s.text, folder);
  }
}
