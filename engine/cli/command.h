// What a command of `versieve` is: a name, the question it answers, and how it declares its
// options. Declaring returns what runs once the options are parsed.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "model/words/error.h"

namespace CLI {
class App;
}

namespace versieve::cli {

// What a command prints: `json` with --json, else `text` (a last line break is added if missing).
// A refusal is an Error, not an Answer.
struct Answer {
  nlohmann::json json = nlohmann::json::object();
  std::string text;
  ExitCode code = ExitCode::kDone;
  bool beside_output = false;  // standard output took a file: the text goes to standard error
};

using Run = std::function<Answer()>;

// Filled before Run is called; outlives it.
struct CommandContext {
  bool json = false;  // --json: nothing but one JSON object may reach standard output
};

struct Command {
  const char* name;
  const char* question;  // one line of --help
  Run (*declare)(CLI::App& options, const CommandContext& context);
};

}  // namespace versieve::cli
