#include "gui/views/scatter_points.h"

#include <QObject>
#include <cmath>

#include "gui/models/point_column.h"
#include "gui/views/axis.h"
#include "gui/views/theme.h"

namespace versieve::gui {
namespace {

std::vector<float> scaled(std::span<const double> values, bool is_log) {
  const Axis axis = Axis::between(0.0, 1.0, is_log, false);
  std::vector<float> scaled(values.size());
  for (std::size_t at = 0; at < values.size(); ++at) {
    scaled[at] = static_cast<float>(axis.scaled(values[at]));
  }
  return scaled;
}

// Its index; beyond the colours all share the last.
int add_category(QStringList& categories, const QString& name) {
  if (categories.size() <= theme::kCategoryCount) {
    categories << (categories.size() < theme::kCategoryCount ? name : QObject::tr("others"));
  }
  return static_cast<int>(categories.size()) - 1;
}

}  // namespace

std::shared_ptr<const ScatterPoints> scatter_points(const SnapshotPtr& snapshot,
                                                    const ScatterColumns& columns) {
  const auto points = std::make_shared<ScatterPoints>();
  points->snapshot = snapshot;
  const PointValues& values = snapshot->values;
  points->x = scaled(values.column(columns.x), columns.x_is_log);
  points->y = scaled(values.column(columns.y), columns.y_is_log);
  const std::vector<QString>& texts = values.texts(columns.color);
  std::vector<int> category_at(texts.size(), -1);  // -1: not met yet
  for (const double value : values.column(columns.color)) {
    const std::size_t place = static_cast<std::size_t>(value);
    if (category_at[place] < 0) {
      category_at[place] = add_category(points->categories, texts[place]);
    }
    points->category.push_back(static_cast<std::uint8_t>(category_at[place]));
  }
  for (const double source : values.column(column_index("source"))) {
    points->is_hollow.push_back(source != 0.0 ? 1 : 0);
  }
  return points;
}

}  // namespace versieve::gui
