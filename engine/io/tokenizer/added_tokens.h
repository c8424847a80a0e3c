// Tokens beside the vocabulary ("<|im_start|>"), found in a text before anything else is done to
// it: the leftmost, and of those that begin there the longest.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/io/tokenizer/pattern.h"

namespace versieve::engine {

struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  bool special = false;
  bool single_word = false;  // no word character may touch it
  bool takes_left = false;   // white space before it belongs to it
  bool takes_right = false;
  bool normalised = false;  // looked for in the normalised text
};

class AddedTokenFinder {
 public:
  struct Part {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::int32_t id = -1;  // -1: text between tokens
  };

  AddedTokenFinder();
  // Looked for under `spelling`; a second token of that spelling is not.
  void add(const std::string& spelling, const AddedToken& token);

  // Cuts a text. Without `finds_special`, special tokens are text.
  std::vector<Part> cut(std::string_view text, bool finds_special) const;

 private:
  struct Node {
    std::map<unsigned char, std::int32_t> next;
    std::int32_t token = -1;  // of tokens_
  };
  struct Found {
    std::size_t begin = 0;
    std::size_t end = 0;
    const AddedToken* token = nullptr;
  };
  Found longest_at(std::string_view text, std::size_t begin) const;
  bool touches_word(std::string_view text, const Found& found) const;

  std::vector<Node> nodes_{1};
  std::vector<AddedToken> tokens_;
  std::vector<bool> begins_;  // [256]: whether some token begins with the byte
  Pattern word_, space_;
};

}  // namespace versieve::engine
