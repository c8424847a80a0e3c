#include "gui/models/scope_json.h"

#include <QJsonArray>

namespace versieve::gui {

QJsonObject scope_json(const PlanScope& scope) {
  QJsonArray schedules;
  for (const std::string& schedule : scope.schedules) {
    schedules << QString::fromStdString(schedule);
  }
  QJsonObject systems;
  for (const engine::SystemOption& option : engine::system_options()) {
    if (const std::optional<std::string>& given = scope.systems.*option.given) {
      systems[option.flag] = QString::fromStdString(*given);
    }
  }
  QJsonObject out{{"buckets", QString::fromStdString(scope.buckets)},
                  {"baseline", QString::fromStdString(scope.baseline)},
                  {"schedules", schedules},
                  {"systems", systems},
                  {"temperature", scope.temperature},
                  {"concurrency", QString::fromStdString(scope.concurrency)}};
  if (scope.requests) {
    out["requests"] = static_cast<qint64>(*scope.requests);
  }
  if (scope.itl_ms) {
    out["itl_ms"] = *scope.itl_ms;
  }
  if (scope.ttft_ms) {
    out["ttft_ms"] = *scope.ttft_ms;
  }
  if (!scope.prefill.empty()) {
    out["prefill"] = QString::fromStdString(scope.prefill);
  }
  if (scope.objective != Objective::kTokens) {
    out["objective"] = name_of(scope.objective);
  }
  return out;
}

PlanScope scope_of(const QJsonValue& json) {
  PlanScope scope;
  scope.buckets = json["buckets"].toString().toStdString();
  scope.baseline = json["baseline"].toString().toStdString();
  for (const QJsonValue& schedule : json["schedules"].toArray()) {
    scope.schedules.push_back(schedule.toString().toStdString());
  }
  for (const engine::SystemOption& option : engine::system_options()) {
    if (const QJsonValue given = json["systems"][QString(option.flag)]; given.isString()) {
      scope.systems.*option.given = given.toString().toStdString();
    }
  }
  scope.temperature = json["temperature"].toDouble();
  scope.concurrency = json["concurrency"].toString().toStdString();
  if (const QJsonValue requests = json["requests"]; requests.isDouble()) {
    scope.requests = requests.toInteger();
  }
  if (const QJsonValue bound = json["itl_ms"]; bound.isDouble()) {
    scope.itl_ms = bound.toDouble();
  }
  if (const QJsonValue bound = json["ttft_ms"]; bound.isDouble()) {
    scope.ttft_ms = bound.toDouble();
  }
  scope.prefill = json["prefill"].toString().toStdString();
  scope.objective = json["objective"].toString() == QLatin1String(name_of(Objective::kEnergy))
                        ? Objective::kEnergy
                        : Objective::kTokens;
  return scope;
}

}  // namespace versieve::gui
