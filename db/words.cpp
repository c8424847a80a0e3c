#include "db/words.h"

namespace versieve::db {

Words::Words(Database& database)
    : select_(database, "SELECT id FROM word WHERE text = ?"),
      insert_(database, "INSERT INTO word (text) VALUES (?)"),
      database_(database) {}

std::int64_t Words::id(const std::string& text) {
  if (const std::optional<std::int64_t> known = find(text)) {
    return *known;
  }
  insert_.bind(text).run();
  return ids_[text] = database_.last_insert_id();
}

std::optional<std::int64_t> Words::find(const std::string& text) {
  const auto known = ids_.find(text);
  if (known != ids_.end()) {
    return known->second;
  }
  std::optional<std::int64_t> id;
  if (select_.bind(text).next()) {
    id = select_.integer(0);
    ids_[text] = *id;
  }
  select_.reset();
  return id;
}

std::vector<std::string> all_words(const Database& database) {
  std::vector<std::string> words(1);
  Statement query(database, "SELECT id, text FROM word ORDER BY id");
  while (query.next()) {
    words.resize(static_cast<std::size_t>(query.integer(0)) + 1);
    words.back() = query.text(1);
  }
  return words;
}

}  // namespace versieve::db
