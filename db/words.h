// Texts that many rows repeat, stored once: the table `word`.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "db/sqlite.h"

namespace versieve::db {

class Words {
 public:
  explicit Words(Database& database);

  std::int64_t id(const std::string& text);  // stores the text if it is new
  // The id, or none; stores nothing.
  std::optional<std::int64_t> find(const std::string& text);
  // To be called when a transaction was rolled back: its words are not in the file.
  void forget() { ids_.clear(); }

 private:
  Statement select_;
  Statement insert_;
  Database& database_;
  std::unordered_map<std::string, std::int64_t> ids_;
};

// All words, by id.
std::vector<std::string> all_words(const Database& database);

}  // namespace versieve::db
