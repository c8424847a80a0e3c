// One point and one run as readable text (HTML for a QTextBrowser), with nothing left out.
#pragma once

#include <QString>

#include "db/store.h"
#include "model/words/measurement.h"

namespace versieve::gui {

// `compared` (comparison.h) stands above what is said of the launches.
QString point_html(const PointMeasurement& point, const db::PointOverview& overview,
                   const QString& compared = {});
QString run_html(const db::StoredRun& run, const std::vector<db::Diagnostic>& diagnostics);

}  // namespace versieve::gui
