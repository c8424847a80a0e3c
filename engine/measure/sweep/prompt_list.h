// Which texts a pair is measured on: the prompts that ship, a folder's, or files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace versieve::engine {

struct PromptFile {
  std::string name;  // that its walks are stored under
  std::filesystem::path path;
  std::string regime, split;
  bool is_chat = false;  // messages: a prompt whole, without a continuation
};
using PromptList = std::vector<PromptFile>;

// Regimes of prompts that were given without an index.json.
inline constexpr const char* kGivenTexts = "given";
inline constexpr const char* kGivenChats = "chat";

// `given`: one folder with an index.json ([{file, regime, split, ...}]), or folders and files. Of a
// folder all .txt and .json files, those in calibration/ and test/ in that split. Other files take
// turns, so that plan and judgement see different texts: calibration, test, calibration, ... A
// .json file holds the messages of a chat. Throws Error(kBadInput) where there is none.
PromptList listed_prompts(const std::vector<std::filesystem::path>& given);
// What such folders hold beside, a sentence each.
std::vector<std::string> passed_over_prompts(const std::vector<std::filesystem::path>& given);
// Each once, in the list's order.
std::vector<std::string> regimes_of(const PromptList& prompts);
std::vector<std::string> splits_of(const PromptList& prompts);

}  // namespace versieve::engine
