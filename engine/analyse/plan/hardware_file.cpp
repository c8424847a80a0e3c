#include "engine/analyse/plan/hardware_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "engine/io/strict_json.h"
#include "model/words/error.h"
#include "model/words/machine_rates.h"

namespace versieve::engine {
namespace {

using nlohmann::json;

[[noreturn]] void refuse(const std::string& path, const std::string& reason) {
  throw Error(ExitCode::kBadInput, path + ": " + reason);
}

std::string text_of(const std::string& path, const json& object, const char* key) {
  if (!object.contains(key) || !object[key].is_string() || object[key].get<std::string>().empty()) {
    refuse(path, std::string("a hardware file needs the text '") + key + "'");
  }
  return object[key].get<std::string>();
}

HardwareValue field_of(const std::string& path, const std::string& name, const json& field) {
  const bool form = field.is_object() && field.contains("value") && field["value"].is_number();
  if (!form || !std::isfinite(field["value"].get<double>()) || field["value"].get<double>() <= 0) {
    refuse(path, "the field '" + name + "' needs a positive number 'value'");
  }
  if (field.contains("verified") && !field["verified"].is_boolean()) {
    refuse(path, "'verified' of the field '" + name + "' must be true or false");
  }
  return {field["value"].get<double>(), text_of(path, field, "source"),
          field.value("verified", false)};
}

void check_keys(const std::string& path, const json& file) {
  constexpr std::array<std::string_view, 5> kKeys = {"key", "name", "like", "fields", "measured"};
  for (const auto& [key, value] : file.items()) {
    if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end()) {
      refuse(path, "the key '" + key + "' is unknown");
    }
  }
}

void check_names(const std::string& path, const json& fields) {
  for (const auto& [name, field] : fields.items()) {
    bool known = false;
    for (std::size_t i = 0; i < kHardwareFieldCount; ++i) {
      known = known || name == name_of(static_cast<HardwareField>(i));
    }
    if (!known) {
      refuse(path, "the field '" + name + "' is unknown");
    }
  }
}

std::vector<MeasuredFigure> read_measured(const std::string& path, const json& object) {
  std::vector<MeasuredFigure> figures;
  if (!object.is_object()) {
    refuse(path, "'measured' must be an object of figures");
  }
  for (const auto& [name, figure] : object.items()) {
    if (unit_of_figure(name) == nullptr) {
      refuse(path, "the measured figure '" + name + "' is unknown");
    }
    figures.push_back({name, field_of(path, name, figure)});
  }
  return figures;
}

HardwareSpec read_hardware(const std::string& path) {
  const json file = read_json_object(path);
  check_keys(path, file);
  HardwareSpec spec;
  const bool based = file.contains("like");
  if (based) {
    spec = hardware_by_key(text_of(path, file, "like"));
  }
  spec.key = text_of(path, file, "key");
  spec.name = text_of(path, file, "name");
  if (!file.contains("fields") || !file["fields"].is_object()) {
    refuse(path, "a hardware file needs the object 'fields'");
  }
  check_names(path, file["fields"]);
  for (std::size_t i = 0; i < kHardwareFieldCount; ++i) {
    const std::string name = name_of(static_cast<HardwareField>(i));
    if (file["fields"].contains(name)) {
      spec.fields[i] = field_of(path, name, file["fields"][name]);
    } else if (!based) {
      refuse(path, "the field '" + name + "' is missing (or name a base with 'like')");
    }
  }
  if (file.contains("measured")) {
    spec.measured = read_measured(path, file["measured"]);
  }
  const std::vector<std::string> contradictions = hardware_contradictions(spec);
  if (!contradictions.empty()) {
    refuse(path, contradictions[0]);
  }
  if (const std::string reason = impossible_figure(spec); !reason.empty()) {
    refuse(path, reason);
  }
  return spec;
}

}  // namespace

HardwareSpec load_hardware(const std::string& key_or_path) {
  const bool looks_like_file =
      key_or_path.find('/') != std::string::npos || key_or_path.ends_with(".json");
  return looks_like_file ? read_hardware(key_or_path) : hardware_by_key(key_or_path);
}

std::string hardware_json(const HardwareSpec& spec) {
  nlohmann::ordered_json fields;
  for (std::size_t i = 0; i < kHardwareFieldCount; ++i) {
    const HardwareField field = static_cast<HardwareField>(i);
    const HardwareValue& v = spec.fields[i];
    fields[name_of(field)] = {{"value", v.value},
                              {"unit", unit_of(field)},
                              {"source", v.source},
                              {"verified", v.verified}};
  }
  nlohmann::ordered_json file = {{"key", spec.key}, {"name", spec.name}, {"fields", fields}};
  for (const MeasuredFigure& each : spec.measured) {
    file["measured"][each.name] = {{"value", each.figure.value},
                                   {"unit", unit_of_figure(each.name)},
                                   {"source", each.figure.source},
                                   {"verified", each.figure.verified}};
  }
  return file.dump(2) + "\n";
}

}  // namespace versieve::engine
