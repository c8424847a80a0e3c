// What a table of points shows in a cell and over a column, for every table of them.
#pragma once

#include <QVariant>

#include "gui/models/point_column.h"

namespace versieve::gui {

const PointColumn& point_column(int column);
QVariant point_cell(const Snapshot& snapshot, int point, int column, int role);
// The sign stands behind the title, as of the column that is sorted by.
QVariant point_header(int column, int role, const QString& sign = {});

}  // namespace versieve::gui
