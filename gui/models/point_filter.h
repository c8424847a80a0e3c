// Which points are shown: terms separated by blanks, all of which must hold.
//   chat          a text column holds "chat"        -chat       none does
//   model=nsa-1b  a text column is exactly this     L>=16K  time<50  N!=64   a number compares
// Blanks around a sign and quotes around its text are left out: model = 'nsa-1b'.
#pragma once

#include <QString>
#include <functional>
#include <vector>

#include "gui/models/snapshot.h"

namespace versieve::gui {

class PointFilter {
 public:
  // Throws Error(kUsage) with one sentence.
  static PointFilter parse(const QString& text);

  std::vector<std::int32_t> apply(const Snapshot& snapshot) const;  // indices, ascending

 private:
  enum class Comparison { kContains, kLacks, kEqual, kUnequal, kLess, kAtMost, kMore, kAtLeast };
  struct Term {
    Comparison comparison = Comparison::kContains;
    int column = -1;  // of point_columns(); none for contains, lacks
    QString text;     // lower case
    double number = 0.0;
  };

  static Term parse_term(const QString& word);
  static Term comparison_term(const QString& key, const QString& sign, const QString& value);

  using PointTest = std::function<bool(const Snapshot&, const db::PointOverview&)>;
  static PointTest test_of(const Term& term);
  static bool compare(double value, Comparison comparison, double number);

  std::vector<Term> terms_;
};

// The filter with the column between two numbers, in the place of what it said of that column's
// numbers before.
QString with_range(const QString& filter, const QString& key, double low, double high);

}  // namespace versieve::gui
