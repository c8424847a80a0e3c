#include "engine/io/tokenizer/json_fields.h"

#include <utility>

#include "engine/io/utf8.h"
#include "model/words/error.h"

namespace versieve::engine {

JsonFields::JsonFields(const nlohmann::json& object, std::string where)
    : object_(object), where_(std::move(where)) {
  if (!object_.is_object()) {
    refuse("is not a JSON object");
  }
}

void JsonFields::refuse(const std::string& what) const {
  throw Error(ExitCode::kBadInput, one_line(where_ + ": " + what));
}

const nlohmann::json* JsonFields::optional(const char* key) {
  seen_.insert(key);
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

const nlohmann::json& JsonFields::required(const char* key) {
  const nlohmann::json* const value = optional(key);
  if (value == nullptr) {
    refuse(std::string("the key ") + key + " is missing");
  }
  return *value;
}

bool JsonFields::flag_or(const char* key, bool otherwise) {
  const nlohmann::json* const value = optional(key);
  if (value != nullptr && !value->is_boolean()) {
    refuse(std::string(key) + " must be true or false");
  }
  return value == nullptr ? otherwise : value->get<bool>();
}

bool JsonFields::flag(const char* key) {
  required(key);
  return flag_or(key, false);
}

std::string JsonFields::text(const char* key) {
  required(key);
  return text_or(key, "");
}

std::string JsonFields::text_or(const char* key, const std::string& otherwise) {
  const nlohmann::json* const value = optional(key);
  if (value != nullptr && !value->is_string()) {
    refuse(std::string(key) + " must be a text");
  }
  return value == nullptr ? otherwise : value->get<std::string>();
}

std::int64_t JsonFields::integer(const char* key) {
  required(key);
  return integer_or(key, 0);
}

std::int64_t JsonFields::integer_or(const char* key, std::int64_t otherwise) {
  const nlohmann::json* const value = optional(key);
  constexpr std::int64_t kMost = 1LL << 31;
  if (value != nullptr && (!value->is_number_integer() || *value < 0 || *value >= kMost)) {
    refuse(std::string(key) + " must be an integer from 0 up");
  }
  return value == nullptr ? otherwise : value->get<std::int64_t>();
}

const nlohmann::json& JsonFields::list(const char* key) {
  static const nlohmann::json kEmpty = nlohmann::json::array();
  const nlohmann::json* const value = optional(key);
  if (value != nullptr && !value->is_array()) {
    refuse(std::string(key) + " must be a list");
  }
  return value == nullptr ? kEmpty : *value;
}

void JsonFields::finish() const {
  for (const auto& [key, value] : object_.items()) {
    if (seen_.count(key) == 0) {
      refuse("the key '" + key + "' is not known here, and passing over it could change tokens");
    }
  }
}

}  // namespace versieve::engine
