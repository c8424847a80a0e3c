#include "gui/views/parallel_axes.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "gui/models/filter_terms.h"
#include "gui/models/numbers.h"
#include "gui/models/point_column.h"

namespace versieve::gui {
namespace {

constexpr double kAbsentShare = 0.07;  // of the height below the scale, where some value is absent
constexpr double kAbsentPlace = 0.015;
constexpr double kTop = 65535.0;
constexpr double kSlotUsed = 0.55;  // of a slot's height
constexpr double kDecade = 10.0;

const PointColumn& column_at(int column) {
  return point_columns()[static_cast<std::size_t>(column)];
}

// Of a point within its slot, from -0.5 to 0.5, the same each time. Few steps: few pairs of bins.
double spread(std::size_t point) {
  constexpr std::uint32_t kSteps = 16;
  const std::uint32_t mixed = static_cast<std::uint32_t>(point) * 2654435761U;
  return static_cast<double>((mixed >> 16) % kSteps) / (kSteps - 1) - 0.5;
}

}  // namespace

ParallelAxis::ParallelAxis(const Snapshot& snapshot, int column)
    : column_(column), is_text_(column_at(column).kind == ColumnKind::kText) {
  const std::span<const double> values = snapshot.values.column(column);
  if (is_text_) {
    for (const QString& text : snapshot.values.texts(column)) {
      slots_.push_back(text.isNull() ? -1 : static_cast<int>(names_.size()));
      if (!text.isNull()) {
        names_ << text;
      }
    }
    return;
  }
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const double value : values) {
    has_absent_ = has_absent_ || std::isnan(value);
    low = value < low ? value : low;
    high = value > high ? value : high;
  }
  const bool counts = column_at(column).counts_tokens;
  const bool is_log = low > 0.0 && (counts || high > kDecade * low);
  const auto scaled = [is_log](double value) { return is_log ? std::log10(value) : value; };
  scale_ = Axis::between(scaled(low), scaled(high), is_log, counts);
}

double ParallelAxis::placeOfNumber(double value) const {
  const double floor = has_absent_ ? kAbsentShare : 0.0;
  return std::isnan(value) ? kAbsentPlace : floor + (1.0 - floor) * scale_.place(value);
}

double ParallelAxis::numberAt(double place) const {
  const double floor = has_absent_ ? kAbsentShare : 0.0;
  return scale_.value_at((place - floor) / (1.0 - floor));
}

std::vector<ParallelAxis::Mark> ParallelAxis::marks(int wanted) const {
  std::vector<Mark> marks;
  if (is_text_) {
    const int count = static_cast<int>(names_.size());
    const int every = std::max(1, (count + wanted - 1) / std::max(wanted, 1));
    for (int slot = 0; slot < count; slot += every) {
      const QString& name = names_[slot];
      marks.push_back({(slot + 0.5) / count, name.isEmpty() ? QObject::tr("none") : name});
    }
    return marks;
  }
  for (const Tick& tick : scale_.ticks(wanted)) {
    marks.push_back({placeOfNumber(tick.value), tick.text});
  }
  if (has_absent_) {
    marks.push_back({kAbsentPlace, QString(QChar(kAbsent))});
  }
  return marks;
}

std::vector<std::uint16_t> ParallelAxis::placesOf(const Snapshot& snapshot) const {
  const std::span<const double> values = snapshot.values.column(column_);
  std::vector<std::uint16_t> places(values.size());
  const double slot_count = std::max(1.0, static_cast<double>(names_.size()));
  for (std::size_t at = 0; at < values.size(); ++at) {
    const double place =
        is_text_ ? (slots_[static_cast<std::size_t>(values[at])] + 0.5 + kSlotUsed * spread(at)) /
                       slot_count
                 : placeOfNumber(values[at]);
    places[at] = static_cast<std::uint16_t>(std::clamp(place, 0.0, 1.0) * kTop);
  }
  return places;
}

std::vector<ParallelAxis::Brush> ParallelAxis::brushesOf(const Snapshot& snapshot,
                                                         const PointFilter& filter) const {
  std::vector<Brush> brushes;
  if (!is_text_) {
    const PointFilter::Bounds bounds = filter.boundsOf(column_);
    const bool is_bound = std::isfinite(bounds.low) || std::isfinite(bounds.high);
    Brush brush{is_bound && has_absent_ ? kAbsentShare : 0.0, 1.0};  // what is absent is outside
    if (std::isfinite(bounds.low)) {
      brush.low = scale_.holds(bounds.low) ? placeOfNumber(bounds.low) : 0.0;
    }
    if (std::isfinite(bounds.high)) {
      brush.high = scale_.holds(bounds.high) ? placeOfNumber(bounds.high) : 0.0;
    }
    brush.low = std::clamp(brush.low, 0.0, 1.0);
    brush.high = std::clamp(brush.high, 0.0, 1.0);
    if (!brush.isAll()) {
      brushes.push_back(brush);
    }
    return brushes;
  }
  const PointFilter::Mask kept = filter.placesKept(snapshot, column_);
  const double count = static_cast<double>(names_.size());
  bool all = true;
  for (std::size_t place = 0; place < kept.size(); ++place) {
    const int slot = slots_[place];
    if (slot < 0) {
      continue;
    }
    if (kept[place] == 0) {
      all = false;
    } else if (!brushes.empty() && brushes.back().high >= slot / count - 1e-9) {
      brushes.back().high = (slot + 1) / count;
    } else {
      brushes.push_back({slot / count, (slot + 1) / count});
    }
  }
  return all ? std::vector<Brush>() : brushes;
}

QString ParallelAxis::brushed(const QString& filter, const Brush& brush) const {
  const QString key = column_at(column_).key;
  if (!is_text_) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    return with_range(filter, key,
                      brush.low > (has_absent_ && brush.high < 1.0 ? kAbsentShare : 0.0)
                          ? numberAt(brush.low)
                          : -kInfinity,
                      brush.high < 1.0 ? numberAt(brush.high) : kInfinity);
  }
  const int count = static_cast<int>(names_.size());
  QStringList kept;
  for (int slot = 0; slot < count; ++slot) {
    const double middle = (slot + 0.5) / count;
    const bool pointed_at = brush.low * count >= slot && brush.high * count <= slot + 1;
    if ((middle >= brush.low && middle <= brush.high) || pointed_at) {
      kept << names_[slot];
    }
  }
  return with_texts(filter, key, kept, names_);
}

bool tells_apart(const Snapshot& snapshot, int column) {
  const std::span<const double> values = snapshot.values.column(column);
  for (const double value : values) {
    const bool same = value == values[0] || (std::isnan(value) && std::isnan(values[0]));
    if (!same) {
      return true;
    }
  }
  return false;
}

std::vector<int> telling_columns(const Snapshot& snapshot) {
  constexpr std::size_t kMost = 8;
  std::vector<int> columns;
  for (const char* key :
       {"workload", "system", "L", "N", "rho", "time", "dram", "ratio", "accepted", "model",
        "regime", "source", "cache", "launch", "spread", "run"}) {
    const int column = column_index(key);
    if (columns.size() < kMost && tells_apart(snapshot, column)) {
      columns.push_back(column);
    }
  }
  return columns;
}

std::shared_ptr<ParallelScene> parallel_scene(const SnapshotPtr& snapshot,
                                              const std::vector<int>& columns) {
  const std::shared_ptr<ParallelScene> scene = std::make_shared<ParallelScene>();
  scene->snapshot = snapshot;
  for (const int column : columns) {
    scene->axes.emplace_back(*snapshot, column);
    scene->places.push_back(scene->axes.back().placesOf(*snapshot));
  }
  scene->all = PairCounts(columns.size());
  scene->all.follow(scene->places, std::vector<std::uint8_t>(snapshot->overview.points.size(), 1));
  return scene;
}

}  // namespace versieve::gui
