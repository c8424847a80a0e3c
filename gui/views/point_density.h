// Tens of thousands of points as one picture: a cell of two pixels is the mix of its points'
// colours, the stronger the more there are. Each point costs a few additions.
#pragma once

#include <QImage>
#include <QRectF>
#include <span>
#include <vector>

namespace versieve::gui {

struct DensePoints {
  std::span<const float> x, y;             // [point]; NaN: nowhere
  std::span<const std::uint8_t> mask;      // [point] = 1: shown
  std::span<const std::uint8_t> category;  // [point]
  std::vector<QColor> colors;              // [category]
  QColor hidden;                           // of what is not shown
};

struct DensePicture {
  QImage image;             // a pixel for each cell
  std::vector<int> counts;  // [category] of the shown points within
};

// view: what is seen of x (left to right) and y (top() is the low end), in the points' own units.
// cells: width and height of the picture. Those of the shown points lie over the hidden ones.
DensePicture draw_dense(const DensePoints& points, const QRectF& view, const QSize& cells);

}  // namespace versieve::gui
