#include "gui/views/point_density.h"

#include <algorithm>
#include <cmath>

namespace versieve::gui {
namespace {

// [cell][category], the last one of them for what is hidden.
struct Cells {
  std::vector<std::uint32_t> counts;
  std::size_t stride = 0;
};

Cells count_cells(const DensePoints& points, const QRectF& view, const QSize& size) {
  Cells cells;
  cells.stride = points.colors.size() + 1;
  cells.counts.assign(static_cast<std::size_t>(size.width()) *
                          static_cast<std::size_t>(size.height()) * cells.stride,
                      0);
  const float x_scale = static_cast<float>(size.width() / view.width());
  const float y_scale = static_cast<float>(size.height() / view.height());
  const float left = static_cast<float>(view.left());
  const float low = static_cast<float>(view.top());
  const float width = static_cast<float>(size.width());
  const float height = static_cast<float>(size.height());
  const std::size_t hidden = points.colors.size();
  for (std::size_t at = 0; at < points.x.size(); ++at) {
    const float x = (points.x[at] - left) * x_scale;
    const float y = height - (points.y[at] - low) * y_scale;
    if (x >= 0.0F && x < width && y >= 0.0F && y < height) {  // NaN is nowhere
      const std::size_t cell =
          static_cast<std::size_t>(y) * static_cast<std::size_t>(size.width()) +
          static_cast<std::size_t>(x);
      const std::size_t category = points.mask[at] != 0 ? points.category[at] : hidden;
      ++cells.counts[cell * cells.stride + category];
    }
  }
  return cells;
}

QRgb mixed(const std::uint32_t* counts, const std::vector<QColor>& colors, float total,
           float strength) {
  float red = 0.0F, green = 0.0F, blue = 0.0F;
  for (std::size_t category = 0; category < colors.size(); ++category) {
    const float share = static_cast<float>(counts[category]) / total;
    if (share > 0.0F) {
      red += share * static_cast<float>(colors[category].red());
      green += share * static_cast<float>(colors[category].green());
      blue += share * static_cast<float>(colors[category].blue());
    }
  }
  return qPremultiply(qRgba(static_cast<int>(red), static_cast<int>(green), static_cast<int>(blue),
                            static_cast<int>(255.0F * strength)));
}

}  // namespace

DensePicture draw_dense(const DensePoints& points, const QRectF& view, const QSize& size) {
  constexpr float kWeakest = 0.45F;  // of one point in a cell
  const Cells cells = count_cells(points, view, size);
  const std::size_t categories = points.colors.size();
  DensePicture picture{QImage(size, QImage::Format_ARGB32_Premultiplied),
                       std::vector<int>(categories, 0)};
  const std::size_t count = cells.counts.size() / cells.stride;
  std::vector<std::uint32_t> totals(count, 0);
  std::uint32_t most = 1;
  for (std::size_t cell = 0; cell < count; ++cell) {
    for (std::size_t category = 0; category < categories; ++category) {
      const std::uint32_t here = cells.counts[cell * cells.stride + category];
      totals[cell] += here;
      picture.counts[category] += static_cast<int>(here);
    }
    most = std::max(most, totals[cell]);
  }
  const float per_log = most > 1 ? (1.0F - kWeakest) / std::log(static_cast<float>(most)) : 0.0F;
  const QRgb hidden = qPremultiply(points.hidden.rgba());
  QRgb* const pixels = reinterpret_cast<QRgb*>(picture.image.bits());  // rows of four bytes a pixel
  for (std::size_t cell = 0; cell < count; ++cell) {
    const std::uint32_t* counts = &cells.counts[cell * cells.stride];
    const float total = static_cast<float>(totals[cell]);
    pixels[cell] = totals[cell] > 0
                       ? mixed(counts, points.colors, total, kWeakest + per_log * std::log(total))
                   : counts[categories] > 0 ? hidden
                                            : 0U;
  }
  return picture;
}

}  // namespace versieve::gui
