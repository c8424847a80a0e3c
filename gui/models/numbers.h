// Numbers as people read them. What is absent is a dash, never zero.
#pragma once

#include <QString>
#include <optional>

namespace versieve::gui {

inline constexpr char16_t kAbsent = u'\u2013';

QString fixed(double value, int decimals);  // "1 234.5"; NaN: a dash
// Of texts that are ASCII in files: "us" as µs.
QString with_micro(QString text);
QString tokens(std::int64_t count);  // "64K" if it is a multiple of 1024
QString bytes(double value);         // "1.05 MB"
QString nanoseconds(double value);   // "12.34 µs"
// "12.34 µs  (12.30 – 12.41)"
QString median_with_interval(const std::optional<double>& median, const std::optional<double>& low,
                             const std::optional<double>& high);
// Short text of an axis tick: "0.5", "64K" where the axis counts tokens.
QString tick_text(double value, double step, bool counts_tokens);

}  // namespace versieve::gui
