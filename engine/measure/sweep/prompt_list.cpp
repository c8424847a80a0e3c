#include "engine/measure/sweep/prompt_list.h"

#include <algorithm>
#include <map>

#include "engine/io/folder_files.h"
#include "engine/io/strict_json.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxIndexBytes = 1 << 20;
constexpr int kMaxIndexDepth = 8;
constexpr const char* kIndex = "index.json";
constexpr const char* kSplits[] = {"calibration", "test"};

void add_indexed(const fs::path& folder, PromptList& out) {
  const fs::path path = folder / kIndex;
  const nlohmann::json index =
      parse_strict_json(read_text_file(path, kMaxIndexBytes), kMaxIndexDepth, path.string());
  try {
    for (const nlohmann::json& entry : index) {
      const std::string name = entry.at("file").get<std::string>();
      out.push_back({.name = name,
                     .path = folder / name,
                     .regime = entry.at("regime").get<std::string>(),
                     .split = entry.at("split").get<std::string>()});
    }
  } catch (const nlohmann::json::exception&) {
    throw Error(ExitCode::kBadInput, path.string() + ": an entry needs file, regime and split");
  }
}

bool is_prompt(const fs::path& path) {
  return path.extension() == ".txt" || path.extension() == ".json";
}

// Its split is open where the folder's name does not say it.
void add_file(const fs::path& path, const std::string& name, const std::string& split,
              PromptList& out) {
  const bool is_chat = path.extension() == ".json";
  out.push_back({.name = name,
                 .path = path,
                 .regime = is_chat ? kGivenChats : kGivenTexts,
                 .split = split,
                 .is_chat = is_chat});
}

FolderFiles files_in(const fs::path& folder, bool is_split) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    return {};
  }
  return folder_files(folder, is_prompt,
                      is_split ? std::vector<std::string>()
                               : std::vector<std::string>(std::begin(kSplits), std::end(kSplits)));
}

void add_folder(const fs::path& folder, const std::string& within, const std::string& split,
                PromptList& out) {
  for (const fs::path& file : files_in(folder, !split.empty()).taken) {
    add_file(file, within + file.filename().string(), split, out);
  }
}

void take_turns(PromptList& prompts) {
  std::map<std::string, std::size_t> counts;
  for (PromptFile& prompt : prompts) {
    if (prompt.split.empty()) {
      prompt.split = kSplits[counts[prompt.regime]++ % std::size(kSplits)];
    }
  }
}

std::vector<std::string> each_once(const PromptList& prompts, std::string PromptFile::*field) {
  std::vector<std::string> out;
  for (const PromptFile& prompt : prompts) {
    if (std::find(out.begin(), out.end(), prompt.*field) == out.end()) {
      out.push_back(prompt.*field);
    }
  }
  return out;
}

}  // namespace

PromptList listed_prompts(const std::vector<fs::path>& given) {
  PromptList out;
  for (const fs::path& path : given) {
    std::error_code ignored;
    if (!fs::exists(path, ignored)) {
      throw Error(ExitCode::kBadInput, path.string() + ": there is no such file or folder");
    }
    if (!fs::is_directory(path, ignored)) {
      add_file(path, path.filename().string(), "", out);
    } else if (fs::exists(path / kIndex, ignored)) {
      add_indexed(path, out);
    } else {
      add_folder(path, "", "", out);
      for (const char* split : kSplits) {
        add_folder(path / split, std::string(split) + "/", split, out);
      }
    }
  }
  if (out.empty()) {
    std::string beside;
    for (const std::string& passed_over : passed_over_prompts(given)) {
      beside += "; " + passed_over;
    }
    throw Error(ExitCode::kBadInput,
                (given.empty() ? std::string("no folder") : given.front().string()) +
                    ": holds no prompts, which are .txt files or .json files of messages" + beside);
  }
  take_turns(out);
  return out;
}

std::vector<std::string> passed_over_prompts(const std::vector<fs::path>& given) {
  std::vector<std::string> out;
  std::error_code ignored;
  for (const fs::path& path : given) {
    if (!fs::is_directory(path, ignored) || fs::exists(path / kIndex, ignored)) {
      continue;  // a file, or what its own list names
    }
    for (const char* part : {"", kSplits[0], kSplits[1]}) {
      const fs::path folder = part[0] == '\0' ? path : path / part;
      const std::string passed_over = files_in(folder, part[0] != '\0').passed_over;
      if (!passed_over.empty()) {
        out.push_back(folder.string() + ": passed over are " + passed_over +
                      ": prompts are .txt files or .json files of messages, in the folder, "
                      "calibration/ and test/");
      }
    }
  }
  return out;
}

std::vector<std::string> regimes_of(const PromptList& prompts) {
  return each_once(prompts, &PromptFile::regime);
}

std::vector<std::string> splits_of(const PromptList& prompts) {
  return each_once(prompts, &PromptFile::split);
}

}  // namespace versieve::engine
