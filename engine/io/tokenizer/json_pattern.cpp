#include "engine/io/tokenizer/json_pattern.h"

namespace versieve::engine {

Pattern read_pattern(JsonFields& fields, const char* key) {
  const std::string where = fields.where(key);
  JsonFields kind(fields.required(key), where);
  const bool is_regex = kind.optional("Regex") != nullptr;
  if (is_regex == (kind.optional("String") != nullptr)) {
    kind.refuse("must be {\"Regex\": text} or {\"String\": text}");
  }
  const std::string text = kind.text(is_regex ? "Regex" : "String");
  kind.finish();
  return is_regex ? Pattern::oniguruma(text, where) : Pattern::literal(text, where);
}

std::string replace_all(const Pattern& pattern, std::string_view text, const std::string& content) {
  std::vector<Match> matches;
  pattern.find_all(text, true, matches);
  std::string out;
  std::size_t at = 0;
  for (const Match& match : matches) {
    out.append(text.substr(at, match.begin - at)).append(content);
    at = match.end;
  }
  return out.append(text.substr(at));
}

}  // namespace versieve::engine
