// The real text that points of a trained pair run on: pieces of the prompts of one regime and
// split, each a context and what the author wrote next; and whether generated text merely repeats
// itself.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/io/tokenizer/tokenizer.h"
#include "engine/measure/sweep/prompt_list.h"

namespace versieve::engine {

// Tokens of a text behind its context, walked along with the teacher.
inline constexpr std::int64_t kContinuation = 256;

struct TextWindow {
  std::string file;
  std::int64_t start = 0;                  // token of the file
  std::vector<std::int32_t> prompt;        // [context_len], BOS first where the tokenizer adds it
  std::vector<std::int32_t> continuation;  // [continuation_len]: what follows; empty if it is short

  std::string name() const { return file + "@" + std::to_string(start); }
};

struct WindowRequest {
  std::string regime;
  std::string split;
  std::int64_t context_len = 0;
  std::int64_t continuation_len = 0;
  std::int64_t count = 0;  // at most
  // Prompts as decoding is given them: shorter texts whole, and those that nothing need follow.
  bool as_prompts = false;
};

// A prompt list as tokens, of one tokenizer. `model`: whose chat template messages are put in.
class PromptTexts {
 public:
  PromptTexts(const PromptList& prompts, const Tokenizer& tokenizer, std::filesystem::path model);

  // A file of each window before a second window of any; later windows of a file start 1024 tokens
  // further on. Where no file is long enough all of them are one text, in their order. Messages are
  // a prompt whole, of at most the context's tokens, without a continuation.
  // As prompts, texts of fewer tokens within the planner's range of the context come whole, too,
  // and texts one after the other, from each file on, make up the count.
  std::vector<TextWindow> windows(const WindowRequest& request) const;
  // Tokens of the longest text of a regime and split that windows are cut from, chats aside; of
  // the longest chat.
  std::int64_t longest_text() const;
  std::int64_t longest_chat() const;
  // By regime and split: tokens of all texts together, chats aside.
  std::map<std::pair<std::string, std::string>, std::int64_t> tokens_of_texts() const;

 private:
  struct Text {
    std::string name, regime, split;
    TokenIds tokens;  // of its text alone; of a chat all
    bool is_chat = false;
  };

  std::vector<const Text*> texts_of(const WindowRequest& request) const;
  Text joined(const std::vector<const Text*>& texts, std::size_t first) const;
  std::int64_t context_of(const WindowRequest& request) const;
  std::int64_t length_of(const WindowRequest& request) const;
  bool holds(const Text& text, std::int64_t start, const WindowRequest& request) const;
  TextWindow window_of(const Text& text, std::int64_t start, const WindowRequest& request) const;
  void add_joined(const std::vector<const Text*>& texts, const WindowRequest& request,
                  std::vector<TextWindow>& windows) const;

  const Tokenizer& tokenizer_;
  std::vector<Text> texts_;
};

// Some run of at least 64 tokens has a period p <= 80 and holds at least four periods (three where
// p > 16): the rule of engine/demo's record.
bool is_looping(std::span<const std::int32_t> tokens);

}  // namespace versieve::engine
