// The command that makes the plan of the knobs: `versieve plan` with their options, which writes
// byte for byte what the app exports.
#pragma once

#include <QString>
#include <vector>

#include "gui/models/plan.h"

namespace versieve::gui {

struct PlanCommand {
  QString line;     // empty: none makes it
  QString missing;  // why, a sentence; empty where there is a line
};

// `classes`: of the export. `prior`: the file of the fit that this plan's begins at; empty: none.
// The table is written to `out`.
PlanCommand plan_command(const Plan& plan, const PlanRequest& request, const QString& database,
                         const QString& prior, const std::vector<PrecisionClass>& classes,
                         const QString& out);

}  // namespace versieve::gui
