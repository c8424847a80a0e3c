// What a refused command owes its user: the exit code, one sentence on standard error that names
// what was wrong, and the same as JSON when asked for.
#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "tests/end_to_end/command.h"

namespace versieve::test {

inline void check_refused(const std::string& arguments, int code, const std::string& part) {
  const CommandResult result = run_versieve(arguments);
  CAPTURE(arguments, result.out, result.err);
  CHECK(result.code == code);
  CHECK(result.out.empty());
  CHECK(is_one_sentence(result.err));
  CHECK(result.err.find(part) != std::string::npos);
  const CommandResult as_json = run_versieve(arguments + " --json");
  const nlohmann::json object = nlohmann::json::parse(as_json.out);
  CHECK(as_json.code == code);
  CHECK(object.at("code") == code);
  CHECK(object.at("error").get<std::string>().find(part) != std::string::npos);
}

}  // namespace versieve::test
