// JSON as programs write it: lines, arrays, documents, and numbers that JSON does not know.
#include "engine/analyse/import/json_rows.h"

#include <catch2/catch.hpp>

#include "tests/support/errors.h"

using namespace versieve;
using namespace versieve::engine;

TEST_CASE("lines, an array and a document over lines are rows") {
  CHECK(json_rows("{\"a\": 1}\r\n\n{\"a\": 2}", "f").size() == 2);
  CHECK(json_rows("{\"a\": 1}\r\n\n{\"a\": 2}", "f")[1].place.text() == "f, line 3");
  CHECK(json_rows("[{\"a\": 1},\n {\"a\": 2}]", "f")[1].place.text() == "f, entry 2");
  CHECK(json_rows("{\n \"a\": 1\n}\n", "f").at(0).object["a"] == 1);
  CHECK(json_rows("\xEF\xBB\xBF{}", "f").size() == 1);
}

TEST_CASE("numbers that are not finite are null, within texts they stay") {
  const nlohmann::json row =
      json_rows(R"({"a": Infinity, "b": -Infinity, "c": NaN, "d": "NaN \" Infinity"})", "f")
          .at(0)
          .object;
  CHECK(row["a"].is_null());
  CHECK(row["b"].is_null());
  CHECK(row["c"].is_null());
  CHECK(row["d"] == "NaN \" Infinity");
  const Error error = test::error_of([&] { number_field({{"f", 1}, row}, "a", "row", 0.0, 1.0); });
  CHECK(std::string(error.what()) == "f, line 1: a is not a number");
}

TEST_CASE("what is no JSON is refused where it stops being it") {
  const auto refused = [](const std::string& text, const std::string& part) {
    const Error error = test::error_of([&] { json_rows(text, "f"); });
    CHECK(error.code() == ExitCode::kBadInput);
    CAPTURE(error.what());
    CHECK(test::contains(error.what(), part));
  };
  refused("{\"a\": 1}\nplainly not\n", "f, line 2: is not valid JSON at column 1");
  refused("{\"a\": 1}\n{\"a\": 1",
          "f, line 2: is not valid JSON at column 8, at or after the key 'a': the text ends there");
  refused("{\"a\": 1}\n{\"a\": 1, \"a\": 2}", "f, line 2: the key 'a' stands twice");
  refused("[1]", "f, entry 1: is not a JSON object");
  refused("{\"a\": 1}\n3\n", "f, line 2: is not a JSON object");
  refused("{\n\"a\": oops\n}", "f: is not valid JSON at line 2, column 6, at or after the key 'a'");
}
