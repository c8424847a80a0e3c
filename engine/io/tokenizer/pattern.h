// A compiled regular expression and where it matches, also in a text that is not whole UTF-8: there
// every broken character counts as U+FFFD, as in the copy that a reader of text would have.
//
// One thread at a time: a match works in memory of the pattern.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace versieve::engine {

struct Match {
  std::size_t begin = 0;
  std::size_t end = 0;
};

class Pattern {
 public:
  // A pattern of a tokenizer.json. Throws Error(kBadInput) with `where`.
  static Pattern oniguruma(std::string_view pattern, const std::string& where);
  static Pattern literal(std::string_view text, const std::string& where);
  // One that this project wrote, in PCRE2's own syntax.
  static Pattern own(std::string_view pattern);

  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;
  ~Pattern();

  // Replaces `matches` by all of them, from left to right; none begins before another's end.
  // `is_utf8`: whether the text is whole UTF-8. Throws Error(kBadInput) when matching takes more
  // memory than there may be.
  void find_all(std::string_view text, bool is_utf8, std::vector<Match>& matches) const;

 private:
  struct State;
  explicit Pattern(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace versieve::engine
