// Lines between neighbouring axes as one picture, whatever their number. Points are counted by the
// pair of bins that they pass from one axis to the next; each pair is drawn once, as a band. Counts
// follow a change of what is shown by its difference, so that a drag costs what it changes.
#pragma once

#include <QColor>
#include <QImage>
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
  float weight = 1.0F;
};
std::vector<Bundle> bundles_of(std::span<const std::int32_t> pair_counts);

// One picture of the width of all gaps together. [gap] = bundles; thickness: of a bundle, of the
// height. The colour's alpha is that of the densest place.
QImage draw_bundles(const std::vector<std::vector<Bundle>>& gaps, float thickness,
                    const QSize& size, const QColor& color);

}  // namespace versieve::gui
