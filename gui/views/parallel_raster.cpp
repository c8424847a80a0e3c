#include "gui/views/parallel_raster.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <future>

namespace versieve::gui {
namespace {

constexpr int kShift = 16 - kBinBits;

// Lines of one column as steps down its height: where one begins and where it ends.
struct Lines {
  std::vector<float> from, slope, half;  // pixels, from above
  std::vector<std::int32_t> weight;
};

Lines lines_of(const std::vector<Bundle>& bundles, float band, int width, int height) {
  Lines lines;
  const float scale = static_cast<float>(height);
  for (const Bundle& bundle : bundles) {
    const float slope = (bundle.from - bundle.to) * scale / static_cast<float>(width);
    lines.from.push_back((1.0F - bundle.from) * scale);
    lines.slope.push_back(slope);
    lines.half.push_back((band + std::fabs(slope)) / 2.0F);
    lines.weight.push_back(bundle.weight);
  }
  return lines;
}

// Onto the densities of one column, from above. steps: height + 1 zeros, and so again after it.
void add_column(const Lines& lines, float x, std::vector<std::int32_t>& steps,
                std::int32_t* density) {
  const float last = static_cast<float>(steps.size() - 1);
  for (std::size_t line = 0; line < lines.from.size(); ++line) {
    const float middle = lines.from[line] + lines.slope[line] * x;
    const float begin = std::min(std::max(middle - lines.half[line], 0.0F), last - 1.0F);
    const float end = std::min(std::max(middle + lines.half[line], begin + 1.0F), last);
    steps[static_cast<std::uint32_t>(static_cast<std::int32_t>(begin))] += lines.weight[line];
    steps[static_cast<std::uint32_t>(static_cast<std::int32_t>(end))] -= lines.weight[line];
  }
  std::int32_t sum = 0;
  for (std::size_t row = 0; row + 1 < steps.size(); ++row) {
    sum += steps[row];
    density[row] += sum;
    steps[row] = 0;
  }
  steps.back() = 0;
}

// Tone of a density by the leading bits of one more than it: floats of an octave share an exponent,
// so that a table of some thousand logarithms serves every pixel.
class Tones {
 public:
  Tones(float most, const QColor& color) {
    constexpr float kWeakest = 0.25F;
    const float per_log = 1.0F / std::log1p(most);
    tones_.resize(place_of(most) + 1);
    for (std::size_t place = 0; place < tones_.size(); ++place) {
      const std::uint32_t bits = kOne + (static_cast<std::uint32_t>(place) << kDropped);
      const float strength =
          kWeakest +
          (1.0F - kWeakest) * std::min(1.0F, per_log * std::log(std::bit_cast<float>(bits)));
      tones_[place] =
          qPremultiply(qRgba(color.red(), color.green(), color.blue(),
                             static_cast<int>(strength * static_cast<float>(color.alpha()))));
    }
  }
  QRgb at(float density) const { return tones_[place_of(density)]; }

 private:
  static constexpr std::uint32_t kOne = std::bit_cast<std::uint32_t>(1.0F);
  static constexpr int kDropped = 15;  // 256 places an octave

  static std::size_t place_of(float density) {
    return (std::bit_cast<std::uint32_t>(1.0F + density) - kOne) >> kDropped;
  }

  std::vector<QRgb> tones_;
};

}  // namespace

PairCounts::PairCounts(std::size_t axis_count)
    : counts_(axis_count > 0 ? axis_count - 1 : 0,
              std::vector<std::int32_t>(static_cast<std::size_t>(kBins) * kBins, 0)) {}

void PairCounts::follow(const AxisPlaces& places, const std::vector<std::uint8_t>& mask) {
  mask_.resize(mask.size(), 0);
  std::vector<std::int32_t> changed(mask.size());
  std::size_t count = 0;
  for (std::size_t at = 0; at < mask.size(); ++at) {
    changed[count] = static_cast<std::int32_t>(at);
    count += mask[at] ^ mask_[at];
  }
  changed.resize(count);
  const auto count_gaps = [&](std::size_t first) {
    for (std::size_t axis = first; axis + 1 < places.size(); axis += 2) {
      const std::vector<std::uint16_t>& from = places[axis];
      const std::vector<std::uint16_t>& to = places[axis + 1];
      std::vector<std::int32_t>& counts = counts_[axis];
      for (const std::int32_t point : changed) {
        const std::size_t at = static_cast<std::size_t>(point);
        const std::size_t pair = static_cast<std::size_t>(from[at] >> kShift) * kBins +
                                 static_cast<std::size_t>(to[at] >> kShift);
        counts[pair] += mask[at] != 0 ? 1 : -1;
      }
    }
  };
  constexpr std::size_t kByOne = 50'000;  // points that one thread counts in a moment
  if (changed.size() <= kByOne) {
    count_gaps(0);
    count_gaps(1);
  } else {
    std::future<void> odd = std::async(std::launch::async, count_gaps, 1);
    count_gaps(0);
    odd.get();
  }
  mask_ = mask;
}

std::vector<Bundle> changed_bundles(std::span<const std::int32_t> before,
                                    std::span<const std::int32_t> after) {
  std::vector<Bundle> bundles;
  for (std::size_t pair = 0; pair < after.size(); ++pair) {
    const std::int32_t change = after[pair] - (before.empty() ? 0 : before[pair]);
    if (change != 0) {
      const float from = static_cast<float>(pair / kBins) + 0.5F;
      const float to = static_cast<float>(pair % kBins) + 0.5F;
      bundles.push_back({from / kBins, to / kBins, change});
    }
  }
  return bundles;
}

LineDensity::LineDensity(std::size_t gap_count, float thickness, const QSize& size)
    : gap_count_(static_cast<int>(gap_count)),
      every_(thickness > 0.0F ? 2 : 1),
      band_(std::max(1.0F, thickness * static_cast<float>(size.height()))),
      size_(size.expandedTo({1, 1})),
      density_(static_cast<std::size_t>(size_.width()) * static_cast<std::size_t>(size_.height()),
               0) {}

// Two threads share the gaps: each writes columns of its own.
void LineDensity::add(const std::vector<std::vector<Bundle>>& gaps) {
  const std::size_t height = static_cast<std::size_t>(size_.height());
  const auto draw = [&](int first) {
    std::vector<std::int32_t> steps(height + 1, 0);
    for (int gap = first; gap < gap_count_; gap += 2) {
      const int left = left_of(gap), right = left_of(gap + 1);
      const std::vector<Bundle>& bundles = gaps[static_cast<std::size_t>(gap)];
      const Lines lines = lines_of(bundles, band_, right - left, size_.height());
      for (int x = left; x < right && !bundles.empty(); x += every_) {
        add_column(lines, static_cast<float>(x - left) + 0.5F * static_cast<float>(every_), steps,
                   &density_[static_cast<std::size_t>(x) * height]);
      }
    }
  };
  std::future<void> odd = std::async(std::launch::async, draw, 1);
  draw(0);
  odd.get();
}

// The column that holds the densities of each.
std::vector<std::size_t> LineDensity::drawn_columns() const {
  std::vector<std::size_t> columns;
  for (int gap = 0; gap < gap_count_; ++gap) {
    for (int x = left_of(gap); x < left_of(gap + 1); ++x) {
      columns.push_back(static_cast<std::size_t>(x - (x - left_of(gap)) % every_));
    }
  }
  return columns;
}

// A block of columns at a time, so that neighbouring pixels are written together.
QImage LineDensity::toned(const QColor& color) const {
  const float most = static_cast<float>(*std::max_element(density_.begin(), density_.end()));
  const Tones tones(std::max(1.0F, most / band_), color);
  QImage image(size_, QImage::Format_ARGB32_Premultiplied);
  QRgb* const pixels = reinterpret_cast<QRgb*>(image.bits());
  const std::size_t stride = static_cast<std::size_t>(image.bytesPerLine()) / sizeof(QRgb);
  const std::size_t height = static_cast<std::size_t>(size_.height());
  const std::vector<std::size_t> columns = drawn_columns();
  const float per_line = 1.0F / band_;
  const auto tone = [&](std::size_t first, std::size_t last) {
    constexpr std::size_t kBlock = 16;
    for (std::size_t block = first; block < last; block += kBlock) {
      const std::size_t end = std::min(last, block + kBlock);
      for (std::size_t y = 0; y < height; ++y) {
        for (std::size_t x = block; x < end; ++x) {
          const std::int32_t lines = density_[columns[x] * height + y];
          pixels[y * stride + x] =
              lines > 0 ? tones.at(static_cast<float>(lines) * per_line) : qRgba(0, 0, 0, 0);
        }
      }
    }
  };
  std::future<void> right =
      std::async(std::launch::async, tone, columns.size() / 2, columns.size());
  tone(0, columns.size() / 2);
  right.get();
  return image;
}

}  // namespace versieve::gui
