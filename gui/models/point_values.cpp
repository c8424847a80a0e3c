#include "gui/models/point_values.h"

#include <future>

#include "gui/models/point_column.h"
#include "gui/models/snapshot.h"

namespace versieve::gui {
namespace {

// Of a column whose value follows from one word: each word's, found once.
std::vector<double> values_of_words(const Snapshot& snapshot, const PointColumn& column) {
  std::vector<double> values;
  if (column.word != nullptr) {
    db::PointOverview point;
    for (std::size_t word = 0; word < snapshot.words.size(); ++word) {
      point.*column.word = static_cast<std::int32_t>(word);
      values.push_back(column.value(snapshot, point));
    }
  }
  return values;
}

void note_text(std::vector<QString>& texts, double value, const PointColumn& column,
               const Snapshot& snapshot, const db::PointOverview& point) {
  const std::size_t place = static_cast<std::size_t>(value);
  if (place >= texts.size()) {
    texts.resize(place + 1);
  }
  if (texts[place].isNull()) {
    const QString text = column.text(snapshot, point);
    texts[place] = text.isNull() ? QString("") : text;
  }
}

}  // namespace

PointValues::PointValues(const Snapshot& snapshot) {
  const std::span<const PointColumn> columns = point_columns();
  const std::vector<db::PointOverview>& points = snapshot.overview.points;
  std::vector<std::vector<double>> of_words;
  for (const PointColumn& column : columns) {
    of_words.push_back(values_of_words(snapshot, column));
    columns_.emplace_back(points.size());
    texts_.emplace_back();
  }
  const auto fill = [&](std::size_t first, std::size_t end) {
    for (std::size_t at = 0; at < points.size(); ++at) {
      const db::PointOverview& point = points[at];
      for (std::size_t c = first; c < end; ++c) {
        const PointColumn& column = columns[c];
        const double value = column.word != nullptr
                                 ? of_words[c][static_cast<std::size_t>(point.*column.word)]
                                 : column.value(snapshot, point);
        columns_[c][at] = value;
        if (column.kind == ColumnKind::kText) {
          note_text(texts_[c], value, column, snapshot, point);
        }
      }
    }
  };
  constexpr std::size_t kByOne = 50'000;  // points that one thread reads in a moment
  if (points.size() <= kByOne) {
    fill(0, columns.size());
    return;
  }
  std::future<void> rest = std::async(std::launch::async, fill, columns.size() / 2, columns.size());
  fill(0, columns.size() / 2);
  rest.get();
}

}  // namespace versieve::gui
