#include "engine/analyse/plan/hardware_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "engine/io/formatted.h"
#include "engine/io/strict_json.h"
#include "model/words/error.h"
#include "model/words/hardware_limits.h"
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

HardwareSpec base_of(const std::string& path, const json& file) {
  try {
    return hardware_by_key(text_of(path, file, "like"));
  } catch (const Error& error) {
    refuse(path, std::string("like: ") + error.what());
  }
}

// {"value": 132, "source": "...", "unit": "MHz", "verified": true}; the unit is the caller's to
// check.
HardwareValue value_of(const std::string& path, const std::string& name, const json& field) {
  if (!field.is_object()) {
    refuse(path, "the field '" + name + "' must be an object with a 'value' and its 'source'");
  }
  constexpr std::array<std::string_view, 4> kKeys = {"value", "unit", "source", "verified"};
  for (const auto& [key, value] : field.items()) {
    if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end()) {
      refuse(path, "the field '" + name + "' has the unknown key '" + key + "'");
    }
  }
  if (!field.contains("value") || !field["value"].is_number() ||
      !std::isfinite(field["value"].get<double>()) || field["value"].get<double>() <= 0) {
    refuse(path, "the field '" + name + "' needs a positive number 'value'" +
                     (field.contains("value") ? ", not " + field["value"].dump() : ""));
  }
  if (field.contains("verified") && !field["verified"].is_boolean()) {
    refuse(path, "'verified' of the field '" + name + "' must be true or false");
  }
  if (!field.contains("source") || !field["source"].is_string() || field["source"] == "") {
    refuse(path, "the field '" + name + "' needs the text 'source'");
  }
  return {field["value"].get<double>(), field["source"].get<std::string>(),
          field.value("verified", false)};
}

// The unit that a file names, which is a note to its reader and must be the field's.
std::string unit_in(const std::string& path, const std::string& name, const json& field,
                    const char* right) {
  if (!field.contains("unit")) {
    return right;
  }
  if (!field["unit"].is_string()) {
    refuse(path, "'unit' of the field '" + name + "' must be a text, not " + field["unit"].dump());
  }
  return field["unit"].get<std::string>();
}

HardwareValue field_of(const std::string& path, HardwareField which, const json& field) {
  const std::string name = name_of(which);
  const HardwareValue value = value_of(path, name, field);
  for (const std::string& reason :
       {wrong_unit_because(which, value.value, unit_in(path, name, field, unit_of(which))),
        implausible_because(which, value.value)}) {
    if (!reason.empty()) {
      refuse(path, reason);
    }
  }
  return value;
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
    figures.push_back({name, value_of(path, name, figure)});
    const std::string unit = unit_in(path, name, figure, unit_of_figure(name));
    if (unit != unit_of_figure(name)) {
      refuse(path, "the unit of the measured figure '" + name + "' is " + unit_of_figure(name) +
                       ", not '" + unit + "'");
    }
  }
  return figures;
}

// A key leads to what was measured on the catalogue's machine, so another machine may not have it.
void check_key(const std::string& path, const HardwareSpec& spec) {
  for (const HardwareSpec& entry : hardware_catalogue()) {
    for (std::size_t i = 0; entry.key == spec.key && i < kHardwareFieldCount; ++i) {
      if (spec.fields[i].value != entry.fields[i].value) {
        refuse(path, "the key '" + spec.key + "' is the catalogue's, whose " +
                         name_of(static_cast<HardwareField>(i)) +
                         " is another: give this machine a key of its own");
      }
    }
  }
}

HardwareSpec read_hardware(const std::string& path) {
  const json file = read_json_object(path);
  check_keys(path, file);
  HardwareSpec spec;
  const bool based = file.contains("like");
  if (based) {
    spec = base_of(path, file);
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
      spec.fields[i] = field_of(path, static_cast<HardwareField>(i), file["fields"][name]);
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
  check_key(path, spec);
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

HardwareSpec with_bandwidth(HardwareSpec spec, double terabytes_per_s) {
  const double gigabytes = terabytes_per_s * 1000.0;
  const HardwareLimits limits = limits_of(HardwareField::kRawBandwidthGbps);
  if (!(gigabytes >= limits.low && gigabytes <= limits.high)) {
    throw Error(ExitCode::kUsage,
                formatted("a memory bandwidth of %g TB/s cannot be (%g to %g)", terabytes_per_s,
                          limits.low / 1000.0, limits.high / 1000.0));
  }
  spec.fields[static_cast<std::size_t>(HardwareField::kRawBandwidthGbps)] = {
      .value = gigabytes, .source = "asked for", .verified = false};
  const bool is_round =
      std::fabs(10.0 * terabytes_per_s - std::round(10.0 * terabytes_per_s)) < 1e-6;
  const std::string label = formatted(" at %.*f TB/s", is_round ? 1 : 2, terabytes_per_s);
  spec.key += label;
  spec.name += label;
  spec.measured.clear();
  return spec;
}

}  // namespace versieve::engine
