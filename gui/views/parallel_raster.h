// Lines between neighbouring axes as one picture, whatever their number. Points are counted by the
// pair of bins that they pass from one axis to the next; each pair is drawn once, as a band. Counts
// follow a change of what is shown by its difference, so that a drag costs what it changes.
#pragma once

#include <QColor>
#include <QImage>
#include <QSize>
#include <cstdint>
#include <span>
#include <vector>

namespace versieve::gui {

inline constexpr int kBinBits = 7;
inline constexpr int kBins = 1 << kBinBits;

// [axis][point]: where it lies on the axis, 0 at the low end, 65535 at the high one.
using AxisPlaces = std::vector<std::vector<std::uint16_t>>;

class PairCounts {
 public:
  PairCounts() = default;
  explicit PairCounts(std::size_t axis_count);

  // Counts what the mask newly shows and leaves out what it no longer does.
  void follow(const AxisPlaces& places, const std::vector<std::uint8_t>& mask);
  // [from * kBins + to] between the axis of this number and the next.
  std::span<const std::int32_t> between(std::size_t axis) const { return counts_[axis]; }
  std::size_t axisCount() const { return counts_.empty() ? 0 : counts_.size() + 1; }

 private:
  std::vector<std::vector<std::int32_t>> counts_;
  std::vector<std::uint8_t> mask_;  // that is counted
};

// What is drawn between two axes, in parts of the height: lines from a to b, so many at once.
struct Bundle {
  float from = 0.0F, to = 0.0F;  // 0 at the low end, 1 at the high one
  std::int32_t weight = 1;       // below 0: lines that go
};
// The bands between bins whose counts differ, by how much; `before` empty: there were none.
std::vector<Bundle> changed_bundles(std::span<const std::int32_t> before,
                                    std::span<const std::int32_t> after);

// How many lines pass each pixel of the gaps between neighbouring axes, as whole numbers, so that
// what goes leaves nothing behind.
class LineDensity {
 public:
  // thickness: of a line, of the height; 0: a pixel. A band is as wide as its bin is high, so that
  // every other column of pixels is enough.
  LineDensity(std::size_t gap_count, float thickness, const QSize& size);

  void add(const std::vector<std::vector<Bundle>>& gaps);  // [gap]
  // The colour's alpha is that of the densest place.
  QImage toned(const QColor& color) const;

 private:
  int left_of(int gap) const { return size_.width() * gap / gap_count_; }
  std::vector<std::size_t> drawn_columns() const;

  int gap_count_;
  int every_;   // of so many columns one is drawn
  float band_;  // pixels
  QSize size_;
  std::vector<std::int32_t> density_;  // [column, row from above]
};

}  // namespace versieve::gui
