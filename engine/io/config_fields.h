// Typed look-ups in a config.json; every refusal is one sentence naming the file and the field.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace versieve::engine {

// An integer, also one that is written as 32.0 or 1e4; none for any other value.
std::optional<std::int64_t> whole_number(const nlohmann::json& value);

class ConfigFields {
 public:
  // `object` must outlive the reader; `source` names it in sentences.
  ConfigFields(const nlohmann::json& object, std::string source);

  [[noreturn]] void refuse(const std::string& what) const;

  // A key whose value is null counts as absent, as in the libraries that write these files.
  bool has(const char* key) const;
  // Whether the key is there, be it null: some configuration classes tell the two apart.
  bool mentions(const char* key) const { return object_->contains(key); }
  // A whole_number in [least, 2^31).
  std::int64_t integer(const char* key, std::int64_t least) const;
  std::int64_t integer_or(const char* key, std::int64_t least, std::int64_t absent) const;
  double positive(const char* key) const;
  double positive_or(const char* key, double absent) const;
  bool flag_or(const char* key, bool absent) const;
  std::string text(const char* key) const;
  std::string text_or(const char* key, const std::string& absent) const;
  const nlohmann::json& value(const char* key) const;  // REQUIRES: has(key)
  ConfigFields object(const char* key) const;
  auto items() const { return object_->items(); }

  // Features that this engine does not compute: present and true (or not null) is an error.
  void refuse_flags(std::initializer_list<const char*> keys) const;

 private:
  const nlohmann::json* object_;
  std::string source_;
};

}  // namespace versieve::engine
