#include "engine/cli/bench_takes.h"

#include <algorithm>
#include <sstream>

#include "model/words/error.h"

namespace versieve::cli {
namespace {

// By option: the benches that take it. "list-steps" and "table" are planner and batch with that
// option, which leave some of theirs out.
struct Taken {
  const char* option;
  const char* by;
};
constexpr const char* kTimed = "verify step all batch table prefill specattn";
constexpr const char* kPlayed = "planner";
constexpr Taken kTaken[] = {
    {"--fit", "plan"},
    {"--geometry", "verify step all batch prefill specattn"},
    {"--n", "verify all"},
    {"--context", kTimed},
    {"--overlap", "verify all"},
    {"--group", "verify all"},
    {"--strategy", "step all batch specattn"},
    {"--draft", "specattn"},
    {"--text", "specattn"},
    {"--yield", "batch specattn"},
    {"--requests", "batch table"},
    {"--rows", "prefill"},
    {"--energy", "batch table"},
    {"--dense", "prefill"},
    {"--others", "specattn"},
    {"--cache", "verify all"},
    {"--samples", kTimed},
    {"--peer-path", "verify all"},
    {"--peer-script", "verify all"},
    {"--fla-path", "verify all"},
    {"--heads", "verify all"},
    {"--compression", "verify all"},
    {"--backend", "verify step all batch table prefill specattn planner"},
    {"--threads", "verify step all batch table prefill specattn plan planner"},
    {"--out", "verify step all batch table prefill specattn plan planner"},
    {"--table", "table planner list-steps"},
    {"--model", kPlayed},
    {"--acceptance", kPlayed},
    {"--db", kPlayed},
    {"--split", kPlayed},
    {"--regime", kPlayed},
    {"--prompts", "planner list-steps"},
    {"--class", "table planner list-steps"},
    {"--buckets", kPlayed},
    {"--max-new-tokens", kPlayed},
    {"--prompts-per-cell", kPlayed},
    {"--candidates", "planner list-steps"},
    {"--rounds", kPlayed},
    {"--join", kPlayed},
    {"--sweep-guard", kPlayed},
    {"--temperature", "batch planner"},
    {"--seed", kPlayed},
    {"--dtype", kPlayed},
    {"--list-steps", "list-steps"},
};

std::vector<std::string> words_of(const char* text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) {
    words.push_back(word);
  }
  return words;
}

std::string in_words(const std::string& bench) {
  return bench == "table"        ? "batch --table"
         : bench == "list-steps" ? "planner --list-steps"
                                 : bench;
}

}  // namespace

void check_taken(const std::string& what, const std::vector<std::string>& given) {
  const auto has = [&given](const char* option) {
    return std::find(given.begin(), given.end(), option) != given.end();
  };
  const std::string bench = what == "batch" && has("--table")          ? "table"
                            : what == "planner" && has("--list-steps") ? "list-steps"
                                                                       : what;
  for (const std::string& option : given) {
    const auto* const row =
        std::find_if(std::begin(kTaken), std::end(kTaken),
                     [&option](const Taken& taken) { return option == taken.option; });
    const std::vector<std::string> by =
        row == std::end(kTaken) ? std::vector<std::string>() : words_of(row->by);
    if (std::find(by.begin(), by.end(), bench) != by.end()) {
      continue;
    }
    std::string others;
    for (const std::string& other : by) {
      others += (others.empty() ? "" : ", ") + in_words(other);
    }
    throw Error(ExitCode::kUsage, "bench " + in_words(bench) + " takes no " + option +
                                      (others.empty() ? "" : ", which is of " + others));
  }
}

}  // namespace versieve::cli
