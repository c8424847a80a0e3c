#include "engine/io/tokenizer/added_tokens.h"

#include <algorithm>

#include "engine/io/tokenizer/pattern_syntax.h"
#include "engine/io/utf8.h"

namespace versieve::engine {
namespace {

constexpr std::size_t kMostCharacterBytes = 4;

std::string_view first_character(std::string_view text) {
  return text.substr(0, character_bytes(text));
}

// Empty where the text ends in no whole character.
std::string_view last_character(std::string_view text) {
  for (std::size_t bytes = 1; bytes <= std::min(text.size(), kMostCharacterBytes); ++bytes) {
    const std::string_view last = text.substr(text.size() - bytes);
    if (character_bytes(last) == bytes) {
      return last;
    }
  }
  return {};
}

bool is_one_of(const Pattern& pattern, std::string_view character) {
  std::vector<Match> matches;
  if (!character.empty()) {
    pattern.find_all(character, true, matches);
  }
  return !matches.empty();
}

}  // namespace

AddedTokenFinder::AddedTokenFinder()
    : begins_(256, false),
      word_(Pattern::own("[" + word_class() + "\\x{200c}\\x{200d}]")),
      space_(Pattern::own("[" + std::string(kSpaceClass) + "]")) {}

void AddedTokenFinder::add(const std::string& spelling, const AddedToken& token) {
  if (spelling.empty()) {
    return;
  }
  std::size_t node = 0;
  for (const char c : spelling) {
    const auto [next, is_new] = nodes_[node].next.try_emplace(
        static_cast<unsigned char>(c), static_cast<std::int32_t>(nodes_.size()));
    node = static_cast<std::size_t>(next->second);
    if (is_new) {
      nodes_.emplace_back();
    }
  }
  begins_[static_cast<unsigned char>(spelling[0])] = true;
  if (nodes_[node].token < 0) {
    nodes_[node].token = static_cast<std::int32_t>(tokens_.size());
    tokens_.push_back(token);
  }
}

AddedTokenFinder::Found AddedTokenFinder::longest_at(std::string_view text,
                                                     std::size_t begin) const {
  Found found;
  std::size_t node = 0;
  for (std::size_t at = begin; at < text.size(); ++at) {
    const auto next = nodes_[node].next.find(static_cast<unsigned char>(text[at]));
    if (next == nodes_[node].next.end()) {
      break;
    }
    node = static_cast<std::size_t>(next->second);
    if (nodes_[node].token >= 0) {
      found = {begin, at + 1, &tokens_[static_cast<std::size_t>(nodes_[node].token)]};
    }
  }
  return found;
}

bool AddedTokenFinder::touches_word(std::string_view text, const Found& found) const {
  return is_one_of(word_, last_character(text.substr(0, found.begin))) ||
         is_one_of(word_, first_character(text.substr(found.end)));
}

std::vector<AddedTokenFinder::Part> AddedTokenFinder::cut(std::string_view text,
                                                          bool finds_special) const {
  std::vector<Part> parts;
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (!begins_[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    Found found = longest_at(text, at);
    if (found.token == nullptr) {
      ++at;
      continue;
    }
    at = found.end;  // a token that does not count hides what overlaps it all the same
    const AddedToken& token = *found.token;
    if ((token.special && !finds_special) || (token.single_word && touches_word(text, found))) {
      continue;
    }
    found.begin = token.takes_left ? std::max(found.begin, done) : found.begin;
    while (token.takes_left && found.begin > done) {
      const std::string_view last = last_character(text.substr(0, found.begin));
      if (!is_one_of(space_, last)) {
        break;
      }
      found.begin -= std::min(last.size(), found.begin - done);
    }
    while (token.takes_right && is_one_of(space_, first_character(text.substr(found.end)))) {
      found.end += first_character(text.substr(found.end)).size();
    }
    if (done < found.begin) {
      parts.push_back({done, found.begin, -1});
    }
    if (found.begin < found.end) {  // the token before may have taken all of its spaces
      parts.push_back({found.begin, found.end, token.id});
    }
    done = found.end;
  }
  if (done < text.size()) {
    parts.push_back({done, text.size(), -1});
  }
  return parts;
}

}  // namespace versieve::engine
