#include "engine/io/tokenizer/pattern_syntax.h"

#include <array>
#include <cctype>
#include <cstdio>
#include <optional>

#include "engine/io/tokenizer/unicode_ranges.h"
#include "engine/io/utf8.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

// All characters but kSpaceClass's.
constexpr const char* kNoSpaceClass =
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}"
    "\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}"
    "\\x{3001}-\\x{d7ff}\\x{e000}-\\x{10ffff}";

struct Name {
  const char* spelt;  // lower case, without spaces, hyphens and underscores
  const char* category;
};
constexpr std::array kNames = {Name{"l", "L"},
                               Name{"letter", "L"},
                               Name{"lu", "Lu"},
                               Name{"uppercaseletter", "Lu"},
                               Name{"ll", "Ll"},
                               Name{"lowercaseletter", "Ll"},
                               Name{"lt", "Lt"},
                               Name{"titlecaseletter", "Lt"},
                               Name{"lm", "Lm"},
                               Name{"modifierletter", "Lm"},
                               Name{"lo", "Lo"},
                               Name{"otherletter", "Lo"},
                               Name{"m", "M"},
                               Name{"mark", "M"},
                               Name{"n", "N"},
                               Name{"number", "N"},
                               Name{"nd", "Nd"},
                               Name{"decimalnumber", "Nd"},
                               Name{"nl", "Nl"},
                               Name{"letternumber", "Nl"},
                               Name{"no", "No"},
                               Name{"othernumber", "No"},
                               Name{"p", "P"},
                               Name{"punctuation", "P"},
                               Name{"punct", "P"},
                               Name{"pc", "Pc"},
                               Name{"connectorpunctuation", "Pc"},
                               Name{"pd", "Pd"},
                               Name{"dashpunctuation", "Pd"},
                               Name{"ps", "Ps"},
                               Name{"openpunctuation", "Ps"},
                               Name{"pe", "Pe"},
                               Name{"closepunctuation", "Pe"},
                               Name{"pi", "Pi"},
                               Name{"initialpunctuation", "Pi"},
                               Name{"pf", "Pf"},
                               Name{"finalpunctuation", "Pf"},
                               Name{"po", "Po"},
                               Name{"otherpunctuation", "Po"},
                               Name{"s", "S"},
                               Name{"symbol", "S"},
                               Name{"sm", "Sm"},
                               Name{"mathsymbol", "Sm"},
                               Name{"sc", "Sc"},
                               Name{"currencysymbol", "Sc"},
                               Name{"sk", "Sk"},
                               Name{"modifiersymbol", "Sk"},
                               Name{"so", "So"},
                               Name{"othersymbol", "So"},
                               Name{"z", "Z"},
                               Name{"separator", "Z"},
                               Name{"zs", "Zs"},
                               Name{"spaceseparator", "Zs"},
                               Name{"zl", "Zl"},
                               Name{"lineseparator", "Zl"},
                               Name{"zp", "Zp"},
                               Name{"paragraphseparator", "Zp"},
                               Name{"cc", "Cc"},
                               Name{"control", "Cc"},
                               Name{"cf", "Cf"},
                               Name{"format", "Cf"},
                               Name{"co", "Co"},
                               Name{"privateuse", "Co"}};

// make_unicode_ranges.py knows what these gained after Unicode 14.
constexpr std::array kScripts = {"arabic",   "bengali", "cyrillic", "devanagari", "greek",
                                 "han",      "hangul",  "hebrew",   "hiragana",   "kannada",
                                 "katakana", "khmer",   "latin",    "malayalam",  "tamil",
                                 "telugu",   "thai"};

std::string normal_name(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c != ' ' && c != '_' && c != '-') {
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return out;
}

// "Lo", or a script as "Han"; empty: not known.
std::string property_of(std::string_view spelt) {
  std::string name = normal_name(spelt);
  for (const Name& known : kNames) {
    if (name == known.spelt) {
      return known.category;
    }
  }
  for (const char* script : kScripts) {
    if (name == script) {
      name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
      return name;
    }
  }
  return {};
}

std::string range_text(std::uint32_t first, std::uint32_t last) {
  char text[40];
  std::snprintf(text, sizeof text, first == last ? "\\x{%x}" : "\\x{%x}-\\x{%x}",
                static_cast<unsigned>(first), static_cast<unsigned>(last));
  return text;
}

// Of a category: of all categories that begin with its letters.
std::string later_of(const std::string& property) {
  std::string out;
  for (const PropertyRange& range : later_assigned()) {
    const std::string of = range.property;
    if (property.size() <= 2 ? of.size() <= 2 && of.starts_with(property) : of == property) {
      out += range_text(range.first, range.last);
    }
  }
  return out;
}

class Translation {
 public:
  Translation(std::string_view pattern, const std::string& where)
      : pattern_(pattern), where_(where) {}

  std::string run() {
    while (at_ < pattern_.size()) {
      const char c = pattern_[at_];
      switch (c) {
        case '\\':
          out_ += escape(false);
          break;
        case '[':
          character_class();
          break;
        case '(':
          group();
          break;
        case '{':
          repeat();
          break;
        default:
          out_ += c;
          ++at_;
      }
    }
    return out_;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ExitCode::kBadInput, one_line(where_ + ": " + what + " in the pattern '" +
                                              std::string(pattern_) + "' is not supported"));
  }
  bool follows(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }

  // `positive` and `negative`: the class's inside and that of its complement.
  std::string class_text(const std::string& positive, const std::optional<std::string>& negative,
                         bool negated, bool inside) const {
    if (!inside) {
      return (negated ? "[^" : "[") + positive + "]";
    }
    if (negated && !negative) {
      refuse("a negated property in a character class");
    }
    return negated ? *negative : positive;
  }

  std::string property(bool negated, bool inside) {
    const std::size_t end = pattern_.find('}', at_);
    if (!follows("{") || end == std::string_view::npos) {
      refuse("\\p without a name in braces");
    }
    std::string_view name = pattern_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    if (name.starts_with("^")) {
      negated = !negated;
      name.remove_prefix(1);
    }
    const std::string known = property_of(name);
    if (known.empty()) {
      refuse("the property '" + std::string(name) + "'");
    }
    const std::string later = later_of(known);
    const std::string spelt = (known.size() > 2 ? "sc:" : "") + known;
    const std::string positive = "\\p{" + spelt + "}" + later;
    return class_text(positive, later.empty() ? std::optional("\\P{" + spelt + "}") : std::nullopt,
                      negated, inside);
  }

  std::string code_point(std::size_t least_digits, std::size_t most_digits, bool braced) {
    at_ += braced ? 1 : 0;
    std::uint32_t value = 0;
    std::size_t digits = 0;
    while (at_ < pattern_.size() && digits < most_digits &&
           std::isxdigit(static_cast<unsigned char>(pattern_[at_])) != 0) {
      const char c = static_cast<char>(std::tolower(static_cast<unsigned char>(pattern_[at_++])));
      value = value * 16 + static_cast<std::uint32_t>(c <= '9' ? c - '0' : c - 'a' + 10);
      ++digits;
    }
    if (digits < least_digits || (braced && !follows("}"))) {
      refuse("a code point with too few digits");
    }
    at_ += braced ? 1 : 0;
    if (value > 0x10ffff || (value >= 0xd800 && value < 0xe000) ||
        (!braced && most_digits == 2 && value >= 0x80)) {
      refuse("a code point that is no character");
    }
    return range_text(value, value);
  }

  std::string boundary(bool negated) const {
    const std::string word = "[" + word_class() + "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}]";
    const std::string there = "(?<=" + word + ")";
    const std::string not_there = "(?<!" + word + ")";
    const std::string then = "(?=" + word + ")";
    const std::string not_then = "(?!" + word + ")";
    return negated ? "(?:" + there + then + "|" + not_there + not_then + ")"
                   : "(?:" + there + not_then + "|" + not_there + then + ")";
  }

  std::string letter_escape(char c, bool inside) {
    switch (c) {
      case 's':
      case 'S':
        return class_text(kSpaceClass, kNoSpaceClass, c == 'S', inside);
      case 'd':
      case 'D':
        return class_text(property_class("Nd"), {}, c == 'D', inside);
      case 'w':
      case 'W':  // Oniguruma counts the superscripts and fractions of Latin-1 too
        return class_text(word_class() + "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}", {}, c == 'W',
                          inside);
      case 'p':
      case 'P':
        return property(c == 'P', inside);
      case 'r':
      case 'n':
      case 't':
      case 'f':
      case 'a':
      case 'e':
        return {'\\', c};
      case 'v':
        return "\\x{b}";
      case 'x':
        return follows("{") ? code_point(1, 8, true) : code_point(1, 2, false);
      case 'u':
        return code_point(4, 4, false);
      default:
        break;
    }
    if (!inside && (c == 'A' || c == 'z' || c == 'Z')) {
      return {'\\', c};
    }
    if (!inside && (c == 'b' || c == 'B')) {
      return boundary(c == 'B');
    }
    refuse(std::string("the escape \\") + c);
  }

  std::string escape(bool inside) {
    ++at_;
    if (at_ == pattern_.size()) {
      refuse("a backslash at the end");
    }
    const char c = pattern_[at_++];
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      return letter_escape(c, inside);
    }
    return static_cast<unsigned char>(c) < 0x80 ? std::string{'\\', c} : std::string(1, c);
  }

  void character_class() {
    out_ += pattern_[at_++];
    if (follows("^")) {
      out_ += pattern_[at_++];
    }
    if (follows("]")) {
      refuse("a character class that begins with ]");
    }
    while (at_ < pattern_.size() && pattern_[at_] != ']') {
      if (follows("[") || follows("&&")) {
        refuse("a class within a class");
      }
      if (follows("\\")) {
        out_ += escape(true);
      } else {
        out_ += pattern_[at_++];
      }
    }
    if (at_ == pattern_.size()) {
      refuse("a character class without its end");
    }
    out_ += pattern_[at_++];
  }

  void group() {
    static constexpr std::array kKnown = {
        "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?-i:"};
    for (const char* known : kKnown) {
      if (follows(known)) {
        out_ += known;
        at_ += std::string_view(known).size();
        return;
      }
    }
    if (at_ == 0 && follows("(?i)")) {
      out_ += "(?i)";
      at_ += 4;
      return;
    }
    if (follows("(?") || follows("(*")) {
      refuse("the group " + std::string(pattern_.substr(at_, 4)));
    }
    out_ += pattern_[at_++];
  }

  // {n}, {n,}, {,m}, {n,m}; any other brace stands for itself.
  void repeat() {
    std::size_t end = at_ + 1;
    std::string low;
    std::string high;
    bool comma = false;
    for (; end < pattern_.size() && pattern_[end] != '}'; ++end) {
      const char c = pattern_[end];
      if (c == ',' && !comma) {
        comma = true;
      } else if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
        (comma ? high : low) += c;
      } else {
        break;
      }
    }
    if (end == pattern_.size() || pattern_[end] != '}' || (low.empty() && high.empty())) {
      out_ += "\\{";
      ++at_;
      return;
    }
    at_ = end + 1;
    if (follows("+") || (!comma && follows("?"))) {
      refuse("a sign after a counted repeat, which Oniguruma reads its own way,");
    }
    out_ += "{" + (low.empty() ? "0" : low) + (comma ? "," + high : "") + "}";
  }

  std::string_view pattern_;
  const std::string& where_;
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string property_class(const std::string& name) {
  return "\\p{" + name + "}" + later_of(name);
}

std::string word_class() {
  return "\\p{Alphabetic}" + property_class("M") + property_class("Nd") + property_class("Pc") +
         later_of("L") + later_of("Nl");
}

std::string pcre_of_oniguruma(std::string_view pattern, const std::string& where) {
  return Translation(pattern, where).run();
}

}  // namespace versieve::engine
