// An object of a tokenizer's JSON, read key by key: a key that nobody asked for is refused by name,
// so that nothing which changes tokens is ever ignored.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>

namespace versieve::engine {

class JsonFields {
 public:
  // `where`: "FILE: model". Throws Error(kBadInput) when it is no object.
  JsonFields(const nlohmann::json& object, std::string where);

  // Null counts as absent.
  const nlohmann::json* optional(const char* key);
  const nlohmann::json& required(const char* key);
  bool flag_or(const char* key, bool otherwise);
  bool flag(const char* key);
  std::string text(const char* key);
  std::string text_or(const char* key, const std::string& otherwise);
  std::int64_t integer(const char* key);
  std::int64_t integer_or(const char* key, std::int64_t otherwise);
  // A list; empty if absent.
  const nlohmann::json& list(const char* key);
  // A key that changes no token here, said in the folder's README.
  void pass_over(const char* key) { seen_.insert(key); }
  // Throws Error(kBadInput) for the first key that nobody asked for.
  void finish() const;

  const std::string& where() const { return where_; }
  std::string where(const std::string& key) const { return where_ + "." + key; }
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  const nlohmann::json& object_;
  std::string where_;
  std::set<std::string> seen_;
};

}  // namespace versieve::engine
