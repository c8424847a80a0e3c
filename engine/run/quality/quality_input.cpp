#include "engine/run/quality/quality_input.h"

#include <algorithm>
#include <string_view>

#include "engine/io/input_file.h"
#include "engine/io/sha256.h"
#include "engine/run/quality/asked.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kMostTokens = std::int64_t{1} << 20;  // beyond any text

std::string_view bytes_of(const TokenIds& tokens) {
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(tokens[0])};
}

}  // namespace

void check_quality_request(const LossyQualityRequest& request) {
  if (request.tasks.empty() && request.texts.empty() && request.windows.empty()) {
    throw Error(ExitCode::kUsage,
                "a strategy's quality is measured on something: --tasks FILE or --text FILE");
  }
  for (const std::int64_t count :
       {request.scored, request.decoded, request.questions, request.cut}) {
    if (count < 0 || count > kMostTokens) {
      throw Error(ExitCode::kUsage, "--scored, --decoded, --questions and --cut are 0 to " +
                                        std::to_string(kMostTokens));
    }
  }
  if (request.cut > 0 && request.texts.empty() && request.windows.empty()) {
    throw Error(ExitCode::kUsage, "--cut is of texts, and there is none: --text FILE");
  }
  if (request.scored == 0) {
    throw Error(ExitCode::kUsage, "--scored is 1 or more");
  }
}

std::vector<Strategy> distinct_strategies(const std::vector<std::string>& texts) {
  std::vector<Strategy> strategies;
  for (const std::string& text : texts) {
    strategies.push_back(Strategy::parse(text));
    if (std::count(strategies.begin(), strategies.end(), strategies.back()) > 1) {
      throw Error(ExitCode::kUsage, "strategy '" + text + "' is given twice");
    }
  }
  return strategies;
}

std::vector<TaskSet> read_task_sets(const LossyQualityRequest& request) {
  std::vector<TaskSet> sets;
  for (const std::filesystem::path& path : request.tasks) {
    sets.push_back(read_task_set(path));
    for (std::size_t i = 0; i + 1 < sets.size(); ++i) {
      if (sets[i].name == sets.back().name) {
        throw Error(ExitCode::kBadInput,
                    path.string() + ": a second task set of the name " + sets.back().name);
      }
    }
  }
  return sets;
}

// Evenly, as many as are asked for.
TaskSet shortened(const TaskSet& set, std::int64_t questions) {
  const std::int64_t all = set.question_count();
  if (questions == 0 || questions >= all) {
    return set;
  }
  TaskSet kept = set;
  std::int64_t place = 0;
  for (TaskContext& context : kept.contexts) {
    std::erase_if(context.questions, [&](const TaskQuestion&) {
      const std::int64_t own = place++;
      return own * questions / all == (own + 1) * questions / all;
    });
  }
  return kept;
}

std::vector<ReadText> texts_of(const LossyQualityRequest& request, const Tokenizer& tokenizer) {
  std::vector<ReadText> texts;
  for (const std::filesystem::path& path : request.texts) {
    const std::string file = path.filename().string();
    texts.push_back({.group = file.substr(0, file.find('-')),
                     .name = file,
                     .tokens = plain_tokens(read_prompt(path), tokenizer),
                     .hashed = sha256_of_file(path) + "  " + file + "\n"});
  }
  for (const QualityWindow& window : request.windows) {
    tokenizer.check(window.tokens);
    texts.push_back({.group = window.group,
                     .name = window.name,
                     .tokens = window.tokens,
                     .hashed = sha256_hex(bytes_of(window.tokens)) + "  " + window.name + "\n"});
  }
  return texts;
}

}  // namespace versieve::engine
