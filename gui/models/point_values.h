// The values of all points, column after column: what filters, axes and histograms run through.
// Points themselves lie row by row, two hundred bytes apart.
#pragma once

#include <QString>
#include <cstdint>
#include <span>
#include <vector>

namespace versieve::gui {

struct Snapshot;

class PointValues {
 public:
  PointValues() = default;
  // Of its overview. REQUIRES: words and their order are there.
  explicit PointValues(const Snapshot& snapshot);

  // As PointColumn::value: NaN where absent, of a text its place. [point]
  std::span<const double> column(int index) const {
    return columns_[static_cast<std::size_t>(index)];
  }
  // Of a text column by place; null where no point has it.
  const std::vector<QString>& texts(int column) const {
    return texts_[static_cast<std::size_t>(column)];
  }

 private:
  std::vector<std::vector<double>> columns_;
  std::vector<std::vector<QString>> texts_;
};

}  // namespace versieve::gui
