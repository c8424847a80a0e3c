#include "engine/measure/sweep/text_windows.h"

#include <algorithm>

#include "engine/io/strict_json.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kWindowStep = 1024;  // tokens between two windows of one file
constexpr std::int64_t kMaxIndexBytes = 1 << 20;
constexpr int kMaxIndexDepth = 8;

struct PromptFile {
  std::string name;
  TokenIds tokens;  // of its text alone
};

std::vector<PromptFile> files_of(const std::filesystem::path& prompts, const Tokenizer& tokenizer,
                                 const WindowRequest& request) {
  const std::filesystem::path path = prompts / "index.json";
  const nlohmann::json index =
      parse_strict_json(read_text_file(path, kMaxIndexBytes), kMaxIndexDepth, path.string());
  std::vector<PromptFile> files;
  try {
    for (const nlohmann::json& entry : index) {
      if (entry.at("regime").get<std::string>() == request.regime &&
          entry.at("split").get<std::string>() == request.split) {
        const std::string name = entry.at("file").get<std::string>();
        files.push_back(
            {name, tokenizer.encode_text(read_prompt(prompts / name), SpecialsInText::kLetters)});
      }
    }
  } catch (const nlohmann::json::exception&) {
    throw Error(ExitCode::kBadInput, path.string() + ": an entry needs file, regime and split");
  }
  return files;
}

// Tokens of the text in a window.
std::int64_t length_of(const WindowRequest& request, const Tokenizer& tokenizer) {
  return request.context_len - static_cast<std::int64_t>(tokenizer.before().size()) +
         request.continuation_len;
}

TextWindow window_of(const PromptFile& file, std::int64_t start, const Tokenizer& tokenizer,
                     const WindowRequest& request) {
  TokenIds tokens = tokenizer.before();
  const auto begin = file.tokens.begin() + start;
  tokens.insert(tokens.end(), begin, begin + length_of(request, tokenizer));
  const auto middle = tokens.begin() + request.context_len;
  return {file.name, start, {tokens.begin(), middle}, {middle, tokens.end()}};
}

// Matches of every token with the one `period` before it, in a row: the longest.
std::int64_t longest_run(std::span<const std::int32_t> tokens, std::size_t period) {
  std::int64_t longest = 0;
  std::int64_t run = 0;
  for (std::size_t i = period; i < tokens.size(); ++i) {
    run = tokens[i] == tokens[i - period] ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  return longest;
}

}  // namespace

std::vector<TextWindow> text_windows(const std::filesystem::path& prompts,
                                     const Tokenizer& tokenizer, const WindowRequest& request) {
  const std::vector<PromptFile> files = files_of(prompts, tokenizer, request);
  std::vector<TextWindow> windows;
  bool found = true;
  for (std::int64_t start = 0; found; start += kWindowStep) {
    found = false;
    for (const PromptFile& file : files) {
      if (start + length_of(request, tokenizer) > static_cast<std::int64_t>(file.tokens.size())) {
        continue;
      }
      if (static_cast<std::int64_t>(windows.size()) == request.count) {
        return windows;
      }
      windows.push_back(window_of(file, start, tokenizer, request));
      found = true;
    }
  }
  return windows;
}

bool is_looping(std::span<const std::int32_t> tokens) {
  constexpr std::int64_t kLongestPeriod = 80;
  constexpr std::int64_t kShortestRun = 64;
  for (std::int64_t period = 1; period <= kLongestPeriod; ++period) {
    const std::int64_t run = longest_run(tokens, static_cast<std::size_t>(period)) + period;
    const std::int64_t periods = period > 16 ? 3 : 4;
    if (run > period && run >= std::max(kShortestRun, periods * period)) {
      return true;
    }
  }
  return false;
}

}  // namespace versieve::engine
