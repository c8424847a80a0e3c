// The axes of parallel coordinates: a column each, numbers on a scale of their own, texts in slots;
// where each point lies on them.
#pragma once

#include <QStringList>
#include <vector>

#include "gui/models/point_filter.h"
#include "gui/models/snapshot.h"
#include "gui/views/axis.h"
#include "gui/views/parallel_raster.h"

namespace versieve::gui {

class ParallelAxis {
 public:
  // Logarithmic where it counts tokens or spans more than a decade above zero.
  ParallelAxis(const Snapshot& snapshot, int column);

  int column() const { return column_; }
  bool isText() const { return is_text_; }
  // Of texts that some point has, from below.
  const QStringList& names() const { return names_; }
  // Of the ticks: 0 at the low end, 1 at the high one.
  struct Mark {
    double place;
    QString text;
  };
  std::vector<Mark> marks(int wanted) const;
  // Texts are spread over their slot, so that lines do not hide one another.
  std::vector<std::uint16_t> placesOf(const Snapshot& snapshot) const;
  // What the filter leaves of it, in places; {0, 1}: all.
  struct Brush {
    double low = 0.0, high = 1.0;
    bool isAll() const { return low <= 0.0 && high >= 1.0; }
  };
  std::vector<Brush> brushesOf(const Snapshot& snapshot, const PointFilter& filter) const;
  // The filter with what lies between two places of it alone.
  QString brushed(const QString& filter, const Brush& brush) const;

 private:
  double numberAt(double place) const;
  double placeOfNumber(double value) const;

  int column_;
  bool is_text_;
  bool has_absent_ = false;
  Axis scale_;
  QStringList names_;
  std::vector<int> slots_;  // [place of the text] = slot, or -1
};

// Up to eight columns that tell the points apart, what is varied before what was measured.
std::vector<int> telling_columns(const Snapshot& snapshot);
// Whether some two points differ in it.
bool tells_apart(const Snapshot& snapshot, int column);

// What a worker makes of the columns that were chosen.
struct ParallelScene {
  SnapshotPtr snapshot;
  std::vector<ParallelAxis> axes;
  AxisPlaces places;  // [axis][point]
  PairCounts all;     // of all points
};
std::shared_ptr<ParallelScene> parallel_scene(const SnapshotPtr& snapshot,
                                              const std::vector<int>& columns);

}  // namespace versieve::gui
