// Scatter plots as SVG text: points on linear or logarithmic axes, with ticks and a title. What a
// report embeds; no file, no script.
#pragma once

#include <string>
#include <vector>

namespace versieve::engine {

struct PlotPoint {
  double x = 0.0;
  double y = 0.0;
  bool strong = false;  // drawn over the others, in the second colour
  std::string label;    // shown by the browser over the point
};

struct PlotAxis {
  std::string title;
  bool logarithmic = false;
  bool symmetric = false;  // around zero (linear only)
};

struct Plot {
  std::string title;
  PlotAxis x, y;
  bool diagonal = false;  // y = x
  std::vector<PlotPoint> points;
};

// Points whose coordinates an axis cannot show (not finite, not above 0 on a logarithm) are left
// out. An empty plot says so.
std::string svg_of(const Plot& plot);
// & < > " as entities.
std::string escaped(const std::string& text);

}  // namespace versieve::engine
