#include "engine/io/tokenizer/splitter.h"

#include <array>
#include <cstdio>
#include <memory>
#include <utility>

#include "engine/io/tokenizer/byte_letters.h"
#include "engine/io/tokenizer/json_fields.h"
#include "engine/io/tokenizer/json_pattern.h"
#include "engine/io/tokenizer/pattern_syntax.h"
#include "engine/io/tokenizer/unicode_ranges.h"

namespace versieve::engine {
namespace {

using Piece = Pieces::Piece;

// GPT-2's pattern, as `tokenizers` has it.
constexpr const char* kByteLevelPattern =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
// Digits come from Rust's own table, of Unicode 17.
constexpr const char* kDigitsAfterUnicode16 = "\\x{11de0}-\\x{11de9}\\x{16ff4}-\\x{16ff6}";

// What happens to a match and to what lies between.
enum class Behaviour { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };
constexpr std::array kBehaviours = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                    "Contiguous"};

struct Part {
  Match range;
  bool matches = false;
};

// Matches and what lies between them.
void parts_of(const std::vector<Match>& matches, std::size_t size, bool inverts,
              std::vector<Part>& parts) {
  parts.clear();
  std::size_t at = 0;
  for (const Match& match : matches) {
    if (at != match.begin) {
      parts.push_back({{at, match.begin}, inverts});
    }
    parts.push_back({match, !inverts});
    at = match.end;
  }
  if (at != size) {
    parts.push_back({{at, size}, inverts});
  }
}

// A part joins the one before it (or after it, from the end) where `joins` says so.
template <class Joins>
void merge_parts(std::vector<Part>& parts, const Joins& joins) {
  std::vector<Part> merged;
  bool matched = false;
  for (const Part& part : parts) {
    if (!merged.empty() && joins(part.matches, matched)) {
      merged.back().range.end = part.range.end;
    } else {
      merged.push_back(part);
    }
    matched = part.matches;
  }
  parts = std::move(merged);
}

void merge_with_next(std::vector<Part>& parts) {
  std::vector<Part> merged;
  bool matched = false;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (part->matches && !matched && !merged.empty()) {
      merged.back().range.begin = part->range.begin;
    } else {
      merged.push_back(*part);
    }
    matched = part->matches;
  }
  parts.assign(merged.rbegin(), merged.rend());
}

void apply_behaviour(Behaviour behaviour, std::vector<Part>& parts) {
  switch (behaviour) {
    case Behaviour::kRemoved:
      std::erase_if(parts, [](const Part& part) { return part.matches; });
      return;
    case Behaviour::kIsolated:
      return;
    case Behaviour::kMergedWithPrevious:
      merge_parts(parts, [](bool matches, bool before) { return matches && !before; });
      return;
    case Behaviour::kMergedWithNext:
      merge_with_next(parts);
      return;
    case Behaviour::kContiguous:
      merge_parts(parts, [](bool matches, bool before) { return matches == before; });
      return;
  }
}

Splitter split_by(Pattern pattern, Behaviour behaviour, bool inverts) {
  const auto shared = std::make_shared<const Pattern>(std::move(pattern));
  return [shared, behaviour, inverts](Pieces& pieces) {
    std::vector<Piece> cut;
    cut.reserve(pieces.pieces.size());
    std::vector<Match> matches;
    std::vector<Part> parts;
    for (const Piece& piece : pieces.pieces) {
      shared->find_all(pieces.view(piece), pieces.is_utf8, matches);
      parts_of(matches, piece.end - piece.begin, inverts, parts);
      apply_behaviour(behaviour, parts);
      for (const Part& part : parts) {
        if (part.range.begin < part.range.end) {
          cut.push_back({piece.begin + part.range.begin, piece.begin + part.range.end,
                         piece.opens_text && part.range.begin == 0});
        }
      }
    }
    pieces.pieces = std::move(cut);
  };
}

// Writes every piece anew: `write(piece, view, text)` appends to the new text.
template <class Write>
void rewrite(Pieces& pieces, const Write& write) {
  std::string text;
  text.reserve(2 * pieces.text.size() + pieces.pieces.size());
  for (Piece& piece : pieces.pieces) {
    const std::size_t begin = text.size();
    write(piece, pieces.view(piece), text);
    piece.begin = begin;
    piece.end = text.size();
  }
  pieces.text = std::move(text);
}

void prefix_spaces(Pieces& pieces) {
  rewrite(pieces, [](const Piece&, std::string_view view, std::string& text) {
    text.append(view.starts_with(' ') ? "" : " ").append(view);
  });
}

void write_letters(Pieces& pieces) {
  rewrite(pieces, [](const Piece&, std::string_view view, std::string& text) {
    append_letters_of(view, text);
  });
  pieces.is_utf8 = true;
}

Splitter read_byte_level(JsonFields& fields) {
  const bool prefixes = fields.flag_or("add_prefix_space", true);
  const bool splits = fields.flag_or("use_regex", true);
  fields.pass_over("trim_offsets");  // offsets are not made here
  const Splitter split = splits ? split_by(Pattern::oniguruma(kByteLevelPattern, fields.where()),
                                           Behaviour::kIsolated, false)
                                : Splitter();
  return [prefixes, split](Pieces& pieces) {
    if (prefixes) {
      prefix_spaces(pieces);
    }
    if (split) {
      split(pieces);
    }
    write_letters(pieces);
  };
}

Behaviour behaviour_of(const std::string& name, const JsonFields& fields) {
  for (std::size_t i = 0; i < kBehaviours.size(); ++i) {
    if (name == kBehaviours[i]) {
      return static_cast<Behaviour>(i);
    }
  }
  fields.refuse("the behavior '" + name + "' is not known");
}

Splitter read_split(JsonFields& fields) {
  const Behaviour behaviour = behaviour_of(fields.text("behavior"), fields);
  const bool inverts = fields.flag_or("invert", false);
  return split_by(read_pattern(fields, "pattern"), behaviour, inverts);
}

Splitter read_punctuation(JsonFields& fields) {
  std::string marks;
  for (const CharacterRange& range : punctuation()) {
    char text[32];
    std::snprintf(text, sizeof text, "\\x{%x}-\\x{%x}", range.first, range.last);
    marks += text;
  }
  return split_by(Pattern::own("[" + marks + "]"),
                  behaviour_of(fields.text_or("behavior", "Isolated"), fields), false);
}

Splitter read_digits(JsonFields& fields) {
  const bool single = fields.flag_or("individual_digits", false);
  return split_by(Pattern::own("[" + property_class("N") + kDigitsAfterUnicode16 + "]"),
                  single ? Behaviour::kIsolated : Behaviour::kContiguous, false);
}

// Of Metaspace: which pieces get the replacement before them.
enum class Prefix { kNever, kFirst, kAlways };

Prefix read_prefix(JsonFields& fields) {
  const bool older = fields.flag_or("add_prefix_space", true);  // of files without the scheme
  const std::string scheme = fields.text_or("prepend_scheme", older ? "always" : "never");
  if (scheme == "always" || scheme == "first") {
    if (!older) {
      fields.refuse("add_prefix_space and prepend_scheme contradict each other");
    }
    return scheme == "first" ? Prefix::kFirst : Prefix::kAlways;
  }
  if (scheme != "never") {
    fields.refuse("the prepend_scheme '" + scheme + "' is not known");
  }
  return Prefix::kNever;
}

Splitter read_metaspace(JsonFields& fields) {
  const std::string mark = fields.text("replacement");
  fields.pass_over("str_rep");
  const Prefix prefix = read_prefix(fields);
  const bool splits = fields.flag_or("split", true);
  const Splitter split = splits ? split_by(Pattern::literal(mark, fields.where("replacement")),
                                           Behaviour::kMergedWithNext, false)
                                : Splitter();
  return [mark, prefix, split](Pieces& pieces) {
    rewrite(pieces, [&](const Piece& piece, std::string_view view, std::string& text) {
      const bool may = prefix == Prefix::kAlways || (prefix == Prefix::kFirst && piece.opens_text);
      if (may && !view.starts_with(' ') && !view.starts_with(mark)) {
        text += mark;
      }
      for (const char c : view) {
        c == ' ' ? text.append(mark) : text.append(1, c);
      }
    });
    if (split) {
      split(pieces);
    }
  };
}

Splitter read_sequence(JsonFields& fields) {
  std::vector<Splitter> parts;
  fields.required("pretokenizers");
  for (const nlohmann::json& part : fields.list("pretokenizers")) {
    const std::string where = fields.where("pretokenizers[" + std::to_string(parts.size()) + "]");
    parts.push_back(read_splitter(&part, where));
  }
  return [parts](Pieces& pieces) {
    for (const Splitter& part : parts) {
      part(pieces);
    }
  };
}

Splitter read_known(const std::string& type, JsonFields& fields) {
  if (type == "ByteLevel") {
    return read_byte_level(fields);
  }
  if (type == "Split") {
    return read_split(fields);
  }
  if (type == "Digits") {
    return read_digits(fields);
  }
  if (type == "Punctuation") {
    return read_punctuation(fields);
  }
  if (type == "Metaspace") {
    return read_metaspace(fields);
  }
  if (type == "Sequence") {
    return read_sequence(fields);
  }
  fields.refuse(
      "the pre-tokenizer '" + type +
      "' is not computed here; known are ByteLevel, Split, Digits, Punctuation, Metaspace "
      "and Sequence");
}

}  // namespace

Splitter read_splitter(const nlohmann::json* description, const std::string& where) {
  if (description == nullptr) {
    return [](Pieces&) {};
  }
  JsonFields fields(*description, where);
  Splitter splitter = read_known(fields.text("type"), fields);
  fields.finish();
  return splitter;
}

}  // namespace versieve::engine
