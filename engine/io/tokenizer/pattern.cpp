#include "engine/io/tokenizer/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cstdint>
#include <utility>

#include "engine/io/tokenizer/pattern_syntax.h"
#include "engine/io/utf8.h"
#include "model/words/assert.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

constexpr std::size_t kFirstJitStack = 64 << 10;
constexpr std::size_t kMostJitStack = 64 << 20;
constexpr std::uint32_t kHeapKib = 1 << 20;  // of the interpreter, where the stack is too small

template <auto free_function>
struct Free {
  template <class T>
  void operator()(T* pointer) const {
    free_function(pointer);
  }
};
template <class T, auto free_function>
using Owned = std::unique_ptr<T, Free<free_function>>;

// A text with U+FFFD for each broken character, and where its places lie in the original.
class ReadersCopy {
 public:
  explicit ReadersCopy(std::string_view text) {
    std::size_t at = 0;
    while (at < text.size()) {
      const std::size_t whole = first_byte_not_utf8(text.substr(at));
      copy_.append(text.substr(at, whole));
      at += whole;
      if (at < text.size()) {
        at += broken_bytes(text.substr(at));
        copy_ += "\xef\xbf\xbd";
        shifts_.push_back({copy_.size(), at});
      }
    }
  }

  const std::string& text() const { return copy_; }
  // Places are asked for in ascending order.
  std::size_t original(std::size_t place) {
    while (next_ < shifts_.size() && shifts_[next_].first <= place) {
      last_ = shifts_[next_++];
    }
    return place - last_.first + last_.second;
  }

 private:
  std::string copy_;
  std::vector<std::pair<std::size_t, std::size_t>> shifts_;  // after each: here, there
  std::size_t next_ = 0;
  std::pair<std::size_t, std::size_t> last_{0, 0};
};

std::string message_of(int error) {
  PCRE2_UCHAR text[256] = {};
  pcre2_get_error_message(error, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

}  // namespace

struct Pattern::State {
  std::string source, where;
  Owned<pcre2_code, pcre2_code_free> code;
  Owned<pcre2_match_data, pcre2_match_data_free> data;
  Owned<pcre2_match_context, pcre2_match_context_free> context;
  Owned<pcre2_jit_stack, pcre2_jit_stack_free> stack;
  bool is_jit = false;

  State(std::string_view pattern, std::uint32_t options, std::string in_file)
      : source(pattern), where(std::move(in_file)) {
    const Owned<pcre2_compile_context, pcre2_compile_context_free> compiling(
        pcre2_compile_context_create(nullptr));
    pcre2_set_newline(compiling.get(), PCRE2_NEWLINE_LF);
    int error = 0;
    std::size_t offset = 0;
    code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(source.data()), source.size(), options,
                             &error, &offset, compiling.get()));
    if (code == nullptr) {
      refuse("the pattern cannot be compiled: " + message_of(error));
    }
    is_jit = pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE) == 0;
    data.reset(pcre2_match_data_create_from_pattern(code.get(), nullptr));
    context.reset(pcre2_match_context_create(nullptr));
    stack.reset(pcre2_jit_stack_create(kFirstJitStack, kMostJitStack, nullptr));
    VERSIEVE_ASSERT(data != nullptr && context != nullptr, "PCRE2 has memory for a match");
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
    pcre2_set_match_limit(context.get(), UINT32_MAX);
    pcre2_set_depth_limit(context.get(), UINT32_MAX);
    pcre2_set_heap_limit(context.get(), kHeapKib);
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ExitCode::kBadInput, one_line(where + ": " + what));
  }

  // The first match from a place on.
  bool search(std::string_view text, std::size_t from, Match& match) const {
    const PCRE2_SPTR subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    int count = PCRE2_ERROR_JIT_STACKLIMIT;
    if (is_jit) {
      count = pcre2_jit_match(code.get(), subject, text.size(), from, 0, data.get(), context.get());
    }
    if (count == PCRE2_ERROR_JIT_STACKLIMIT) {
      count = pcre2_match(code.get(), subject, text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                          data.get(), context.get());
    }
    if (count == PCRE2_ERROR_NOMATCH) {
      return false;
    }
    if (count < 0) {
      refuse("the text cannot be split by its pattern: " + message_of(count));
    }
    const std::size_t* const places = pcre2_get_ovector_pointer(data.get());
    match = {places[0], places[1]};
    return true;
  }
};

Pattern::Pattern(std::unique_ptr<State> state) : state_(std::move(state)) {}
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;
Pattern::~Pattern() = default;

Pattern Pattern::oniguruma(std::string_view pattern, const std::string& where) {
  if (pattern.empty() || !is_utf8(pattern)) {
    throw Error(ExitCode::kBadInput, where + ": the pattern is empty or no UTF-8");
  }
  // Oniguruma's ^ and $ are those of every line.
  return Pattern(std::make_unique<State>(
      pcre_of_oniguruma(pattern, where),
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, where));
}

Pattern Pattern::literal(std::string_view text, const std::string& where) {
  if (text.empty()) {
    throw Error(ExitCode::kBadInput, where + ": the pattern is empty");
  }
  return Pattern(std::make_unique<State>(text, PCRE2_UTF | PCRE2_LITERAL, where));
}

Pattern Pattern::own(std::string_view pattern) {
  return Pattern(std::make_unique<State>(pattern, PCRE2_UTF | PCRE2_UCP, "a pattern of versieve"));
}

void Pattern::find_all(std::string_view text, bool is_whole, std::vector<Match>& matches) const {
  matches.clear();
  if (!is_whole) {
    ReadersCopy copy(text);
    find_all(copy.text(), true, matches);
    for (Match& match : matches) {
      match.begin = copy.original(match.begin);
      match.end = copy.original(match.end);
    }
    return;
  }
  Match match;
  for (std::size_t from = 0; from <= text.size() && state_->search(text, from, match);) {
    // An empty match where the last one ended is none.
    if (match.begin == match.end && !matches.empty() && matches.back().end == match.end) {
      from += from < text.size() ? character_bytes(text.substr(from)) : 1;
      continue;
    }
    matches.push_back(match);
    from = match.end;
  }
}

}  // namespace versieve::engine
