#include "engine/io/config_fields.h"

#include <cmath>

#include "model/words/assert.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

// A value for a sentence: its beginning, if it is long.
std::string shown(const nlohmann::json& value) {
  constexpr std::size_t kMost = 100;
  const std::string text = value.dump(-1, ' ', true);
  return text.size() > kMost ? text.substr(0, kMost) + "..." : text;
}

}  // namespace

std::optional<std::int64_t> whole_number(const nlohmann::json& value) {
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX) {
    return {};
  }
  if (value.is_number_integer()) {
    return value.get<std::int64_t>();
  }
  constexpr double kExact = 9007199254740992.0;  // 2^53: beyond it doubles leave integers out
  const double number = value.is_number_float() ? value.get<double>() : 0.5;
  return number == std::floor(number) && std::abs(number) <= kExact
             ? std::optional(static_cast<std::int64_t>(number))
             : std::nullopt;
}

ConfigFields::ConfigFields(const nlohmann::json& object, std::string source)
    : object_(&object), source_(std::move(source)) {
  VERSIEVE_ASSERT(object.is_object(), "fields are looked up in an object");
}

void ConfigFields::refuse(const std::string& what) const {
  throw Error(ExitCode::kBadInput, source_ + ": " + what);
}

bool ConfigFields::has(const char* key) const {
  return object_->contains(key) && !(*object_)[key].is_null();
}

const nlohmann::json& ConfigFields::value(const char* key) const {
  if (!has(key)) {
    refuse(std::string("the field ") + key + " is missing");
  }
  return (*object_)[key];
}

std::int64_t ConfigFields::integer(const char* key, std::int64_t least) const {
  const nlohmann::json& found = value(key);
  const std::optional<std::int64_t> whole = whole_number(found);
  if (!whole || *whole > INT32_MAX || *whole < least) {
    refuse(std::string(key) + " must be an integer from " + std::to_string(least) +
           " below 2^31, but is " + shown(found));
  }
  return *whole;
}

std::int64_t ConfigFields::integer_or(const char* key, std::int64_t least,
                                      std::int64_t absent) const {
  return has(key) ? integer(key, least) : absent;
}

double ConfigFields::positive(const char* key) const {
  const nlohmann::json& found = value(key);
  if (!found.is_number() || !(found.get<double>() > 0.0) || !std::isfinite(found.get<double>())) {
    refuse(std::string(key) + " must be a positive number, but is " + shown(found));
  }
  return found.get<double>();
}

double ConfigFields::positive_or(const char* key, double absent) const {
  return has(key) ? positive(key) : absent;
}

bool ConfigFields::flag_or(const char* key, bool absent) const {
  if (!has(key)) {
    return absent;
  }
  if (!value(key).is_boolean()) {
    refuse(std::string(key) + " must be true or false, but is " + shown(value(key)));
  }
  return value(key).get<bool>();
}

std::string ConfigFields::text(const char* key) const {
  if (!value(key).is_string()) {
    refuse(std::string(key) + " must be a text, but is " + shown(value(key)));
  }
  return value(key).get<std::string>();
}

std::string ConfigFields::text_or(const char* key, const std::string& absent) const {
  return has(key) ? text(key) : absent;
}

ConfigFields ConfigFields::object(const char* key) const {
  if (!value(key).is_object()) {
    refuse(std::string(key) + " must be an object");
  }
  return ConfigFields(value(key), source_ + ": " + key);
}

void ConfigFields::refuse_flags(std::initializer_list<const char*> keys) const {
  for (const char* key : keys) {
    if (has(key) && value(key) != false) {
      refuse(std::string(key) + " is " + shown(value(key)) + ", which is not supported");
    }
  }
}

}  // namespace versieve::engine
