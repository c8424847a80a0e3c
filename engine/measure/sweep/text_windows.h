// The real text that acceptance points run on: pieces of the prompts of one regime and split, each
// a context and what the author wrote next; and whether generated text merely repeats itself.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "engine/io/tokenizer/tokenizer.h"

namespace versieve::engine {

struct TextWindow {
  std::string file;
  std::int64_t start = 0;                  // token of the file
  std::vector<std::int32_t> prompt;        // [context_len], BOS first where the tokenizer adds it
  std::vector<std::int32_t> continuation;  // [continuation_len]: what follows in the text

  std::string name() const { return file + "@" + std::to_string(start); }
};

struct WindowRequest {
  std::string regime;
  std::string split;
  std::int64_t context_len = 0;
  std::int64_t continuation_len = 0;
  std::int64_t count = 0;  // at most
};

// Reads index.json of a prompts folder ([{file, regime, split, ...}]). A file of each window before
// a second window of any; later windows of a file start 1024 tokens further on. Throws
// Error(kBadInput) for a folder that is not such.
std::vector<TextWindow> text_windows(const std::filesystem::path& prompts,
                                     const Tokenizer& tokenizer, const WindowRequest& request);

// Some run of at least 64 tokens has a period p <= 80 and holds at least four periods (three where
// p > 16): the rule of engine/demo's record.
bool is_looping(std::span<const std::int32_t> tokens);

}  // namespace versieve::engine
