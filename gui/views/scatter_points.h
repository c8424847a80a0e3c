// What a scatter plot draws of its columns: made by a worker where there are many points.
#pragma once

#include <QStringList>
#include <memory>
#include <vector>

#include "gui/models/snapshot.h"

namespace versieve::gui {

struct ScatterPoints {
  SnapshotPtr snapshot;                 // that they are of
  std::vector<float> x, y;              // [point], as the axes are even; NaN: cannot be drawn
  std::vector<std::uint8_t> category;   // [point]
  std::vector<std::uint8_t> is_hollow;  // [point]: simulated or imported
  QStringList categories;               // those beyond the colours share the last, "others"
};

struct ScatterColumns {
  int x = 0, y = 0, color = 0;  // of point_columns()
  bool x_is_log = true, y_is_log = true;

  bool operator==(const ScatterColumns&) const = default;
};

std::shared_ptr<const ScatterPoints> scatter_points(const SnapshotPtr& snapshot,
                                                    const ScatterColumns& columns);

}  // namespace versieve::gui
