// What a plan goes over as a session keeps it: each text as the command takes it.
#pragma once

#include <QJsonObject>

#include "gui/models/plan.h"

namespace versieve::gui {

QJsonObject scope_json(const PlanScope& scope);
// What is not there, or is of another kind, is as usual.
PlanScope scope_of(const QJsonValue& json);

}  // namespace versieve::gui
