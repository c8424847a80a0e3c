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
  std::vector<float> from, slope, half, weight;  // pixels, from above; weight of a pixel
};

Lines lines_of(const std::vector<Bundle>& bundles, float thickness, int width, int height) {
  Lines lines;
  const float scale = static_cast<float>(height);
  const float band = std::max(1.0F, thickness * scale);
  for (const Bundle& bundle : bundles) {
    const float slope = (bundle.from - bundle.to) * scale / static_cast<float>(width);
    lines.from.push_back((1.0F - bundle.from) * scale);
    lines.slope.push_back(slope);
    lines.half.push_back((band + std::fabs(slope)) / 2.0F);
    lines.weight.push_back(bundle.weight / band);
  }
  return lines;
}

// Densities of one column, from above. steps: height + 1 zeros, and so again after it.
void add_column(const Lines& lines, float x, std::vector<float>& steps, float* density) {
  const float last = static_cast<float>(steps.size() - 1);
  for (std::size_t line = 0; line < lines.from.size(); ++line) {
    const float middle = lines.from[line] + lines.slope[line] * x;
    const float begin = std::min(std::max(middle - lines.half[line], 0.0F), last - 1.0F);
    const float end = std::min(std::max(middle + lines.half[line], begin + 1.0F), last);
    steps[static_cast<std::uint32_t>(static_cast<std::int32_t>(begin))] += lines.weight[line];
    steps[static_cast<std::uint32_t>(static_cast<std::int32_t>(end))] -= lines.weight[line];
  }
  float sum = 0.0F;
  for (std::size_t row = 0; row + 1 < steps.size(); ++row) {
    sum += steps[row];
    density[row] = sum;
    steps[row] = 0.0F;
  }
  steps.back() = 0.0F;
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

QImage toned(const std::vector<float>& density, const QSize& size, const QColor& color) {
  constexpr float kLeast = 0.02F;  // below: what rounding left
  const Tones tones(std::max(1.0F, *std::max_element(density.begin(), density.end())), color);
  QImage image(size, QImage::Format_ARGB32_Premultiplied);
  image.fill(Qt::transparent);
  QRgb* const pixels = reinterpret_cast<QRgb*>(image.bits());
  const std::size_t stride = static_cast<std::size_t>(image.bytesPerLine()) / sizeof(QRgb);
  const std::size_t height = static_cast<std::size_t>(size.height());
  const std::size_t width = static_cast<std::size_t>(size.width());
  for (std::size_t x = 0; x < width; ++x) {
    const float* const column = &density[x * height];
    for (std::size_t y = 0; y < height; ++y) {
      if (column[y] > kLeast) {
        pixels[y * stride + x] = tones.at(column[y]);
      }
    }
  }
  return image;
}

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

std::vector<Bundle> bundles_of(std::span<const std::int32_t> pair_counts) {
  std::vector<Bundle> bundles;
  for (std::size_t pair = 0; pair < pair_counts.size(); ++pair) {
    if (pair_counts[pair] > 0) {
      const float from = static_cast<float>(pair / kBins) + 0.5F;
      const float to = static_cast<float>(pair % kBins) + 0.5F;
      bundles.push_back({from / kBins, to / kBins, static_cast<float>(pair_counts[pair])});
    }
  }
  return bundles;
}

// Two threads share the gaps: each writes columns of its own. A bundle is as wide as its bin is
// high, so that every other column is enough.
QImage draw_bundles(const std::vector<std::vector<Bundle>>& gaps, float thickness,
                    const QSize& size, const QColor& color) {
  const std::size_t height = static_cast<std::size_t>(size.height());
  std::vector<float> density(static_cast<std::size_t>(size.width()) * height, 0.0F);
  const int gap_count = static_cast<int>(gaps.size());
  const int every = thickness > 0.0F ? 2 : 1;
  const auto draw = [&](int first) {
    std::vector<float> steps(height + 1, 0.0F);
    for (int gap = first; gap < gap_count; gap += 2) {
      const int left = size.width() * gap / gap_count;
      const int right = size.width() * (gap + 1) / gap_count;
      const Lines lines =
          lines_of(gaps[static_cast<std::size_t>(gap)], thickness, right - left, size.height());
      for (int x = left; x < right; x += every) {
        float* const column = &density[static_cast<std::size_t>(x) * height];
        add_column(lines, static_cast<float>(x - left) + 0.5F * static_cast<float>(every), steps,
                   column);
        if (every > 1 && x + 1 < right) {
          std::copy(column, column + height, column + height);
        }
      }
    }
  };
  std::future<void> odd = std::async(std::launch::async, draw, 1);
  draw(0);
  odd.get();
  return toned(density, size, color);
}

}  // namespace versieve::gui
