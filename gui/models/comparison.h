// A point beside the baseline that was chosen: how its figures compare, and in what the two differ.
#pragma once

#include <QString>

#include "gui/models/snapshot.h"

namespace versieve::gui {

// Median times, the point's over the baseline's; NaN if one is absent.
double time_ratio(const db::PointOverview& point, const db::PointOverview& baseline);
// Whether the medians' 95 % intervals overlap, so that nothing can be said of which is less.
bool times_overlap(const db::PointOverview& point, const db::PointOverview& baseline);
// "0.87", "≈ 1.01" where the times overlap, a dash where there is none.
QString time_ratio_text(const db::PointOverview& point, const db::PointOverview& baseline);
// Indices into the overview's points.
QString comparison_html(const Snapshot& snapshot, int point, int baseline);

}  // namespace versieve::gui
