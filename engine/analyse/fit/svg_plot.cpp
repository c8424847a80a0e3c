#include "engine/analyse/fit/svg_plot.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace versieve::engine {
namespace {

constexpr double kWidth = 460.0;
constexpr double kHeight = 340.0;
constexpr double kLeft = 62.0;
constexpr double kRight = 14.0;
constexpr double kTop = 28.0;
constexpr double kBottom = 44.0;

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

std::string at(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

// Maps data to 0..1, from the least to the greatest value with a margin.
class Scale {
 public:
  Scale(const PlotAxis& axis, const std::vector<double>& values) : axis_(axis) {
    double low = axis.symmetric ? 0.0 : values.front();
    double high = low;
    for (const double v : values) {
      low = std::min(low, v);
      high = std::max(high, v);
    }
    if (axis.symmetric) {
      high = std::max({high, -low, 0.01});
      low = -high;
    }
    low_ = position(low);
    high_ = position(high);
    const double margin = std::max(0.04 * (high_ - low_), 1e-6);
    low_ -= margin;
    high_ += margin;
  }

  double share(double value) const { return (position(value) - low_) / (high_ - low_); }

  std::vector<double> ticks() const {
    std::vector<double> out;
    if (axis_.logarithmic) {
      const double step = high_ - low_ > 1.5 ? 1.0 : 0.25;
      for (double p = std::ceil(low_ / step) * step; p <= high_; p += step) {
        out.push_back(std::pow(10.0, p));
      }
      return out;
    }
    const double raw = (high_ - low_) / 5.0;
    const double unit = std::pow(10.0, std::floor(std::log10(raw)));
    const double step = unit * (raw / unit > 5.0 ? 10.0 : (raw / unit > 2.0 ? 5.0 : 2.0));
    for (double p = std::ceil(low_ / step) * step; p <= high_; p += step) {
      out.push_back(std::abs(p) < 1e-9 * step ? 0.0 : p);
    }
    return out;
  }

 private:
  double position(double value) const { return axis_.logarithmic ? std::log10(value) : value; }

  const PlotAxis& axis_;
  double low_ = 0.0, high_ = 1.0;
};

bool shown(const PlotAxis& axis, double value) {
  return std::isfinite(value) && (!axis.logarithmic || value > 0.0);
}

class Drawing {
 public:
  Drawing(const Plot& plot, const std::vector<double>& xs, const std::vector<double>& ys)
      : plot_(plot),
        x_(plot.x, plot.diagonal ? both(xs, ys) : xs),
        y_(plot.y, plot.diagonal ? both(xs, ys) : ys) {}

  std::string draw(const std::vector<const PlotPoint*>& points) {
    frame();
    for (const bool strong : {false, true}) {
      for (const PlotPoint* p : points) {
        if (p->strong == strong) {
          dot(*p);
        }
      }
    }
    return out_;
  }

 private:
  static std::vector<double> both(std::vector<double> a, const std::vector<double>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }
  double left(double x) const { return kLeft + x_.share(x) * (kWidth - kLeft - kRight); }
  double down(double y) const {
    return kHeight - kBottom - y_.share(y) * (kHeight - kTop - kBottom);
  }

  void line(double x1, double y1, double x2, double y2, const char* style) {
    out_ += "<line x1=\"" + at(x1) + "\" y1=\"" + at(y1) + "\" x2=\"" + at(x2) + "\" y2=\"" +
            at(y2) + "\" class=\"" + style + "\"/>";
  }

  void text(double x, double y, const char* style, const std::string& words) {
    out_ += "<text x=\"" + at(x) + "\" y=\"" + at(y) + "\" class=\"" + style + "\">" +
            escaped(words) + "</text>";
  }

  void frame() {
    for (const double tick : x_.ticks()) {
      line(left(tick), kTop, left(tick), kHeight - kBottom, "grid");
      text(left(tick), kHeight - kBottom + 14.0, "mid", number(tick));
    }
    for (const double tick : y_.ticks()) {
      line(kLeft, down(tick), kWidth - kRight, down(tick), tick == 0.0 ? "zero" : "grid");
      text(kLeft - 5.0, down(tick) + 4.0, "end", number(tick));
    }
    if (plot_.diagonal) {
      line(kLeft, kHeight - kBottom, kWidth - kRight, kTop, "zero");
    }
    text(kWidth / 2.0, 16.0, "head", plot_.title);
    text(kWidth / 2.0, kHeight - 8.0, "mid", plot_.x.title);
    out_ += "<text class=\"mid\" transform=\"translate(13," + at(kHeight / 2.0) +
            ") rotate(-90)\">" + escaped(plot_.y.title) + "</text>";
  }

  void dot(const PlotPoint& p) {
    out_ += "<circle cx=\"" + at(left(p.x)) + "\" cy=\"" + at(down(p.y)) + "\" r=\"" +
            (p.strong ? "2.6" : "1.9") + "\" class=\"" + (p.strong ? "strong" : "dot") + "\">" +
            (p.label.empty() ? "" : "<title>" + escaped(p.label) + "</title>") + "</circle>\n";
  }

  const Plot& plot_;
  Scale x_, y_;
  std::string out_;
};

}  // namespace

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string svg_of(const Plot& plot) {
  std::vector<const PlotPoint*> points;
  std::vector<double> xs;
  std::vector<double> ys;
  for (const PlotPoint& p : plot.points) {
    if (shown(plot.x, p.x) && shown(plot.y, p.y)) {
      points.push_back(&p);
      xs.push_back(p.x);
      ys.push_back(p.y);
    }
  }
  std::string out = "<svg viewBox=\"0 0 " + at(kWidth) + " " + at(kHeight) + "\" width=\"" +
                    at(kWidth) + "\" height=\"" + at(kHeight) + "\">";
  if (points.empty()) {
    out += "<text x=\"20\" y=\"30\" class=\"head\" style=\"text-anchor:start\">" +
           escaped(plot.title) + ": nothing was measured</text>";
  } else {
    out += Drawing(plot, xs, ys).draw(points);
  }
  return out + "</svg>\n";
}

}  // namespace versieve::engine
