#include "gui/models/numbers.h"

#include <QRegularExpression>

#include <algorithm>
#include <array>
#include <cmath>

namespace versieve::gui {
namespace {

struct Scale {
  double factor;
  const char* unit;
};

QString scaled(double value, const std::array<Scale, 4>& scales) {
  if (!std::isfinite(value)) {
    return QString(QChar(kAbsent));
  }
  const Scale* best = &scales.front();
  for (const Scale& scale : scales) {
    if (std::fabs(value) >= scale.factor) {
      best = &scale;
    }
  }
  return fixed(value / best->factor, 2) + " " + best->unit;
}

constexpr std::array<Scale, 4> kBytes = {{{1.0, "B"}, {1e3, "kB"}, {1e6, "MB"}, {1e9, "GB"}}};
constexpr std::array<Scale, 4> kTimes = {{{1.0, "ns"}, {1e3, "µs"}, {1e6, "ms"}, {1e9, "s"}}};

}  // namespace

QString fixed(double value, int decimals) {
  if (!std::isfinite(value)) {
    return QString(QChar(kAbsent));
  }
  QString text = QString::number(value, 'f', decimals);
  const qsizetype point = decimals > 0 ? text.size() - decimals - 1 : text.size();
  constexpr char16_t kNarrowNoBreakSpace = u'\u202F';
  for (qsizetype at = point - 3; at > (value < 0 ? 1 : 0); at -= 3) {
    text.insert(at, QChar(kNarrowNoBreakSpace));
  }
  return text;
}

QString with_micro(QString text) {
  static const QRegularExpression us("\\bus\\b");
  return text.replace(us, QString::fromUtf8("µs"));
}

QString tokens(std::int64_t count) {
  return count >= 1024 && count % 1024 == 0 ? QString::number(count / 1024) + "K"
                                            : QString::number(count);
}

QString bytes(double value) {
  return scaled(value, kBytes);
}

QString nanoseconds(double value) {
  return scaled(value, kTimes);
}

QString median_with_interval(const std::optional<double>& median, const std::optional<double>& low,
                             const std::optional<double>& high) {
  if (!median) {
    return QString(QChar(kAbsent));
  }
  QString text = nanoseconds(*median);
  if (low && high) {
    text += "  (" + nanoseconds(*low) + " – " + nanoseconds(*high) + ")";
  }
  return text;
}

QString tick_text(double value, double step, bool counts_tokens) {
  if (counts_tokens && value >= 1024 && std::fmod(value, 1024.0) == 0.0) {
    return tokens(static_cast<std::int64_t>(value));
  }
  const int decimals = std::clamp(static_cast<int>(-std::floor(std::log10(step) + 1e-9)), 0, 6);
  return fixed(value, decimals);
}

}  // namespace versieve::gui
