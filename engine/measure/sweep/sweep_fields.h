// One object of a sweep's text, read key by key. Internal to the reading of sweeps.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/io/formatted.h"
#include "engine/measure/sweep/sweep.h"
#include "model/words/error.h"
#include "model/words/llm_shape.h"

namespace versieve::engine {

// One object of the sweep's text: takes its keys one by one and refuses those nobody took.
class Fields {
 public:
  Fields(const nlohmann::json& object, std::string where)
      : object_(object), where_(std::move(where)) {
    if (!object_.is_object()) {
      throw Error(ExitCode::kBadInput, where_ + " must be a JSON object");
    }
  }

  template <class T>
  T value(const char* key, T fallback) {
    taken_.insert(key);
    return object_.contains(key) ? convert<T>(object_.at(key), key) : fallback;
  }
  // A single value or a list of them; not there: the fallback alone.
  template <class T>
  std::vector<T> axis(const char* key, std::vector<T> fallback) {
    taken_.insert(key);
    if (!object_.contains(key)) {
      return fallback;
    }
    const nlohmann::json& found = object_.at(key);
    std::vector<T> values;
    if (!found.is_array()) {
      values.push_back(convert<T>(found, key));
    } else {
      for (const nlohmann::json& each : found) {
        values.push_back(convert<T>(each, key));
      }
    }
    if (values.empty()) {
      throw Error(ExitCode::kBadInput, where_ + ": '" + key + "' has no values");
    }
    return values;
  }
  const nlohmann::json* child(const char* key) {
    taken_.insert(key);
    return object_.contains(key) ? &object_.at(key) : nullptr;
  }
  void refuse_the_rest() const {
    for (const auto& [key, value] : object_.items()) {
      if (taken_.count(key) == 0) {
        throw Error(ExitCode::kBadInput, where_ + ": unknown key '" + key + "'");
      }
    }
  }
  const std::string& where() const { return where_; }

 private:
  template <class T>
  T convert(const nlohmann::json& found, const char* key) const {
    const bool fits = std::is_same_v<T, std::string>
                          ? found.is_string()
                          : (std::is_integral_v<T> ? found.is_number_integer() : found.is_number());
    if (!fits) {
      throw Error(ExitCode::kBadInput, where_ + ": '" + key + "' has a value of the wrong type");
    }
    return found.get<T>();
  }

  const nlohmann::json& object_;
  std::string where_;
  std::set<std::string> taken_;
};

// Geometries that exist, and the pair at hand. A layer's attention has no draft: by a name that
// says one, its points would have two names.
inline void require_targets(const std::string& where, WorkloadKind workload,
                            const std::vector<std::string>& models) {
  const bool batch = workload == WorkloadKind::kBatch;
  const bool step =
      workload == WorkloadKind::kStep || workload == WorkloadKind::kRectifiedStep || batch;
  if (!step && workload != WorkloadKind::kAttention && workload != WorkloadKind::kDecode &&
      workload != WorkloadKind::kRectify) {
    return;
  }
  for (const std::string& model : models) {
    if (model == kPairModel) {
      if (batch) {
        throw Error(ExitCode::kBadInput,
                    where + ": steps of many requests are measured of geometries, not of the pair");
      }
      continue;
    }
    try {
      named_llm_shape(model);
    } catch (const Error& error) {
      throw Error(ExitCode::kBadInput, where + ": " + error.what());
    }
    if (step) {
      continue;
    }
    const std::string target = target_name(model);
    if (target != model) {
      throw Error(ExitCode::kBadInput, where + ": the workload " + name_of(workload) +
                                           " has no draft: write '" + target + "', not '" + model +
                                           "'");
    }
  }
}

inline void require_shares(const std::string& where, const std::vector<double>& overlaps) {
  for (const double overlap : overlaps) {
    if (!(overlap >= 0.0 && overlap <= 1.0)) {
      throw Error(ExitCode::kBadInput, where + ": 'overlap' must lie within 0 and 1");
    }
  }
}

inline void require_temperatures(const std::string& where,
                                 const std::vector<double>& temperatures) {
  for (const double temperature : temperatures) {
    if (!(temperature >= 0.0 && temperature <= kMostTemperature)) {
      throw Error(ExitCode::kBadInput,
                  where + formatted(": 'temperature' must lie within 0 and %g", kMostTemperature));
    }
  }
}

// Of steps and layers: geometries have synthetic weights and no text, the pair has its own.
inline bool is_of_pair(const std::vector<std::string>& models, const std::string& where) {
  const bool any = std::find(models.begin(), models.end(), kPairModel) != models.end();
  if (any && models.size() > 1) {
    throw Error(ExitCode::kBadInput,
                where + ": a grid is of geometries or of the pair, not of both");
  }
  return any;
}

// A point that is not there yet goes to the plan's end.
inline void add_point(const PointKey& key, SweepPlan& plan) {
  if (std::find(plan.points.begin(), plan.points.end(), key) == plan.points.end()) {
    plan.points.push_back(key);
  }
}

inline void require_known(const Fields& fields, const char* key,
                          const std::vector<std::string>& values,
                          std::initializer_list<const char*> known) {
  for (const std::string& value : values) {
    if (std::find(known.begin(), known.end(), value) == known.end()) {
      throw Error(ExitCode::kBadInput,
                  fields.where() + ": '" + key + "' cannot be '" + value + "'");
    }
  }
}

}  // namespace versieve::engine
